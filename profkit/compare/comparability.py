"""How comparable two sides are: a score, and their differences other than code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from profkit.compare.pair import Pair
from profkit.compare.result_types import Comparability, Residue
from profkit.measure.selected_processes import is_foreign
from profkit.measure.side_facts import counted_processes
from profkit.model import Notice, Profile, Run
from profkit.model.arrays import Bools, Rows, median

#: Factors by which a difference lowers the score, by how much of a ranking it can explain (conventions).
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
#: Share of self time in functions of one side only, above which the sides ran different programs.
MUCH_RESIDUE = 0.1
#: Factor between the sides' calls above which the workload differs.
CALLS_FACTOR = 1.1


def same_capture(baseline: Run, candidate: Run) -> bool:
    """Return whether two runs hold bit-identical profiles: clocks never repeat a whole run."""
    profiles_a, profiles_b = baseline.profiles, candidate.profiles
    if len(profiles_a) != len(profiles_b) or not any(len(p) for p in profiles_a):
        return False
    return all(_same_columns(a, b) for a, b in zip(profiles_a, profiles_b, strict=True))


def same_captures(pair: Pair) -> Bools:
    """Return, for each run of the baseline and each of the candidate, whether both are one capture."""
    runs, others = (side.runs.runs for side in pair.sides)
    return np.array([[same_capture(a, b) for b in others] for a in runs])


def residue_of(pair: Pair) -> Residue:
    """Return the residue of each side, as a number of functions and a share of self time."""
    of_one_side = pair.table.one_sided

    def only(rows: Rows, behind: Rows, profile: Profile) -> tuple[int, float]:
        alone = rows[np.isin(rows, behind[of_one_side])]
        total = profile.total
        # Summed in another order, a subset of rows can slightly exceed the total.
        return len(alone), min(1.0, float(profile.tottime[alone].sum()) / total) if total > 0 else 0.0

    alone = pair.alignment.baseline_only, pair.alignment.candidate_only
    before, after = map(only, alone, pair.behind, pair.profiles)
    return Residue(before[0], after[0], before[1], after[1])


def comparability(pair: Pair, residue: Residue, calls_factor: float, *, shared: bool) -> Comparability:
    """Score how alike the sides are in all that is known of them; `shared`: a run is on both.

    `calls_factor` is candidate over baseline calls, weighted by time, NaN if unknown.
    """
    baseline, candidate = (side.runs for side in pair.sides)
    score = 1.0
    said = list(pair.narrowed)

    def differs(part: float, notice: Notice) -> None:
        nonlocal score
        score *= part
        said.append(notice)

    if shared:
        said.append(Notice("same-capture"))
    sampled_a, sampled_b = (side.sampled for side in pair.sides)
    if sampled_a != sampled_b:
        differs(SAMPLED, Notice("one-side-sampled", "baseline" if sampled_a else "candidate"))
    if sampled_a and sampled_b:
        said.append(Notice("both-sides-sampled"))
    mixed_a, mixed_b = (side.threads_mixed for side in pair.sides)
    if mixed_a != mixed_b:
        differs(THREADS, Notice("one-side-mixes-threads", "baseline" if mixed_a else "candidate"))
    for side, profile in zip(("baseline", "candidate"), pair.profiles, strict=True):
        if len(profile) and not profile.tottime.any() and profile.cumtime.any():
            differs(CUMTIME_ONLY, Notice("cumulative-times-only", side))
    if pair.python_differs:
        versions = {"baseline": pair.baseline.python, "candidate": pair.candidate.python}
        differs(PYTHON, Notice("python-differs", "", versions))
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
        if without_directories(known_a.command) != without_directories(known_b.command):
            commands = {"baseline": " ".join(known_a.command), "candidate": " ".join(known_b.command)}
            differs(COMMAND, Notice("command-differs", "", commands))
    one, other = (int(median([counted_processes(r) for r in side.runs])) for side in (baseline, candidate))
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
    return [a.strings[i] for i in a.name.tolist()] == [b.strings[i] for i in b.name.tolist()]


def without_directories(command: Sequence[str], *, of_data: bool = True) -> tuple[str, ...]:
    """Return a command without the directories of interpreter and script (``<project>`` in a masked run).

    `of_data`: also without those of other absolute paths.
    """
    names = 1 + (of_data or "/python" in f"/{command[0]}") if command else 0
    words = [
        w.replace("\\", "/").rstrip("/").rpartition("/")[2]
        if i < names or w.endswith(".py") or (of_data and w.startswith(("/", "<project")))
        else w
        for i, w in enumerate(command)
    ]
    if words and words[0].startswith("python"):
        words[0] = "python"
    return tuple(words)
