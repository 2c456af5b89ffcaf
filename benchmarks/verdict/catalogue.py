"""What is run: the programs, the conditions, and which of them belong together. Declarations only.

A condition changes what is around a program, its settings, or its source. The settings are in a file beside the
program, not in its command line: a rule must not be able to read the answer off the command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Own threads and workers under oversubscription, per CPU.
TOO_MANY_PER_CPU = 4


@dataclass(frozen=True, slots=True)
class Condition:
    """One way to run a program.

    Attributes
    ----------
    label
        Of `truth.RIGHT`.
    hogs
        Busy processes per CPU; ``hog_duty`` is the part of the time that each wants.
    hog_cpu, cpu
        CPU that the hogs, or the program, are tied to.
    quota
        CPU quota per CPU that the program can use.
    stopped
        Part of the time in which the program is stopped by a signal.
    latency_s
        Of the store that the program fetches from.
    threads, workers
        Multiples of the CPUs, where they differ from the program's own.
    one
        ``threads`` or ``workers``: one of them, where the program has one a CPU.
    isa, changed, locked
        Another instruction set, another source, another program that holds the database's lock.
    serial, thorough
        Workers or threads do their work under one lock; a program that the program starts does more.
    no_bytecode, debug
        No module is compiled yet; a variable that is set to 1.
    cpus
        Fewest that the machine must have.
    cost
        Rough factor on the clean run's time, for the estimate only.
    """

    label: str
    hogs: float = 0.0
    hog_duty: float = 1.0
    hog_cpu: int | None = None
    cpu: int | None = None
    quota: float = 0.0
    stopped: float = 0.0
    latency_s: float = 0.0005
    threads: float = 0
    workers: int = 0
    one: str = ""
    work: float = 1.0
    size: float = 1.0
    isa: bool = False
    changed: bool = False
    locked: bool = False
    serial: bool = False
    thorough: bool = False
    no_bytecode: bool = False
    debug: str = ""
    baseline: str = "clean"
    cpus: int = 1
    cost: float = 1.0


CONDITIONS: Mapping[str, Condition] = {
    "clean": Condition("no-change"),
    # As many as half of the CPUs: a program of one thread does not notice, one that uses all does.
    "hogs-half": Condition("contention", hogs=0.5, cost=1.5),
    "hogs-1x": Condition("contention", hogs=1, cost=1.9),
    "hogs-2x": Condition("contention", hogs=2, cost=2.9),
    # A neighbour on every CPU that wants a quarter of it: mild.
    "bursty": Condition("contention", hogs=1, hog_duty=0.25, cost=1.3),
    "threads": Condition("contention", threads=TOO_MANY_PER_CPU, cost=2.0),
    "workers": Condition("contention", workers=TOO_MANY_PER_CPU, cost=1.5),
    "one-thread": Condition("thread-settings", one="threads", cost=1.5),
    # For a machine with more CPUs, where as many threads as CPUs can be more than pays; the other way it is too few.
    "quarter": Condition("thread-settings", threads=0.25, cpus=8, cost=1.5),
    "wide": Condition("thread-overhead", threads=1, baseline="quarter", cpus=8, cost=1.5),
    "one-worker": Condition("thread-settings", one="workers", cost=1.7),
    "quota": Condition("cpu-quota", quota=0.4, cost=2.4),
    "stopped": Condition("blocked", stopped=0.5, cost=1.9),
    "isa": Condition("slower-machine", isa=True, cost=1.4),
    "no-bytecode": Condition("start-up", no_bytecode=True, cost=1.5),
    "tracemalloc": Condition("environment", debug="PYTHONTRACEMALLOC", cost=2.0),
    "devmode": Condition("environment", debug="PYTHONDEVMODE", cost=1.2),
    "changed": Condition("code-change", changed=True, cost=1.6),
    "changed-hogs": Condition("code-change+contention", changed=True, hogs=1, cost=3.0),
    "work2": Condition("workload-change", work=2.0, cost=1.9),
    "size": Condition("larger-input", size=1.5, cost=1.8),
    "slow-store": Condition("data-starvation", latency_s=0.008, cost=2.5),
    "slow-server": Condition("blocked", latency_s=0.080, cost=1.8),
    "locked": Condition("blocked", locked=True, cost=2.0),
    # What is waited for is the program's own: its lock, or a program that it starts.
    "serial": Condition("blocked", serial=True, cost=1.7),
    "thorough": Condition("blocked", thorough=True, cost=2.0),
    "pinned": Condition("contention", cpu=0, cost=1.5),
    "pinned-hog": Condition("contention", cpu=0, hogs=0.5, hog_cpu=0, baseline="pinned", cost=2.0),
    # Of the pipeline's four stages the last is on CPU 1, the others on CPU 0.
    "rank-hog": Condition("contention", hogs=1, hog_cpu=1, cost=1.6),
    # Both sides beside the same busy processes: what differs is the program, and the queueing only follows it.
    "beside-changed": Condition("code-change", changed=True, hogs=1, baseline="hogs-1x", cost=3.0),
    "beside-size": Condition("larger-input", size=1.5, hogs=1, baseline="hogs-1x", cost=3.0),
    "beside-work2": Condition("workload-change", work=2.0, hogs=1, baseline="hogs-1x", cost=3.5),
}

#: Conditions that suit every program; taken only if they are named.
EVERYWHERE = ("no-bytecode", "tracemalloc", "devmode")

OPENBLAS = {"OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 X86_V3"}
NUMPY = {"NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 X86_V3 AVX512F X86_V4"}
TORCH = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}


@dataclass(frozen=True, slots=True)
class Program:
    """One program of ``programs/``.

    Attributes
    ----------
    work
        Rounds that take about a second on two CPUs; of the last eight programs 5 to 10 s.
    single
        Whether it uses one thread: what its clean run may use of the CPUs.
    thread_variable
        Variable that sets its threads, where they are not in the settings.
    isa
        Environment of another instruction set.
    ranks
        Started by ``mpirun``; 0: started directly.
    store
        Whether it fetches from the store.
    polls
        Whether it asks again and again for what it waits for, instead of blocking.
    environment
        Always set.
    """

    work: int
    conditions: tuple[str, ...]
    single: bool = False
    thread_variable: str = ""
    isa: Mapping[str, str] = field(default_factory=dict)
    ranks: int = 0
    store: bool = False
    polls: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


#: With spinning barriers one busy neighbour makes an OpenMP program 20 to 60 times slower, too slow to repeat.
PATIENT = {"OMP_WAIT_POLICY": "passive"}

PROGRAMS: Mapping[str, Program] = {
    "linear_algebra": Program(
        24,
        (
            "beside-changed",
            "beside-size",
            "beside-work2",
            "hogs-1x",
            "isa",
            "changed",
            "work2",
            "size",
            "quarter",
            "wide",
        ),
        thread_variable="OPENBLAS_NUM_THREADS",
        isa=OPENBLAS,
    ),
    "heat_grid": Program(
        250,
        (
            "beside-changed",
            "beside-size",
            "hogs-1x",
            "bursty",
            "stopped",
            "isa",
            "changed",
            "size",
            "changed-hogs",
        ),
        single=True,
        isa=NUMPY,
    ),
    "log_parser": Program(
        20, ("hogs-half", "hogs-2x", "quota", "changed", "work2", "pinned", "pinned-hog"), single=True
    ),
    "api_client": Program(400, ("hogs-1x", "changed", "slow-server"), store=True),
    "ledger": Program(
        70,
        ("beside-changed", "beside-size", "hogs-1x", "bursty", "quota", "locked", "changed", "size"),
        single=True,
    ),
    "augment_pool": Program(
        110,
        (
            "beside-changed",
            "beside-work2",
            "hogs-1x",
            "bursty",
            "workers",
            "one-worker",
            "changed",
            "work2",
            "serial",
        ),
    ),
    "train_loader": Program(12, ("hogs-1x", "threads", "slow-store", "changed"), store=True),
    "infer_omp": Program(
        40, ("threads", "one-thread", "isa", "size", "changed", "quarter", "wide"), isa=TORCH
    ),
    "vision_cv": Program(
        80,
        (
            "beside-changed",
            "beside-size",
            "hogs-1x",
            "bursty",
            "threads",
            "one-thread",
            "changed",
            "size",
            "pinned",
            "quarter",
            "wide",
        ),
    ),
    "fit_models": Program(
        5,
        ("hogs-half", "threads", "one-thread", "work2", "size", "quarter", "wide"),
        thread_variable="OMP_NUM_THREADS",
        environment=PATIENT,
    ),
    "spectra": Program(18, ("hogs-1x", "quota", "isa", "changed", "stopped", "quarter", "wide"), isa=NUMPY),
    "thumbnails": Program(12, ("hogs-1x", "pinned", "pinned-hog", "changed")),
    "pixels_ne": Program(
        50,
        ("beside-changed", "beside-size", "hogs-1x", "bursty", "size", "changed", "quota", "quarter", "wide"),
    ),
    "pipeline_mpi": Program(60, ("rank-hog", "changed", "work2", "size"), ranks=4),
    "digests": Program(70, ("bursty", "hogs-2x", "pinned", "changed", "stopped", "serial")),
    "stream_nvtx": Program(500, ("hogs-1x", "slow-store", "changed", "work2"), single=True, store=True),
    # Written after the rules: see docs/verdict.md.
    "neighbours_np": Program(
        10,
        ("beside-changed", "beside-work2", "hogs-1x", "bursty", "isa", "changed", "work2", "quarter", "wide"),
        thread_variable="OPENBLAS_NUM_THREADS",
        isa=OPENBLAS,
    ),
    "puzzles": Program(200, ("hogs-2x", "quota", "changed", "work2", "pinned", "pinned-hog"), single=True),
    "archive_pool": Program(
        30, ("beside-size", "hogs-1x", "workers", "one-worker", "changed", "size", "stopped", "serial")
    ),
    # They poll: calls of the functions that wait follow the time that is waited.
    "poll_pool": Program(45, ("hogs-1x", "workers", "one-worker", "changed", "work2"), polls=True),
    "poll_fetch": Program(
        1800, ("hogs-1x", "slow-server", "changed", "work2"), single=True, store=True, polls=True
    ),
    "poll_queue": Program(700, ("hogs-1x", "bursty", "slow-store", "changed"), store=True, polls=True),
    "train_conv": Program(
        15,
        (
            "beside-changed",
            "beside-size",
            "hogs-1x",
            "threads",
            "one-thread",
            "isa",
            "changed",
            "size",
            "quarter",
            "wide",
        ),
        isa=TORCH,
    ),
    # Longer ones, of packages that no rule had seen: judged once before any rule was touched, see docs/verdict.md.
    "boost_trees": Program(
        14, ("hogs-1x", "threads", "one-thread", "changed", "work2", "size", "quarter", "wide")
    ),
    "count_cells": Program(240, ("hogs-1x", "workers", "one-worker", "changed", "pinned", "size", "serial")),
    "evolve_routes": Program(330, ("bursty", "workers", "one-worker", "changed", "work2", "quota", "serial")),
    "cross_validate": Program(
        60,
        ("hogs-1x", "threads", "workers", "one-worker", "changed", "size", "quarter", "wide"),
        thread_variable="OPENBLAS_NUM_THREADS",
    ),
    "orbits": Program(300, ("hogs-2x", "quota", "stopped", "changed", "work2"), single=True),
    "join_frames": Program(
        35,
        ("hogs-1x", "threads", "one-thread", "changed", "size", "pinned"),
        thread_variable="POLARS_MAX_THREADS",
    ),
    "climate_blocks": Program(16, ("hogs-1x", "workers", "changed", "work2", "stopped")),
    "train_words": Program(
        60, ("hogs-1x", "threads", "slow-store", "changed", "workers", "quarter", "wide"), store=True
    ),
    # Programs that start others, which no profiler of Python sees.
    "pack_reports": Program(40, ("hogs-1x", "thorough", "changed", "work2"), single=True),
    "sort_events": Program(20, ("hogs-1x", "thorough", "changed", "work2"), single=True),
    "search_logs": Program(30, ("hogs-1x", "thorough", "changed", "one-worker")),
}
