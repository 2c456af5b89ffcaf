"""The labelled runs on disk: DIRECTORY/PROGRAM/CONDITION/REPEAT.prof with REPEAT.json, what the harness measured.

Two layouts are read: run files taken by `take`, and plain profiles of another harness whose counters are all in the
JSON. For each run there are two views: as captured, and as a plain cProfile would have seen it (the main thread
of the first process, no counters, no sources).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.verdict.catalogue import CONDITIONS, TOO_MANY_PER_CPU, Condition
from benchmarks.verdict.truth import Measured
from profkit.capture.agent.settings import recorded_environment
from profkit.formats.export.pstats_write import write_pstats
from profkit.formats.load import load_run
from profkit.formats.pstats_file import parse_pstats
from profkit.model import Host, Machine, Manifest, Process, Profile, Run, Thread

CLEAN = "clean"

#: Conditions of the plain layout, on two CPUs.
PLAIN_CONDITIONS = {
    "clean": Condition("no-change"),
    "hog1": Condition("contention", hogs=0.5),
    "hog2": Condition("contention", hogs=1),
    "hog4": Condition("contention", hogs=2),
    "oversub": Condition("contention", threads=TOO_MANY_PER_CPU, workers=TOO_MANY_PER_CPU),
    "thr8": Condition("contention", threads=TOO_MANY_PER_CPU),
    "quota": Condition("cpu-quota", quota=0.4),
    "duty": Condition("blocked", stopped=0.5),
    "isa": Condition("slower-machine", isa=True),
    "regress": Condition("code-change", changed=True),
    "work2": Condition("workload-change", work=2.0),
    "size": Condition("larger-input", size=1.5),
}
#: Seconds of one unit of /proc/stat.
TICK_S = 0.01


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of the corpus.

    Attributes
    ----------
    condition, setup
        Name of the condition, and what it was.
    baseline
        Name of the condition whose runs it is compared with.
    plain
        Whether the file is a plain profile whose counters are in the JSON.
    """

    workload: str
    condition: str
    repeat: int
    path: Path
    setup: Condition
    baseline: str
    measured: Measured
    plain: bool


def read_corpus(directory: Path) -> list[Sample]:
    """Return all runs of a directory, ordered by program, condition and repeat."""
    samples = list(_samples(directory))
    if not samples:
        raise SystemExit(f"{directory}: holds no PROGRAM/CONDITION/REPEAT.json; take a corpus first")
    return sorted(samples, key=lambda s: (s.workload, s.condition, s.repeat))


def _samples(directory: Path) -> Iterator[Sample]:
    for path in sorted(directory.glob("*/*/*.json")):
        profile = path.with_suffix(".prof")
        if not profile.exists() or not path.stem.isdigit():
            continue
        facts = json.loads(path.read_text())
        workload, condition = path.parts[-3:-1]
        plain = "label" not in facts
        known = PLAIN_CONDITIONS if plain else CONDITIONS
        if condition not in known:
            raise SystemExit(
                f"{path}: {condition!r} is not a condition of catalogue.py; remove it or declare it"
            )
        if not plain and "processes" not in facts:
            raise SystemExit(f"{path}: holds no figures of single processes; take this corpus again")
        yield Sample(
            workload,
            condition,
            int(path.stem),
            profile,
            known[condition],
            known[condition].baseline,
            _plain_measured(facts) if plain else _measured(facts),
            plain,
        )


def _measured(facts: dict[str, Any]) -> Measured:
    # Of each process: pid, threads, seconds run and waited, and those of its first thread.
    lead_wait_s = max((process[5] for process in facts["processes"]), default=0.0)
    return Measured(**facts["measured"], lead_wait_s=lead_wait_s)


def _plain_measured(facts: dict[str, Any]) -> Measured:
    wall, tree = facts["wall"], facts["harness"]
    periods = facts["cg_cpu.nr_periods"]
    return Measured(
        wall_s=wall,
        tree_run_s=tree["tree_run_s"],
        tree_wait_s=tree["tree_wait_s"],
        others_cores=max(0.0, (_plain_busy(facts) - tree["tree_run_s"]) / wall),
        throttled=facts["cg_cpu.nr_throttled"] / periods if periods else 0.0,
        cpus=float(facts["affinity"]),
        lead_wait_s=facts["per_thread"][0][2] * 1e-9,
    )


def _plain_busy(facts: dict[str, Any]) -> float:
    ticks = sum(facts[f"stat_{name}"] for name in ("user", "nice", "system", "irq", "softirq"))
    return float(ticks) * TICK_S


@lru_cache(maxsize=256)
def full_run(sample: Sample) -> Run:
    """Return the run with everything that was recorded of it."""
    run = load_run(sample.path)
    return _with_counters(sample, run) if sample.plain else run


@lru_cache(maxsize=256)
def foreign_run(sample: Sample) -> Run:
    """Return what ``python -m cProfile -o`` would have written, read as a user's file is."""
    run = load_run(sample.path)
    if sample.plain:
        return run
    main = run.processes[0]
    thread = next((t for t in main.threads if t.tid == main.pid), main.threads[0])
    return parse_pstats(sample.path, write_pstats(thread.profile))


def _with_counters(sample: Sample, run: Run) -> Run:
    """Put the counters of the other harness where `capture` would have put them."""
    facts = json.loads(sample.path.with_suffix(".json").read_text())
    tree, wall = facts["harness"], facts["wall"]
    main_pid = facts["per_thread"][0][0]
    threads = tuple(
        Thread(
            run.processes[0].threads[0].profile if tid == main_pid else Profile.empty(),
            tid=tid,
            run_s=run_ns * 1e-9,
            run_queue_wait_s=wait_ns * 1e-9,
            timeslices=slices,
        )
        for tid, run_ns, wait_ns, slices in facts["per_thread"]
    )
    host = Host(name="machine", cpus=facts["cpu_count"], affinity=facts["affinity"])
    own_run, own_wait = facts["process_cpu"], facts["all_wait_ns"] * 1e-9
    main = Process(
        pid=main_pid,
        python=run.processes[0].python,
        wall_s=wall,
        cpu_s=own_run,
        run_queue_wait_s=own_wait,
        threads=threads,
        host=host,
    )
    # Everything else that the harness saw in the tree: loader workers, other ranks.
    rest_run, rest_wait = max(0.0, tree["tree_run_s"] - own_run), max(0.0, tree["tree_wait_s"] - own_wait)
    processes = [main]
    if rest_run > TICK_S or rest_wait > TICK_S:
        processes.append(
            Process(
                pid=main_pid + 1,
                parent=main_pid,
                role="worker",
                cpu_s=rest_run,
                run_queue_wait_s=rest_wait,
                profiled=False,
            )
        )
    quota = facts["cfg"]["quota"]
    machine = Machine(
        cpus=facts["cpu_count"],
        quota_cpus=quota / 100_000 if quota else None,
        wall_s=wall,
        busy_s=_plain_busy(facts),
        steal_s=facts["stat_steal"] * TICK_S,
        psi_some_s=facts["psi_some_total_us"] * 1e-6,
        throttled_s=facts["cg_cpu.throttled_time"] * 1e-9,
        throttled_periods=facts["cg_cpu.nr_throttled"],
        periods=facts["cg_cpu.nr_periods"],
    )
    manifest = Manifest(
        schema="profkit.run/1",
        profkit="",
        command=("python", f"{sample.workload}.py"),
        cwd="",
        exit_status=0,
        started="",
        wall_s=wall,
        environment=recorded_environment(facts["cfg"]["env"]),
        host=host,
    )
    return Run(run.path, tuple(processes), manifest, machine, run.warnings)
