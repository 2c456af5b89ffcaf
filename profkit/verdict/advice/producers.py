"""Advice by the names that rules use: commands, variables, and the expected gain of each."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from profkit.measure.run_settings import set_by_hand
from profkit.measure.side_facts import SideFacts
from profkit.model import PROJECT
from profkit.verdict.advice.size_limits import limit_advice
from profkit.verdict.machine_differences import models_differ, other_instructions
from profkit.verdict.readings.code_and_calls import code_row
from profkit.verdict.rule import Case, Judged
from profkit.verdict.slowing_settings import without_options
from profkit.verdict.thresholds import value
from profkit.verdict.types import Advice

#: Variables that size thread pools; variables that the run set come first, else the first two are named.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
#: Number of functions that grew most among which one that only waited is searched.
MOST_BLAMED = 10
#: Runs a side from which replicates separate causes that one pair confuses (recall 0.89, false alarms 1.6 %).
ENOUGH_RUNS = 5

#: Least gain of advice, as a part of the wall: runs differ by less.
LEAST_GAIN = 0.02
#: Part of the CPUs from which they are full.
FULL = 0.9
#: For a function that waited for CPUs: least part of its growth that is queueing, and greatest factor of its
#: own CPU time per call.
WAITED, SAME_PER_CALL = 0.7, 1.1
#: Kinds of advice that change the recorded command, and kinds that edit a line of the program.
_COMMANDS = frozenset(("limit-threads", "within-quota", "more-cpus", "same-settings"))
_EDITS = frozenset(("edit-code", "start-fewer"))
#: Variable prefixes of batch systems, which assign CPUs to a job: it must not take those of others.
_BATCH = ("SLURM_", "PBS_", "LSB_")

#: Prints where a library is, by the name under which it is imported: pip may know it by another.
_WHERE = "import sys; from importlib.util import find_spec; print(find_spec(sys.argv[1]))"

Found = Iterable[Advice]


def advise(names: Iterable[str], case: Judged, bucket: str, seconds: float) -> tuple[Advice, ...]:
    """Return the advice of some names, greatest gain first, at most the `seconds` of `bucket`."""
    lost = seconds if seconds > 0 else math.nan
    found = []
    for name in names:
        for advice in PRODUCERS[name](case, lost):
            if advice.cures:
                gain = lost if math.isnan(advice.predicted_gain_s) else min(lost, advice.predicted_gain_s)
                least = _beyond_noise(case, bucket, gain)
                advice = replace(advice, cures=bucket, predicted_gain_s=gain, least_gain_s=least)
            found.append(advice)
    found.sort(key=lambda one: -one.predicted_gain_s if math.isfinite(one.predicted_gain_s) else 0.0)
    if any(map(can_be_tried, found)):
        files = (case.before.file, case.now.file)
        found.append(Advice("verify", ("profkit", "verify"), files=tuple(file for file in files if file)))
    return tuple(found)


def can_be_tried(advice: Advice) -> bool:
    """Return whether advice changes the recorded command, or a program line whose place is known."""
    if advice.kind in _COMMANDS:
        return bool(advice.argv)
    return advice.kind in _EDITS and advice.where is not None and bool(advice.subject)


# Contention ---------------------------------------------------------------------------------------------------


def _limit_threads(case: Judged, lost: float) -> Found:
    """Cut what asks for too much, as shown by the inventory, or by the number of processes."""
    side = case.now
    yield from _limits(case, lost)
    if side.available_cpus and _pools_unknown(side):
        each = max(1, int(side.available_cpus // max(1, side.processes)))
        names = [n for n in THREAD_VARIABLES if n in side.environment] or list(THREAD_VARIABLES[:2])
        yield Advice("limit-threads", side.command, dict.fromkeys(names, str(each)), cures="queue")
        if side.processes > side.available_cpus:
            most = max(1, int(side.available_cpus))
            numbers = {"processes": side.processes, "cpus": side.available_cpus, "most": most}
            yield Advice("start-fewer", cures="queue", numbers=numbers)


def _pools_unknown(side: SideFacts) -> bool:
    return all(process.pools is None for process in side.inventory.processes)


def _limits(case: Judged, lost: float) -> Found:
    """Return advice on sizes that the inventory shows to be too large, where cutting them pays."""
    side = case.now
    most = tuple(_saved(case, side.available_cpus, spins=spins) for spins in (True, False))
    found = limit_advice(side.inventory, side.command, lost, (most[0], most[1]))
    yield from (_promised(advice, case, side.available_cpus) for advice in found if _worth_it(advice, side))


def _beyond_noise(case: Judged, bucket: str, gain: float) -> float:
    """Return the part of a gain that runs as they are do not differ by; 0 if unknown."""
    try:
        emptied = case.account.bucket(bucket)
    except KeyError:
        return 0.0
    account, noise = case.account, emptied.seconds - emptied.low
    # Other programs' noise is a part of the baseline's wall; a longer run differs by as large a part of its own.
    if account.basis == "other-programs" and account.baseline_s > 0:
        noise *= max(1.0, account.candidate_s / account.baseline_s)
    least = gain - noise
    return least if least >= LEAST_GAIN * (case.now.wall_s or 0.0) else 0.0


def _least_wall(case: Judged, cpus: float | None, *, spins: bool) -> float | None:
    """Return the seconds that the work takes with all CPUs busy; ``None`` if unknown.

    Threads that wait for each other spin: only a baseline shows how much of their CPU time was work.
    """
    spent = [side.own_run_s for side in (case.before, case.now)]
    known = [seconds for seconds in spent if seconds is not None]
    if not cpus or (spins and len(known) < 2) or not known:
        return None
    return min(known) / cpus


def _saved(case: Judged, cpus: float | None, *, spins: bool) -> float:
    """Return the seconds that `_least_wall` is shorter than the run; infinite if unknown."""
    least = _least_wall(case, cpus, spins=spins)
    return math.inf if least is None or case.now.wall_s is None else max(0.0, case.now.wall_s - least)


def _promised(advice: Advice, case: Judged, cpus: float | None) -> Advice:
    """Return advice whose gain leaves the CPUs idle for the same part of the time as in the baseline.

    Work in one thread keeps the other CPUs idle with any setting; a baseline with as many CPUs shows for how long.
    """
    before = case.before
    least = _least_wall(case, cpus, spins=False)
    busy = sum(cores or 0.0 for cores in (before.own_cores, before.others_cores, before.steal_cores))
    if not busy or not cpus or before.available_cpus != cpus or least is None or not case.now.wall_s:
        return advice
    most = case.now.wall_s - least / min(1.0, busy / cpus)
    kept = most if most >= LEAST_GAIN * case.now.wall_s else 0.0
    return replace(advice, predicted_gain_s=min(advice.predicted_gain_s, kept))


def _worth_it(advice: Advice, side: SideFacts) -> bool:
    return not advice.predicted_gain_s < LEAST_GAIN * (side.wall_s or 0.0)


def _more_cpus(case: Judged, lost: float) -> Found:
    side = case.now
    free = _free_to_take(case)
    numbers = {"cpus": side.available_cpus, "machine": free}
    gain = _saved(case, free, spins=False)
    if free and math.isfinite(gain):
        words = side.command
        argv = ("taskset", "-c", f"0-{free - 1}", *(words[3:] if words[:2] == ("taskset", "-c") else words))
        advice = Advice("more-cpus", argv, cures="queue", predicted_gain_s=gain, numbers=numbers)
        if _worth_it(advice, side):
            yield _promised(advice, case, free)


def _free_to_take(case: Judged) -> int:
    """Return the machine's CPUs if the run was bound to fewer and the others are free, else 0."""
    side = case.now
    found = side.inventory
    batch = any(name.startswith(_BATCH) for name in side.environment)
    if not found.affinity or not found.cpus or found.ranks or len(found.hosts) != 1 or batch:
        return 0
    known = case.before.inventory.affinity if case.before.host == side.host else None
    most = max(found.cpus, known or 0)
    taken = found.affinity + (side.others_cores or 0.0) + (side.steal_cores or 0.0)
    return most if taken < most - 0.5 and not found.quota_cpus else 0


def _contention(case: Judged, lost: float) -> Found:
    side = case.now
    if case.read("contention.kind") == "self-oversubscription":
        if bound := _bound_itself(side):
            yield bound
            return
        found = [*_limit_threads(case, lost), *_more_cpus(case, lost)]
        yield from found
        cpus = side.available_cpus or 0.0
        if found:
            return
        if cpus and any(process.surprising for process in side.inventory.processes):
            queued = [part.name for part in case.account.bucket("queue").parts if part.kind == "function"]
            yield Advice(
                "own-threads", subject=queued[0] if queued else "", numbers={"cpus": max(1, int(cpus))}
            )
        elif (side.own_cores or 0.0) >= FULL * cpus > 0:
            yield Advice("give-cpus", numbers={"cpus": cpus})
        return
    yield Advice("capture-idle", side.command, cures="queue")
    yield Advice("list-processes", ("ps", "-eo", "pid,user,psr,pcpu,etime,comm", "--sort=-pcpu"))


def _bound_itself(side: SideFacts) -> Advice | None:
    """Return the advice for a program that bound itself to fewer CPUs than it was given."""
    given, left = side.inventory.affinity, side.available_cpus
    if (
        not given
        or not left
        or side.inventory.ranks
        or left >= min(given, side.inventory.quota_cpus or given)
    ):
        return None
    return Advice("unbind", cures="queue", numbers={"cpus": left, "machine": given})


def _raise_quota(case: Judged, lost: float) -> Found:
    side = case.now
    for advice in _limits(case, lost):
        yield replace(advice, kind="within-quota") if advice.kind == "limit-threads" else advice
    if side.available_cpus and _pools_unknown(side):
        threads = str(max(1, int(side.available_cpus)))
        yield Advice("within-quota", side.command, {"OMP_NUM_THREADS": threads}, cures="queue")
    gain = _saved(case, float(side.inventory.affinity or 0), spins=False)
    yield Advice(
        "look-at-quota",
        ("profkit", "doctor"),
        cures="queue",
        predicted_gain_s=gain,
    )


def _not_the_code(case: Judged, lost: float) -> Found:
    """Name the function that grew most but only waited for CPUs, which a profiler alone would blame."""
    if not isinstance(case, Case):
        return
    table = case.signals.table
    a, b = table.baseline, table.candidate
    if a.wait is None or b.wait is None:
        return
    growth = b.active - a.active
    known = case.signals.origins.ratios.known
    own = [
        np.where(known & side.present, (side.active - side.wait) / np.maximum(side.ncalls, 1), np.nan)
        for side in (a, b)
        if side.wait is not None
    ]
    for row in np.argsort(-growth, kind="stable")[:MOST_BLAMED].tolist():
        if not growth[row] >= LEAST_GAIN * float(b.active.sum()):
            return
        queued = float(b.wait[row] - a.wait[row])
        before, after = float(own[0][row]), float(own[1][row])
        if table.keys[row].root != PROJECT or table.waits(row):
            continue
        if (
            queued >= WAITED * growth[row]
            and before > 0
            and 1 / SAME_PER_CALL <= after / before <= SAME_PER_CALL
        ):
            numbers = {"queued": queued, "before": before, "after": after}
            yield Advice("not-the-code", subject=table.shown(row), numbers=numbers)
            return


def _same_settings(case: Case, lost: float) -> Found:
    """Run the candidate's command with the baseline's variables, where they differ, and without debugging."""
    before, after = (set_by_hand(side.environment) for side in (case.before, case.now))
    differing = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    command = without_options(case.now.command)
    if command and (differing or command != case.now.command):
        unset = [word for name in differing if name not in before for word in ("-u", name)]
        argv = ("env", *unset, *command) if unset else command
        yield Advice("same-settings", argv, {name: before[name] for name in differing if name in before})


def _as_wide(case: Case, lost: float) -> Found:
    """Limit the pools of libraries to the width that they had in the baseline, or set its variables."""
    found, wide = case.now.inventory, case.before.pool_threads
    hosts = tuple(replace(host, available_cpus=wide) for host in found.hosts)
    limits = limit_advice(replace(found, hosts=hosts), case.now.command, lost)
    yield from limits or _same_settings(case, lost)


def _compile_once(case: Case, lost: float) -> Found:
    if case.number("imports.compiled") >= value("part.most"):
        yield Advice("compile-once", cures="startup")


def _more_runs(case: Case, lost: float) -> Found:
    missing = ENOUGH_RUNS - case.signals.repeats
    if missing <= 0:
        return
    commands = {"baseline": case.before.command, "candidate": case.now.command}
    if not all(commands.values()):
        commands = {"": ()}
    for side, command in commands.items():
        yield Advice("more-runs", command, subject=side, numbers={"runs": missing})


def _if_far(case: Case, lost: float) -> Found:
    """Return the advice on more runs where single runs differ by more than clean ones mostly do."""
    factor = case.read("time.slowdown")
    if isinstance(factor, float) and max(factor, 1 / factor) > value("time.sure-of-none"):
        yield from _more_runs(case, lost)


def _run_sides(kind: str, wanted: Callable[[SideFacts, int], bool]) -> Callable[[Case, float], Found]:
    """Make a producer that runs the commands of some sides again, by their facts and exit statuses."""

    def producer(case: Case, lost: float) -> Found:
        sides = (case.before, case.now)
        for name, side, status in zip(("baseline", "candidate"), sides, case.signals.exits, strict=True):
            if wanted(side, status):
                yield Advice(kind, side.command, subject=name)

    return producer


def _capture_exact(case: Case, lost: float) -> Found:
    """Count every call of both sides; where that was done, only the inputs remain to be compared."""
    if case.before.traced and case.now.traced:
        return (Advice("compare-inputs"),)
    return _run_sides("capture-exact", lambda side, status: True)(case, lost)


def _git_log(case: Case, lost: float) -> Found:
    """Show the file's changes in git between the revisions of both sides, or uncommitted changes."""
    row = code_row(case)
    table = case.signals.table
    before, after = (side.revision.split(" ") for side in (case.before, case.now))
    captured = case.now.command
    if row < 0 or not table.keys[row].path or (captured and not after[0]):
        return  # the candidate ran outside a repository
    if not before[0] or not after[0]:
        words: tuple[str, ...] = ("log", "-p")
    elif len(after) > 1:
        words = ("diff", before[0])
    elif before[0] != after[0]:
        words = ("diff", before[0], after[0])
    else:
        return  # git does not follow the file
    yield Advice(
        "git-log", ("git", *words, "--", table.keys[row].path), subject=table.name[row], cures="code"
    )


def _await(case: Judged, lost: float) -> Found:
    """Address the main wait; if it was not seen, say how to record it."""
    waited = case.account.bucket("blocked").waited
    longer = [one for one in waited if one.candidate_s > one.baseline_s and one.what != "other"]
    if longer:
        most = longer[0]
        gain = most.candidate_s - most.baseline_s
        numbers = {"what": most.what}
        yield Advice("await", subject=most.name, cures="blocked", predicted_gain_s=gain, numbers=numbers)
        return
    yield Advice("show-waiting", ("profkit", "show", "--by", "cumtime"), files=(case.now.file,))


def _start_once(case: Judged, lost: float) -> Found:
    """Start workers once; name an import that the program could do without."""
    packages = case.now.worker_packages
    others = [package for package in packages if package not in sys.stdlib_module_names]
    yield Advice("start-once", subject=others[0] if others else "", cures="startup")


def _lscpu(case: Case, lost: float) -> Found:
    if models_differ(case.before, case.now) or not other_instructions(case.before, case.now):
        yield Advice("lscpu", ("lscpu",))


def _as_many(what: str, kind: str) -> Callable[[Case, float], Found]:
    """Advise to start as many as the baseline."""

    def found(case: Case, lost: float) -> Found:
        numbers = {"before": round(case.number(f"{what}-before")), "after": round(case.number(what))}
        yield Advice(kind, cures="speed", numbers=numbers)

    return found


def _files(case: Judged, lost: float) -> Found:
    if case.read("reading.kind"):
        limit = case.now.memory_limit_bytes
        yield Advice("more-memory", numbers={} if limit is None else {"limit": limit})
        return
    yield Advice("warm-files")
    if isinstance(case, Case):
        yield Advice("warm-baseline")


def _release_gil(case: Judged, lost: float) -> Found:
    held = [part for part in case.account.bucket("gil").parts if part.kind == "holder"]
    if held:
        yield Advice("release-gil", subject=held[0].name, cures="gil")


#: By the name that rules use.
PRODUCERS: Mapping[str, Callable[[Any, float], Found]] = {
    "contention": _contention,
    "more-cpus": _more_cpus,
    "raise-quota": _raise_quota,
    "not-the-code": _not_the_code,
    "capture-both": _run_sides("capture-side", lambda side, status: side.wait_fraction is None),
    "more-runs": _more_runs,
    "more-runs-if-far": _if_far,
    "same-settings": _same_settings,
    "compile-once": _compile_once,
    "keep-compiled": lambda case, lost: (
        Advice("keep-compiled", subject=str(case.read("jit.named") or ""), cures="speed"),
    ),
    "compare-libraries": lambda case, lost: (
        Advice("compare-libraries", ("python", "-c", _WHERE, str(case.read("library.named") or ""))),
    ),
    "files": _files,
    "as-wide": _as_wide,
    "run-to-end": _run_sides("run-to-end", lambda side, status: status != 0),
    "capture-exact": _capture_exact,
    "capture-sampled": _run_sides("capture-sampled", lambda side, status: True),
    "git-log": _git_log,
    "compare-inputs": lambda case, lost: (Advice("compare-inputs"),),
    "lscpu": _lscpu,
    "show-workers": lambda case, lost: (Advice("show-workers", ("profkit", "show"), files=(case.now.file,)),),
    "await": _await,
    "release-gil": _release_gil,
    "start-once": _start_once,
    "gpu-alone": lambda case, lost: (Advice("capture-idle", case.now.command, cures="gpu"),),
    "gpu-processes": lambda case, lost: (Advice("gpu-processes", ("nvidia-smi",)),),
    "collect-less": lambda case, lost: (Advice("collect-less", cures="gc"),),
    "fewer-python-threads": lambda case, lost: (Advice("fewer-python-threads"),),
    "more-workers": _as_many("workers", "more-workers"),
    "more-threads": _as_many("python-threads", "more-threads"),
    "child-commands": lambda case, lost: (
        Advice(
            "child-commands",
            ("profkit", "show", "--full"),
            files=(case.now.file,),
            subject=case.now.child_program,
        ),
    ),
    "shorter-lock": lambda case, lost: (
        Advice("await", subject=case.now.locked_in, numbers={"what": "lock"}),
    ),
    "more-loaders": lambda case, lost: (Advice("more-loaders", cures="loading"),),
}
