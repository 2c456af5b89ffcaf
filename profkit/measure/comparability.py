"""How far two sides can be compared at all: a score, and what differs besides the code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from profkit.identity.keys import infer_python
from profkit.measure.select import is_foreign
from profkit.measure.tables import Comparability, Residue
from profkit.model import Notice, Profile, Run, RunSet
from profkit.model.arrays import median

#: What each difference leaves of the score; products of them. They order the cases by how much of a ranking
#: the difference can explain alone, and are conventions, not measurements.
SAMPLED = 0.3
CUMTIME_ONLY = 0.3
THREADS = 0.5
WORKLOAD = 0.5
COMMAND = 0.7
PROCESSES = 0.7
PYTHON = 0.8
CPU_MODEL = 0.8
CPUS = 0.9
HOST = 0.95
#: Share of self time in functions that only one side has, above which the sides ran different things.
MUCH_RESIDUE = 0.1
#: Factor of all calls between the sides above which the workload differs.
CALLS_FACTOR = 1.1


def same_capture(baseline: Run, candidate: Run) -> bool:
    """Return whether two runs hold the same profiles to the last bit: clocks never repeat a whole run."""
    profiles_a = [t.profile for p in baseline.processes for t in p.threads]
    profiles_b = [t.profile for p in candidate.processes for t in p.threads]
    if len(profiles_a) != len(profiles_b) or not any(len(p) for p in profiles_a):
        return False
    return all(_same_columns(a, b) for a, b in zip(profiles_a, profiles_b, strict=True))


def same_captures(baseline: RunSet, candidate: RunSet) -> bool:
    """Return whether each run of either side is on the other side too; a few shared ones prove nothing."""
    return all(
        any(same_capture(a, b) for b in other.runs)
        for side, other in ((baseline, candidate), (candidate, baseline))
        for a in side.runs
    )


def comparability(
    baseline: RunSet,
    candidate: RunSet,
    profile_a: Profile,
    profile_b: Profile,
    residue: Residue,
    calls_factor: float,
    warnings: Sequence[Notice] = (),
) -> Comparability:
    """Score how alike the sides are in all that is known of them.

    `calls_factor` is the candidate's calls over the baseline's, weighted by time; NaN where unknown.
    """
    score = 1.0
    said = list(warnings)

    def differs(part: float, notice: Notice) -> None:
        nonlocal score
        score *= part
        said.append(notice)

    if any(same_capture(a, b) for a in baseline.runs for b in candidate.runs):
        said.append(Notice("same-capture"))
    sampled_a, sampled_b = sampled(baseline), sampled(candidate)
    if sampled_a != sampled_b:
        differs(SAMPLED, Notice("one-side-sampled", "baseline" if sampled_a else "candidate"))
    if sampled_a and sampled_b:
        said.append(Notice("both-sides-sampled"))
    mixed_a, mixed_b = threads_mixed(baseline), threads_mixed(candidate)
    if mixed_a != mixed_b:
        differs(THREADS, Notice("one-side-mixes-threads", "baseline" if mixed_a else "candidate"))
    for side, profile in (("baseline", profile_a), ("candidate", profile_b)):
        if len(profile) and not profile.tottime.any() and profile.cumtime.any():
            differs(CUMTIME_ONLY, Notice("cumulative-times-only", side))
    python_a, python_b = _python(baseline, profile_a), _python(candidate, profile_b)
    if versions_differ(baseline, candidate, profile_a, profile_b):
        differs(PYTHON, Notice("python-differs", "", {"baseline": python_a, "candidate": python_b}))
    known_a, known_b = baseline.runs[0].manifest, candidate.runs[0].manifest
    if known_a and known_b:
        host_a, host_b = known_a.host, known_b.host
        if host_a.cpu_model != host_b.cpu_model and host_a.cpu_model and host_b.cpu_model:
            models = {"baseline": host_a.cpu_model, "candidate": host_b.cpu_model}
            differs(CPU_MODEL, Notice("cpu-model-differs", "", models))
        elif host_a.name != host_b.name and host_a.name and host_b.name:
            differs(HOST, Notice("host-differs", "", {"baseline": host_a.name, "candidate": host_b.name}))
        cpus_a, cpus_b = host_a.available_cpus, host_b.available_cpus
        if cpus_a and cpus_b and cpus_a != cpus_b:
            differs(CPUS, Notice("cpus-differ", "", {"baseline": cpus_a, "candidate": cpus_b}))
        if _arguments(known_a.command) != _arguments(known_b.command):
            commands = {"baseline": " ".join(known_a.command), "candidate": " ".join(known_b.command)}
            differs(COMMAND, Notice("command-differs", "", commands))
    one, other = (_middle(len(r.processes) for r in side.runs) for side in (baseline, candidate))
    if one != other and is_foreign(baseline.runs[0]) == is_foreign(candidate.runs[0]):
        differs(PROCESSES, Notice("process-count-differs", "", {"baseline": one, "candidate": other}))
    if np.isfinite(calls_factor) and not 1 / CALLS_FACTOR <= calls_factor <= CALLS_FACTOR:
        differs(WORKLOAD, Notice("calls-differ", "", {"calls": float(calls_factor)}))
    for side, share in (
        ("baseline", residue.baseline_only_share),
        ("candidate", residue.candidate_only_share),
    ):
        if share > MUCH_RESIDUE:
            differs(1 - share, Notice("functions-of-one-side", side, {"self_time": float(share)}))
    alone = [n for n, s in (("baseline", baseline), ("candidate", candidate)) if len(s.runs) == 1]
    if alone:
        said.append(Notice("single-run", alone[0] if len(alone) == 1 else ""))
    return Comparability(max(0.0, score), tuple(said))


def _same_columns(a: Profile, b: Profile) -> bool:
    if len(a) != len(b):
        return False
    numbers = ("line", "ncalls", "primitive_calls", "tottime", "cumtime")
    if not all(np.array_equal(getattr(a, c), getattr(b, c)) for c in numbers):
        return False
    if a.strings is b.strings or a.strings == b.strings:
        return np.array_equal(a.name, b.name)
    return [a.strings[i] for i in a.name.tolist()] == [b.strings[i] for i in b.name.tolist()]


def sampled(side: RunSet) -> bool:
    """Return whether a side's times come from samples: readers note it, the columns do not show it."""
    return _noted(side, "sampled-profile", "foreign-samples")


def threads_mixed(side: RunSet) -> bool:
    """Return whether a side holds calls of all threads where cProfile before 3.12 holds those of one."""
    return _noted(side, "threads-in-one-stack")


def _noted(side: RunSet, *codes: str) -> bool:
    return any(notice.code in codes for run in side.runs for notice in run.warnings)


def versions_differ(baseline: RunSet, candidate: RunSet, profile_a: Profile, profile_b: Profile) -> bool:
    """Return whether both sides' Python is known and differs in its minor version."""
    python_a, python_b = _python(baseline, profile_a), _python(candidate, profile_b)
    return bool(python_a) and bool(python_b) and _minor(python_a) != _minor(python_b)


def _python(side: RunSet, profile: Profile) -> str:
    for process in side.runs[0].processes:
        if process.python:
            return process.python
    inferred = infer_python(profile)
    return f"{inferred[0]}.{inferred[1]}" if inferred else ""


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _arguments(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command without the directories of interpreter and script (``<project>`` in a masked run)."""
    words = [
        w.replace("\\", "/").rstrip("/").rpartition("/")[2] if i < 2 or w.startswith(("/", "<project")) else w
        for i, w in enumerate(command)
    ]
    if words and words[0].startswith("python"):
        words[0] = "python"
    return tuple(words)


def _middle(counts: Iterable[int]) -> int:
    return int(median(list(counts)))
