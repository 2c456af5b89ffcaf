"""What would start how many threads here: launch lines, sizes by limits, plans, what a program did, and reports."""

from __future__ import annotations

import json
import os
import platform
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.api.reported import Studied
from profkit.capture import cpu_limits
from profkit.capture.cpu_limits import Limits, Ranks, cpu_list, ranks_of, read_limits, slurm_cpus
from profkit.capture.interpreter import Interpreter, read_interpreter
from profkit.model import Host, Machine, Pool, Process, Profile, Run, Thread
from profkit.model.series import ThreadSamples
from profkit.report.doctordoc import DoctorReport
from profkit.report.wording.doctor import LIBRARY_TITLES, own_texts, risk
from profkit.study.doctor import Diagnosis, Own, diagnose, size_of
from profkit.study.doctor_libraries import DOCUMENTED, LIBRARIES, TABLE, honours_of
from profkit.study.doctor_load import Load, load_of
from profkit.study.launch import LAUNCHERS, fitting, launcher_of, lines, of_setting
from tests.builders import Row, manifest, profile
from tests.requirements import require
from tests.shared import check_schema, succeeded, words_of


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_with_threads_and_workers_fit_the_cpus(launcher: str) -> None:
    for cpus, ranks, workers, threads in product((0.5, 1, 2, 7.5, 8, 64), (1, 3, 8), (0, 1, 5), (None, 1, 4)):
        limits = Limits(cpus=64, cores=32, affinity=tuple(range(64)), affinity_cores=32)
        launch = fitting(limits, cpus, ranks=ranks, workers=workers, threads=threads, launcher=launcher)
        text = "\n".join(lines(launch))
        started = int(re.findall(r"(?:--ntasks-per-node=|--nproc-per-node=|mpirun -n )(\d+)", text)[0])
        sized = int(re.findall(r"OMP_NUM_THREADS=(\d+)", text)[0])
        helping = int((re.findall(r"num_workers=(\d+)", text) or ["0"])[0])
        most = max(1, int(cpus))
        assert 1 <= started <= ranks
        assert 1 <= sized <= (threads or most)
        assert started * (sized + helping) <= most
        assert started * helping * sized <= most, "workers of a Pool have the variable, too"
        if launcher == "mpirun":
            assert started * int(re.findall(r"PE=(\d+)", text)[0]) <= 32, "Open MPI counts cores"


def test_the_launcher_is_that_of_the_command_or_of_the_job() -> None:
    free = Limits(cpus=8)
    in_slurm = Limits(cpus=8, slurm=(4, "SLURM_CPUS_PER_TASK"))
    assert launcher_of(free, ("/usr/bin/mpirun", "-n", "2", "python", "t.py")) == "mpirun"
    assert launcher_of(Limits(cpus=8, ranks=Ranks("torchrun", 4, False)), ("python", "t.py")) == "torchrun"
    assert launcher_of(in_slurm, ("python", "t.py")) == "slurm"
    assert launcher_of(in_slurm, ("mpirun", "python", "t.py")) == "mpirun"
    assert launcher_of(free, ()) == ""


@pytest.mark.parametrize(
    ("command", "started"),
    [
        ("mpirun -n 2 python t.py", "t.py"),
        ("mpirun -n 4 ./solver -n in.txt", "--no-python ./solver -n in.txt"),
        ("torchrun --nproc-per-node=4 t.py --x", "t.py --x"),
        ("torchrun --nproc-per-node=4 -m pkg.train --x", "-m pkg.train --x"),
        ("torchrun --nproc-per-node 4 --no-python ./solver t.py", "--no-python ./solver t.py"),
        ("", "train.py"),
    ],
)
def test_behind_the_launcher_the_program_stays_and_only_it(command: str, started: str) -> None:
    launch = fitting(Limits(cpus=8), 8, ranks=2, workers=0, launcher="torchrun", command=command.split())
    assert lines(launch)[-1] == f"torchrun --nproc-per-node=2 {started}"


def test_a_command_without_a_program_has_no_lines() -> None:
    best = {"ranks": 4, "OMP_NUM_THREADS": 2}
    assert of_setting(Limits(cpus=8), best, ("mpirun", "-n", "4")) is None


def test_mpirun_takes_its_lines() -> None:
    require("mpi", shutil.which("mpirun") is not None, "no mpirun")
    limits = read_limits(os.environ)
    asked = "import os; print(sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])"
    command = (sys.executable, "-c", asked)
    launch = fitting(limits, limits.allowed, ranks=2, workers=0, launcher="mpirun", command=command)
    options = ("ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM", "MCA_rmaps_base_oversubscribe")
    script = "\n".join(lines(launch))
    assert shlex.split(script)
    environment = {**os.environ, **{f"OMPI_{name}": "1" for name in options}}
    said = sorted(succeeded(["bash", "-ec", script], env=environment).stdout.splitlines())
    assert len(said) == launch.ranks
    assert len(set(said)) == launch.ranks, "each rank has CPUs of its own"
    assert all(line.endswith(f" {launch.threads}") for line in said)


def test_a_setting_that_was_found_best_has_lines_if_it_fits() -> None:
    limits = Limits(cpus=16, cores=16, affinity=tuple(range(16)), affinity_cores=16)
    command = ("mpirun", "-n", "4", "python", "t.py", "--workers", "2")
    best = {"ranks": 4, "workers": 2, "OMP_NUM_THREADS": 2}
    line = lines(of_setting(limits, best, command))[1]
    assert line == "mpirun -n 4 --map-by slot:PE=4 --bind-to core -x OMP_NUM_THREADS python t.py --workers 2"
    # It may be the fastest all the same, but no such lines are advice.
    assert of_setting(limits, {**best, "OMP_NUM_THREADS": 4}, command) is None
    assert of_setting(limits, best, ("python", "t.py")) is None


ALL = tuple(range(8))
EIGHT = Limits(cpus=8, cores=8, sockets=1, nodes=1, affinity=ALL, affinity_cores=8, cpuset=ALL)
TWO = replace(EIGHT, cpus=2, affinity=(0, 1))
#: A machine of 64 CPUs: two of them by a binding, and all in a container with a quota of 4.
BOUND = replace(EIGHT, cpus=64, cores=64, affinity=(3, 4), affinity_cores=2)
IN_CONTAINER = replace(BOUND, affinity=tuple(range(64)), affinity_cores=64, quota_cpus=4.0, quota_view="v2")
#: 8 CPUs of 4 cores.
HYPERTHREADS = replace(EIGHT, cores=4, affinity_cores=4)


def sizes(limits: Limits, environ: Mapping[str, str] | None = None, python: str = "3.13.0") -> dict[str, int]:
    return {
        library.name: size_of(library, honours_of(library.name, python), limits, environ or {}).size
        for library in LIBRARIES
    }


def python(*packages: str, natives: Sequence[str] = ()) -> Interpreter:
    return Interpreter("/usr/bin/python3", "3.13.0", dict.fromkeys(packages, "1.0"), frozenset(natives))


NUMPY = python("numpy", natives=["libscipy_openblas64_.so"])


# Sizes


def test_every_library_has_a_title_and_a_measured_or_documented_row() -> None:
    names = {library.name for library in LIBRARIES}
    assert names <= LIBRARY_TITLES.keys()
    assert names == {row.library for row in (*TABLE.limits, *DOCUMENTED)} & names
    assert all(row.source for row in (*TABLE.limits, *DOCUMENTED))


BOTH, MANY = {"OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "2"}, {"OMP_NUM_THREADS": "99"}
NESTED = replace(IN_CONTAINER, quota_view="nested")
#: Limits, variables, and libraries with their sizes.
SIZES: dict[str, tuple[Limits, Mapping[str, str], dict[str, int]]] = {
    "a binding": (BOUND, {}, dict.fromkeys(words_of("openblas mkl libgomp torch polars numba xla"), 2)),
    "a binding that is not seen": (BOUND, {}, {"duckdb": 64, "chainer-iterator": 64, "numexpr": 16}),
    "a quota": (IN_CONTAINER, {}, dict.fromkeys(words_of("polars opencv duckdb joblib scikit-learn"), 4)),
    "a quota that is not seen": (
        *(IN_CONTAINER, {}),
        dict.fromkeys(words_of("openblas torch libgomp numba arrow multiprocessing"), 64),
    ),
    "a quota that is seen from one level": (NESTED, {}, {"polars": 4, "opencv": 64}),
    "cores": (HYPERTHREADS, {}, {"torch": 4, "mkl": 4, "openblas": 8, "libgomp": 8}),
    "variables in the measured order": (EIGHT, BOTH, {"openblas": 2, "libgomp": 3}),
    "capped by some": (EIGHT, MANY, {"openblas": 8, "libgomp": 99}),
    "MKL's cap: by the machine and not by its affinity": (BOUND, MANY, {"openblas": 2, "mkl": 64}),
    "no number": (EIGHT, {"OMP_NUM_THREADS": "none"}, {"openblas": 8}),
    "nested levels": (EIGHT, {"OMP_NUM_THREADS": "4,2"}, {"libgomp": 4}),
    "its own variable": (EIGHT, {"POLARS_MAX_THREADS": "3"}, {"polars": 3}),
    "that of Python": (EIGHT, {"PYTHON_CPU_COUNT": "3"}, {"multiprocessing": 3, "thread-executor": 7}),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_by_limits_and_variables(name: str) -> None:
    limits, environ, expected = SIZES[name]
    assert expected.items() <= sizes(limits, environ).items()


def test_an_older_python_does_not_see_a_binding() -> None:
    assert sizes(BOUND)["multiprocessing"] == 2
    older = sizes(BOUND, python="3.12.4")
    assert (older["multiprocessing"], older["thread-executor"]) == (64, 32)


@pytest.mark.parametrize(("quota", "polars", "duckdb"), [(0.5, 1, 1), (1.5, 1, 2), (2.0, 2, 2), (2.01, 2, 3)])
def test_a_quota_is_rounded_as_the_library_does(quota: float, polars: int, duckdb: int) -> None:
    found = sizes(replace(IN_CONTAINER, quota_cpus=quota))
    assert (found["polars"], found["duckdb"]) == (polars, duckdb)


def test_a_size_says_where_it_comes_from_and_what_it_does_not_see() -> None:
    library = next(library for library in LIBRARIES if library.name == "openblas")
    honours = honours_of("openblas", "3.13.0")
    slurm = replace(EIGHT, slurm=(2, "SLURM_CPUS_PER_TASK"))
    for limits, environ, expected in (
        (EIGHT, {}, (8, "cpus", "", "")),
        (BOUND, {}, (2, "affinity", "", "")),
        (IN_CONTAINER, {}, (64, "cpus", "", "quota")),
        (IN_CONTAINER, {"OMP_NUM_THREADS": "4"}, (4, "variable", "OMP_NUM_THREADS=4", "")),
        (slurm, {}, (8, "cpus", "", "slurm")),
    ):
        found = size_of(library, honours, limits, environ)
        assert (found.size, found.origin, found.variable, found.unseen) == expected


# Limits


def test_a_list_of_cpus() -> None:
    assert cpu_list("0-3,8") == (0, 1, 2, 3, 8)
    assert cpu_list("5\n") == (5,)
    for text in ("", "a-b", "0-", "-1", "9" * 9):
        assert cpu_list(text) is None, text


def test_slurm_grants_a_task_its_cpus_and_a_batch_script_those_of_its_node() -> None:
    batch = {"SLURM_JOB_ID": "7", "SLURM_CPUS_ON_NODE": "16", "SLURM_CPUS_PER_TASK": "4"}
    assert slurm_cpus(batch) == (16, "SLURM_CPUS_ON_NODE")
    step = {**batch, "SLURM_STEP_ID": "0", "SLURM_PROCID": "3"}
    assert slurm_cpus(step) == (4, "SLURM_CPUS_PER_TASK")
    assert slurm_cpus({"SLURM_CPUS_PER_TASK": "4"}) is None


@pytest.mark.parametrize(
    ("environ", "ranks"),
    [
        ("", None),
        ("OMPI_COMM_WORLD_LOCAL_SIZE=4", Ranks("Open MPI", 4, True)),
        (
            "OMPI_COMM_WORLD_LOCAL_SIZE=4 OMPI_MCA_hwloc_base_binding_policy=none",
            Ranks("Open MPI", 4, False, "none"),
        ),
        ("MPI_LOCALNRANKS=2", Ranks("MPICH (Hydra)", 2, True)),
        ("LOCAL_WORLD_SIZE=2 RANK=0", Ranks("torchrun", 2, False)),
        (
            "OMPI_COMM_WORLD_LOCAL_SIZE=1 LOCAL_WORLD_SIZE=4 TORCHELASTIC_RUN_ID=none",
            Ranks("torchrun", 4, False),
        ),
        ("PMI_RANK=1", Ranks("PMI", 1, True)),
        ("SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_TASKS_PER_NODE=4(x2),3", Ranks("Slurm", 4, True)),
        ("SLURM_STEP_ID=0", None),  # a batch script, which is no rank
    ],
)
def test_launchers_say_how_many_ranks_are_here(environ: str, ranks: Ranks | None) -> None:
    given = dict(pair.split("=") for pair in environ.split())
    assert ranks_of(given, 2, 8) == ranks
    # Those that may use all CPUs are not bound.
    assert ranks is None or not ranks_of(given, 8, 8).bound


def test_ranks_of_torchrun_share_the_cpus_that_another_launcher_gave_it() -> None:
    """As by ``mpirun -np 2 --map-by ppr:1:node torchrun --nproc-per-node 4``, 8 of 64 CPUs for each torchrun."""
    given = {"OMPI_COMM_WORLD_LOCAL_SIZE": "1", "LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "none"}
    narrowed = replace(BOUND, affinity=ALL, affinity_cores=8, ranks=ranks_of(given, 8, 64))
    assert diagnose(narrowed, NUMPY, {}).demand.cpus == 8


def test_a_python_is_asked_without_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    found = read_interpreter(sys.executable)
    assert found.version == platform.python_version()
    assert "numpy" in found.packages


# Plans


def test_a_plan_multiplies_ranks_workers_and_threads() -> None:
    found = diagnose(EIGHT, NUMPY, {}, ranks=4, workers=4)
    assert (found.demand.processes, found.demand.threads, found.demand.total) == (16, 8, 128)
    assert found.oversubscribed
    assert found.share == 1
    assert found.advice == (("OMP_NUM_THREADS", "1"),)
    assert risk(found).headline == (
        "4 ranks × 4 workers × 8 threads = 128 runnable threads for 8 CPUs: 16.0× oversubscribed"
    )
    said = "16 processes are more than 8 CPUs: start at most 8, with 1 thread each."
    assert risk(found).summary == said
    fewer = diagnose(EIGHT, NUMPY, {}, ranks=4)
    assert risk(fewer).summary == "To fit, each process may have 2 threads."


def test_one_process_fits_and_a_pool_of_its_default_size_would_not() -> None:
    found = diagnose(EIGHT, NUMPY, {})
    assert (found.oversubscribed, found.pooled.total, risk(found).tone) == (False, 64, "unsure")
    alone = diagnose(EIGHT, NUMPY, {"OMP_NUM_THREADS": "1"})
    assert (alone.pooled, risk(alone).tone) == (None, "good")
    plan = diagnose(EIGHT, NUMPY, {"OMP_NUM_THREADS": "2"}, ranks=4)
    assert (plan.demand.total, plan.oversubscribed, plan.advice, plan.own) == (8, False, (), ())


def test_a_quota_that_a_library_does_not_see_is_the_risk() -> None:
    found = diagnose(IN_CONTAINER, NUMPY, {})
    assert (found.oversubscribed, found.demand.factor) == (True, 16)
    assert found.advice == (("OMP_NUM_THREADS", "4"),)
    assert "CPU quota" in risk(found).summary


def test_bound_ranks_have_cpus_of_their_own_and_others_share() -> None:
    bound = replace(EIGHT, affinity=(0, 1), affinity_cores=2, ranks=Ranks("Open MPI", 4, True))
    assert not diagnose(bound, NUMPY, {}).oversubscribed
    shared = replace(EIGHT, ranks=Ranks("Open MPI", 4, False))
    assert diagnose(shared, NUMPY, {}).demand.factor == 4


def test_ranks_that_have_all_cpus_of_a_container_are_not_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    own = tuple(sorted(os.sched_getaffinity(0)))
    monkeypatch.setattr(cpu_limits, "_online", lambda: 64)
    for cpuset, bound in ((own, False), (tuple(range(64)), True), (None, True)):
        monkeypatch.setattr(cpu_limits, "_cpuset", lambda cpuset=cpuset: cpuset)
        assert read_limits({"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}).ranks == Ranks("Open MPI", 4, bound)
    # Bound inside it, they have no more than it has.
    inside = replace(EIGHT, cpus=64, affinity=(0, 1), affinity_cores=2, ranks=Ranks("Open MPI", 8, True))
    assert diagnose(inside, NUMPY, {}).demand.cpus == 8


def test_unbound_tasks_of_slurm_share_what_was_granted_to_all() -> None:
    granted = (2, "SLURM_CPUS_PER_TASK")
    step = replace(BOUND, affinity=ALL, slurm=granted, ranks=Ranks("Slurm", 3, False, "none"))
    assert diagnose(step, NUMPY, {}).demand.cpus == 6
    # Those of torchrun share the CPUs of its one task; a plan is one for the CPUs of this task.
    assert diagnose(replace(step, ranks=Ranks("torchrun", 3, False)), NUMPY, {}).demand.cpus == 2
    assert diagnose(step, NUMPY, {}, ranks=3).demand.cpus == 2


def test_a_library_without_a_variable_is_named() -> None:
    found = diagnose(EIGHT, python("duckdb", "polars"), {}, ranks=8)
    assert found.advice == (("POLARS_MAX_THREADS", "1"),)
    assert found.own == (Own("no-variable", "duckdb", 8),)


# What a program did

S = 1_000_000_000


def thread(tid: int, run_s: float, wait_s: float, *, native: bool = False) -> Thread:
    shown = Profile.empty() if native else profile([Row("/w/m.py", 1, "work", tottime=run_s)])
    return Thread(shown, tid=tid, run_s=run_s, run_queue_wait_s=wait_s)


def process(
    pid: int, threads: Sequence[Thread], *, lived: tuple[float, float] = (0.0, 10.0), **fields: Any
) -> Process:
    """Make a process whose threads ran and queued evenly over its life."""
    begin, wall = lived[0], lived[1] - lived[0]
    rows = [
        (one.tid, (begin + part * wall) * S, part * one.run_s * S, part * one.run_queue_wait_s * S)
        for one in threads
        for part in (0.0, 0.5, 1.0)
    ]
    samples = ThreadSamples(*np.array(list(zip(*rows, strict=True))).astype(np.int64)).validate()
    run_s, wait_s = (sum(getattr(t, name) for t in threads) for name in ("run_s", "run_queue_wait_s"))
    counted = {"wall_s": wall, "cpu_s": run_s, "run_queue_wait_s": wait_s, "samples": samples}
    return Process(pid, threads=tuple(threads), **counted, **fields)


def worker(number: int, run_s: float, wait_s: float, **fields: Any) -> Process:
    return process(number, [thread(number, run_s, wait_s)], role="worker", parent=1, **fields)


def seen(*processes: Process, busy_s: float | None = None) -> Load:
    own = sum(p.cpu_s or 0 for p in processes)
    machine = None if busy_s is None else Machine(cpus=2, wall_s=10.0, busy_s=busy_s, tree_cpu_s=own)
    on = Host(name="here", cpus=2, affinity=2)
    return load_of(Run("run.prof", processes, manifest(10.0, on), machine))


def test_a_pool_counts_with_its_size_where_its_threads_worked() -> None:
    pools = (Pool("openblas", 8, "variable", "OMP_NUM_THREADS=8"),)
    idle = seen(process(1, [thread(1, 9, 0.1), thread(2, 0.01, 0, native=True)], pools=pools))
    assert (idle.at_once, idle.oversubscribed) == (1, False)
    short = [thread(n, 0.3, 0.5, native=True) for n in range(2, 9)]
    works = seen(process(1, [thread(1, 8, 1.5), *short], pools=pools))
    assert (works.at_once, works.factor, works.oversubscribed) == (8, 4.0, True)


def test_a_large_pool_that_has_not_worked_yet_is_a_reason_to_watch_for_longer() -> None:
    pools = Pool("torch", 8, "program"), Pool("torch-interop", 64, "default"), Pool("openblas", 2, "default")
    load = seen(process(1, [thread(1, 9, 0.1), thread(2, 0.01, 0, native=True)], pools=pools))
    assert [pool.library for pool in load.idle_pools] == ["torch"]
    answer = risk(diagnose(TWO, None, {}, load=load))
    assert answer.headline.endswith("not oversubscribed so far")
    assert ("PyTorch 8" in answer.summary, answer.tone) == (True, "unsure")


def test_one_thread_counts_as_one_where_most_of_its_life_is_before_its_agent() -> None:
    assert seen(process(1, [thread(1, 0.1, 0.25)], lived=(0.0, 0.15))).at_once == 1


def test_a_parent_that_waits_for_its_workers_does_not_count() -> None:
    workers = [worker(10 + n, 4, 4, lived=(2.0, 10.0)) for n in range(2)]
    load = seen(process(1, [thread(1, 0.5, 0.5)]), *workers)
    assert (load.at_once, load.oversubscribed) == (2, False)
    crews = {(crew.role, crew.processes, crew.threads) for crew in load.crews}
    assert crews == {("worker", 2, 1), ("main", 1, 0)}


def test_workers_that_hardly_queue_do_no_harm() -> None:
    load = seen(process(1, [thread(1, 0.0, 0.0)]), *(worker(10 + n, 2, 0.02) for n in range(8)))
    assert (load.at_once, load.oversubscribed) == (8, False)
    found = diagnose(TWO, None, {}, load=load)
    assert risk(found).headline.endswith("but they hardly queue")
    assert (risk(found).tone, found.advice) == ("unsure", ())


def test_what_everything_else_used_is_told_apart() -> None:
    load = seen(process(1, [thread(1, 5, 5)]), busy_s=19.0)
    assert (load.others, load.cores, load.oversubscribed) == (pytest.approx(1.4), pytest.approx(0.5), False)
    assert "Other processes used 1.4 CPUs" in risk(diagnose(TWO, None, {}, load=load)).summary
    unknown = load_of(Run("m.prof", (Process(pid=1),)))
    assert (unknown.at_once, unknown.oversubscribed) == (0, False)


def oversubscribed_load() -> Load:
    pools = (Pool("torch", 8, "program"), Pool("openblas", 8, "default"))
    native = [thread(n, 0.9, 3, native=True) for n in range(2, 9)]
    workers = [worker(10 + n, 1, 8) for n in range(6)]
    return seen(process(1, [thread(1, 2, 7), *native], pools=pools), *workers)


def test_variables_are_advised_where_they_help_and_the_rest_is_the_programs_own() -> None:
    command = ["python", "train.py", "--num-workers", "6", "--jobs=1", "--lr", "9", "-j", "x"]
    found = diagnose(TWO, NUMPY, {}, load=oversubscribed_load(), command=command)
    assert found.oversubscribed
    assert found.advice == (("OMP_NUM_THREADS", "1"),)
    own = (("pool", "torch", 8), ("processes", "worker", 6), ("argument", "--num-workers", 6))
    assert found.own == tuple(Own(*one) for one in own)
    assert len(own_texts(found.own)) == 3
    assert risk(found).headline == (
        "1 process × 8 threads + 6 workers × 1 thread = 14 runnable threads for 2 CPUs: 7.00× oversubscribed"
    )


def test_workers_of_the_one_rank_that_was_watched_are_its_own() -> None:
    """As by ``mpirun -n 4 profkit doctor -- python train.py``."""
    shared = replace(EIGHT, ranks=Ranks("Open MPI", 4, False))
    rank = process(1, [thread(1, 0.5, 0.5)], role="rank", rank=0)
    found = diagnose(shared, None, {}, load=seen(rank, *(worker(10 + n, 4, 4) for n in range(3))))
    assert [(launch.ranks, launch.workers) for launch in found.launches] == [(4, 1)]


@pytest.mark.parametrize(
    ("pool", "variable", "own"),
    [
        (Pool("libomp", 8, "default"), "OMP_NUM_THREADS", ()),
        (Pool("blis", 8, "variable", "BLIS_NUM_THREADS=8"), "BLIS_NUM_THREADS", ()),
        (Pool("tbb", 8, "default"), "", (Own("no-variable", "tbb", 8),)),
    ],
)
def test_a_pool_that_was_not_measured_has_its_variable(pool: Pool, variable: str, own: tuple[Own]) -> None:
    native = [thread(n, 0.9, 3, native=True) for n in range(2, 9)]
    load = seen(process(1, [thread(1, 2, 7), *native], pools=(pool,)))
    set_now = dict([pool.variable.split("=")]) if pool.variable else {}
    found = diagnose(TWO, NUMPY, set_now, load=load, command=["python", "train.py"])
    assert (found.advice, found.own) == (((variable, "2"),) if variable else (), own)


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("train --lora-rank 64 --score-threshold=50 --job-id 9 --cpu-offload-gb 9 -n 1000", ""),
        (
            "train --num_workers 9 --data.nthreads=9 --n_jobs 9 -j 9",
            "--num_workers --data.nthreads --n_jobs -j",
        ),
        (
            "train --num_proc 9 --num-proc=9 --dataset_num_proc 9 --n_process 9 --n-proc 9 --num_job 9",
            "--num_proc --num-proc --dataset_num_proc --n_process --n-proc --num_job",
        ),
        ("train --rank 9 --num-rank 9 --num-job-retries 9 --n_core_hours 9", ""),
        ("mpirun -n 9 ./train -n 1000 --cpus 9", "-n --cpus"),
    ],
)
def test_options_that_ask_for_too_much_are_known_by_their_names(command: str, names: str) -> None:
    found = diagnose(TWO, NUMPY, {}, load=oversubscribed_load(), command=command.split())
    assert [own.name for own in found.own if own.kind == "argument"] == words_of(names)


# Reports


BOUND_RANKS = Ranks("Open MPI", 4, True, "core")
EVERYTHING = python(
    *{package for library in LIBRARIES for package in library.packages},
    natives=[f"lib{part}.so" for library in LIBRARIES for part in library.files],
)


@pytest.mark.parametrize(
    "diagnosis",
    [
        diagnose(EIGHT, EVERYTHING, {}),
        diagnose(IN_CONTAINER, EVERYTHING, {}, ranks=8, workers=4),
        diagnose(EIGHT, NUMPY, {}, load=oversubscribed_load(), command=["python", "m.py"]),
        diagnose(EIGHT, None, {}),
        diagnose(replace(BOUND, ranks=BOUND_RANKS, slurm=(2, "SLURM_CPUS_PER_TASK")), NUMPY, {}),
    ],
    ids=["everything", "oversubscribed", "command", "no python", "bound ranks"],
)
def test_reports_say_the_same_and_follow_the_schema(diagnosis: Diagnosis) -> None:
    doctor = Studied(diagnosis, DoctorReport(diagnosis, ("python", "m.py"), ""))
    headline = risk(diagnosis).headline
    text = doctor.report()
    assert headline in " ".join(text.split("\n", 3)[:3]).replace("  ", " ")
    assert len(text.splitlines()) <= 30
    wrapped = [line for line in text.splitlines() if not line.startswith(("    export ", "    mpirun "))]
    assert max(map(len, wrapped)) <= 80
    for name in ("md", "html"):
        assert headline in doctor.report(name)
    value = json.loads(doctor.report("json"))
    check_schema(value, "doctor-1.json")
    assert value["oversubscribed"] == diagnosis.oversubscribed
    assert value["demand"]["total"] == diagnosis.demand.total


def test_the_page_has_the_tables_of_the_package() -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = runpy.run_path(str(docs / "limits.py"))["page"]
    assert page() == (docs / "doctor.md").read_text(encoding="utf-8"), "run `python docs/limits.py`"
