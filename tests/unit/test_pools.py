"""Thread pools: libraries, where a size came from, what pools ask for, and what to paste to make it fit."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from profkit.capture.agent import thread_pools
from profkit.capture.agent.pool_libraries import MKL, GNUOpenMP, Package
from profkit.capture.agent.thread_pools import Pools, library_of
from profkit.capture.pool_records import pool_origin, pools_of
from profkit.measure.inventory import inventory
from profkit.measure.size_calls import SizeCall
from profkit.model import PROJECT, FunctionKey, Host, Pool, Process, Profile, Run, Thread, ThreadSamples
from profkit.model.pools import holding_variable
from profkit.report.inventory_sections import pool_differences, pool_sections
from profkit.verdict.advice.size_limits import limit_advice, program_at
from profkit.verdict.types import Advice
from tests.builders import manifest
from tests.records import record
from tests.shared import words_of

HOST = Host(name="node", cpus=8, affinity=4)


def test_the_library_s_own_variable_holds_over_the_common_one() -> None:
    environment = {"OMP_NUM_THREADS": "8", "OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "0"}
    assert holding_variable("openblas", environment) == ("OPENBLAS_NUM_THREADS", 2)
    assert holding_variable("libgomp", environment) == ("OMP_NUM_THREADS", 8)
    assert holding_variable("torch", environment) == ("OMP_NUM_THREADS", 8), "zero is no number of threads"
    assert holding_variable("opencv", environment) is None


@pytest.mark.parametrize(
    ("library", "threads", "now", "at_start", "origin"),
    [
        ("openblas", 4, "", "", "default"),
        ("openblas", 1, "", "", "program"),
        ("openblas", 2, "2", "2", "variable"),
        # Capped: OpenBLAS takes no more threads than it has CPUs, OpenMP does.
        ("openblas", 4, "16", "16", "variable"),
        ("libgomp", 4, "16", "16", "program"),
        ("torch", 3, "2", "2", "program"),
        # Set in the script after the library was loaded.
        ("openblas", 4, "1", "", "default"),
        ("openblas", 1, "1", "", "variable"),
        ("mkl", None, "1", "1", ""),
    ],
)
def test_origin(library: str, threads: int | None, now: str, at_start: str, origin: str) -> None:
    """Of a library that has so many threads, with values of ``OMP_NUM_THREADS`` now and at the start."""
    environments = ({"OMP_NUM_THREADS": value} if value else {} for value in (now, at_start))
    detail = f"OMP_NUM_THREADS={now}" if now and origin else ""
    assert pool_origin(library, threads, *environments, HOST) == (origin, detail)


def test_one_thread_a_core_is_a_default_only_where_there_are_as_many_cores() -> None:
    assert pool_origin("torch", 4, {}, {}, Host(cpus=8, affinity=8), cores=4) == ("default", "")
    assert pool_origin("torch", 4, {}, {}, Host(cpus=8, affinity=8), cores=8) == ("program", "")
    assert pool_origin("torch", 4, {}, {}, Host(cpus=8, affinity=8)) == ("", ""), "another host's cores"


def test_rows_of_a_record() -> None:
    facts = {
        "environment": {"OMP_NUM_THREADS": "2"},
        "tasks": [
            [10, "python", 0, 0, 0],
            *([n, "tf_XLAEigen", 0, 0, 0] for n in range(1, 5)),
            [9, "polars-0", 0, 0, 0],
        ],
        "pools": [
            ["mkl", "libmkl_rt.so.2", None, "", None, None],
            ["openblas", "libopenblas.so.0", 2, "0.3.30", 4, 4],
            ["tensorflow", "", 0, "2.20", None, 0],
        ],
    }
    assert pools_of(record(**facts), HOST) == (
        Pool("openblas", 2, "variable", "OMP_NUM_THREADS=2", "0.3.30", "libopenblas.so.0", peak=4),
        Pool("polars", 1, "program"),
        Pool("tensorflow", 4, "default", version="2.20"),
        Pool("xla", 4, "default"),
        Pool("mkl", None, file="libmkl_rt.so.2"),
    )
    assert pools_of(record(**{**facts, "pools": None}), HOST) is None


def test_libraries_are_known_by_their_files() -> None:
    files = {
        "openblas": "libopenblas.so.0 libscipy_openblas64_-56d6093b.so libblas.so.3",
        "libgomp": "libgomp-a34b3233.so.1.0.0",
        "libomp": "libomp.so.5",
        "libiomp5": "libiomp5.so",
        "mkl": "libmkl_rt.so.2 libmkl_intel_lp64.so.2",
        "blis": "libblis.so.4",
        "tbb": "libtbb.so.12",
        None: "libomptarget.so.18 libiompstubs5.so libmkl_intel_thread.so.2 libtbbmalloc.so.2 libm.so.6",
    }
    expected = {file: library for library, names in files.items() for file in words_of(names)}
    assert {file: getattr(library_of(f"/usr/lib/{file}"), "name", None) for file in expected} == expected


def test_mkl_is_asked_only_once_its_threading_layer_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    mkl = MKL("/lib/libmkl_rt.so.2", lambda: 4)
    sequential = ["/lib/libmkl_rt.so.2", "/lib/libmkl_sequential.so.2"]
    intel = ["/lib/libmkl_rt.so.2", "/lib/libmkl_intel_thread.so.2"]
    assert mkl.rows(True, sequential)[0][2] == 4
    assert mkl.rows(False, sequential)[0][2] is None, "a snapshot"
    assert mkl.rows(True, sequential[:1])[0][2] is None, "it has not been used: asking would load its layer"
    assert mkl.rows(True, intel)[0][2] is None, "asking would start Intel's OpenMP"
    monkeypatch.setenv(f"__KMP_REGISTERED_LIB_{os.getpid()}", "x")
    assert mkl.rows(True, intel)[0][2] == 4


def test_torch_computes_with_the_openmp_that_it_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    system, own = "/usr/lib/libgomp.so.1", "/site-packages/torch/lib/libgomp-98df74fd.so.1"
    torch = ModuleType("torch")
    torch.__version__ = "2.9.0+cpu"
    runtimes = [GNUOpenMP(system, lambda: 4), GNUOpenMP(own, lambda: 3)]

    def rows(files: list[str]) -> list[tuple[str, int]]:
        found = [row for runtime in runtimes if runtime.path in files for row in runtime.rows(True, files)]
        return [(row[0], row[2]) for row in found]

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert rows([system]) == [("libgomp", 4)]
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert rows([system]) == [("libgomp", 4), ("torch", 4)]
    assert rows([system, own]) == [("libgomp", 4), ("torch", 3)]


def test_a_new_package_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Package("weaver", "weaver", lambda module: module.threads)
    monkeypatch.setattr(thread_pools, "PACKAGES", (*thread_pools.PACKAGES, row))
    weaver = ModuleType("weaver")
    weaver.threads, weaver.__version__ = None, "1.2"

    def read() -> list[list[object]]:
        return [row for row in Pools().read(final=False) or () if row[0] == "weaver"]

    assert read() == [], "not imported"
    monkeypatch.setitem(sys.modules, "weaver", weaver)
    assert read() == [], "it has no pool yet"
    weaver.threads = 3
    assert read() == [["weaver", "", 3, "1.2", None, 3]]
    del weaver.threads
    assert read() == [], "a version that does not answer"


# What the pools of a run ask for, what it got, what to paste to make it fit, and how reports say it

NODE = Host(name="node", cpus=8, affinity=8)
BLAS = Pool("openblas", 8, "default")
TORCH = Pool("torch", 4, "program")


def process(*pools: Pool, role: str = "worker", **more: Any) -> Process:
    facts = {"wall_s": 10.0, "cpu_s": 5.0, "run_queue_wait_s": 5.0, "host": NODE, **more}
    return Process(pid=1, role=role, threads=(Thread(Profile.empty()),), pools=pools, **facts)


def run(*processes: Process, host: Host = NODE, command: str = "python train.py", **known: Any) -> Run:
    return Run("", processes, manifest(10.0, host, command=tuple(command.split()), **known))


class TestCores:
    def test_a_process_asks_for_its_largest_pool(self) -> None:
        found = inventory(run(process(BLAS, TORCH, Pool("torch-interop", 64), Pool("tbb", None))))
        assert found.processes[0].expected_cores == 8
        assert (found.expected_cores, found.observed_cores, found.demand_cores) == (8.0, 0.5, 1.0)
        assert (found.oversubscription, found.oversubscribed) == (1.0, False)

    @pytest.mark.parametrize(
        ("bound", "available"),
        [
            ([(2,), (2,)], 1.0),
            ([(0,), (1, 2)], 3.0),
            ([(), (2,)], 8.0),
            # More than the machine has are none.
            ([(cpu,) for cpu in range(9)], 8.0),
        ],
        ids=["one", "of their own", "one is not tied", "more than there are"],
    )
    def test_what_all_processes_are_tied_to_is_available(
        self, bound: list[tuple[int, ...]], available: float
    ) -> None:
        """As behind ``taskset`` in the command, which the launcher is not tied by."""
        hosts = [replace(NODE, affinity=len(cpus) or 8, affinity_cpus=cpus) for cpus in bound]
        found = inventory(run(*(process(BLAS, host=host) for host in hosts)))
        assert found.available_cpus == available

    def test_processes_are_added_for_as_long_as_they_live(self) -> None:
        found = inventory(run(process(BLAS), process(BLAS), process(BLAS, wall_s=5.0)))
        assert (found.expected_cores, found.workers, found.oversubscribed) == (8 + 8 + 4, 3, True)

    def test_workers_of_several_epochs_count_once(self) -> None:
        def seen(begin: int, end: int, lived_s: float) -> Process:
            zeros = np.zeros(2, np.int64)
            samples = ThreadSamples(zeros + 7, np.array([begin, end], np.int64), zeros, zeros)
            return replace(process(BLAS, wall_s=lived_s), samples=samples)

        epochs = [seen(epoch, epoch + 8, 4.0) for epoch in (0, 10) for _ in range(8)]
        assert inventory(run(*epochs)).workers == 8
        # One that the sampler has never met may have lived with all the others.
        assert inventory(run(*epochs, process(BLAS))).workers == 9
        # Each was sampled once, while the sampler took long: they lived together all the same.
        assert inventory(run(*(seen(at, at, 10.0) for at in range(64)))).workers == 64

    def test_programs_that_a_rank_executes_in_turn_are_one_rank(self) -> None:
        last = [process(BLAS, role="rank", rank=rank) for rank in (0, 1)]
        assert inventory(run(*last, *(replace(one, exit="replaced") for one in last))).ranks == 2

    @pytest.mark.parametrize(("cpu", "wait", "surprising"), [(20.0, 10.0, True), (15.0, 5.0, False)])
    def test_more_than_its_pools_explain(self, cpu: float, wait: float, surprising: bool) -> None:
        found = inventory(run(process(Pool("openblas", 2), cpu_s=cpu, run_queue_wait_s=wait)))
        assert found.processes[0].surprising is surprising

    def test_a_bound_rank_is_measured_by_its_binding(self) -> None:
        bound = Host(name="node", cpus=8, affinity=1)
        found = inventory(run(process(Pool("libgomp", 4), role="rank", host=bound)))
        assert found.oversubscription == 4.0


class TestAdvice:
    def advice(self, *processes: Process, **kwargs: Any) -> tuple[Advice, ...]:
        made = run(*processes, **kwargs)
        return limit_advice(inventory(made), made.manifest.command)

    def test_jobs_may_be_processes(self) -> None:
        command = "python train.py -j 8"
        # As many workers as CPUs, and as many threads in each: the option is about the workers.
        assert self.limit(*[process(BLAS)] * 8, command=command) == (command, {"OPENBLAS_NUM_THREADS": "1"})
        (edit,) = self.advice(*[process(Pool("torch", 8, "program"))] * 8, command=command)
        assert edit.subject == "torch.set_num_threads(1)"

    def limit(self, *processes: Process, **kwargs: Any) -> tuple[str, Mapping[str, str]]:
        """Command and variables of the one advice that limits threads, which is all the advice there is."""
        (one,) = self.advice(*processes, **kwargs)
        assert (one.kind, one.cures) == ("limit-threads", "queue")
        return " ".join(one.argv), one.env

    def test_only_libraries_that_are_there_and_too_large(self) -> None:
        pools = BLAS, Pool("libgomp", 8, "default"), Pool("opencv", 1, "default")
        expected = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
        assert self.limit(*[process(*pools)] * 4) == ("python train.py", expected)

    @pytest.mark.parametrize(
        "command",
        [
            "python train.py",
            "env OMP_NUM_THREADS={} python train.py",
            "mpirun --bind-to none -x OMP_NUM_THREADS={} -n 4 python train.py",
        ],
    )
    def test_the_variable_that_holds_also_in_the_command(self, command: str) -> None:
        held = Pool("openblas", 8, "variable", "OMP_NUM_THREADS=8")
        environment = {"OMP_NUM_THREADS": "8"}
        found = self.limit(*[process(held)] * 4, command=command.format(8), environment=environment)
        assert found == (command.format(2), {"OMP_NUM_THREADS": "2"})

    def test_what_the_program_sets_is_changed_in_the_program(self) -> None:
        pools = Pool("torch", 8, "program"), Pool("opencv", 8, "program")
        edits = [(one.kind, one.cures, one.subject) for one in self.advice(*[process(*pools)] * 8)]
        subjects = "torch.set_num_threads(1)", "cv2.setNumThreads(0)"
        assert edits == [("edit-code", "queue", subject) for subject in subjects]

    def test_a_large_pool_costs_more_than_a_small_one(self) -> None:
        pools = Pool("openblas", 9, "default"), Pool("torch", 64, "program")
        edit, variable = self.advice(process(*pools))
        assert edit.subject == "torch.set_num_threads(8)"
        assert variable.env == {"OPENBLAS_NUM_THREADS": "8"}

    @pytest.mark.parametrize(
        ("call", "pool", "subject"),
        [
            # What is left of a worker that was ended: a snapshot, in which another thread's OpenMP has its default.
            ("torch", Pool("libgomp", 8, "default"), "torch.set_num_threads(2)"),
            ("threadpoolctl", BLAS, "threadpoolctl.threadpool_limits(2)"),
            ("threadpoolctl", Pool("torch", 8, "program"), "threadpoolctl.threadpool_limits(2)"),
        ],
    )
    def test_a_call_that_sets_a_size_is_edited(self, call: str, pool: Pool, subject: str) -> None:
        caller = FunctionKey(PROJECT, "train.py", "setup")
        found = replace(inventory(run(*[process(pool)] * 4)), sizes=(SizeCall(call, caller, 7),))
        assert limit_advice(found, ("python", "train.py")) == (
            Advice("edit-code", cures="queue", subject=subject, where=caller, line=7),
        )

    @pytest.mark.parametrize(
        "command",
        [
            "python train.py -j {}",
            "python train.py -j{} --epochs 20",
            "python train.py --num_workers={}",
            "python train.py --num-workers {} -n 50",
            "python train.py --trainer.num_workers={}",
            "python train.py data.num_workers={} n=50",
            "python train.py n_jobs={} n=50",
            "python -m torch.distributed.run --nproc_per_node {} train.py",
            # A word that only looks like it may be the name of anything.
            "python train.py workers 16 -j {}",
            "mpirun -np {} python train.py -n 50",
            # The program's own options, whatever their number.
            "mpirun --oversubscribe --mca btl self,tcp -n {} ./solver -n 16 input.txt",
            "torchrun --standalone --nproc_per_node {} -m pkg.train -n 16",
            # More than there were processes.
            "python train.py --workers {} --jobs 1000",
        ],
    )
    def test_workers_that_the_command_names(self, command: str) -> None:
        found = self.limit(*[process(BLAS)] * 16, command=command.format(16))
        assert found == (command.format(8), {"OPENBLAS_NUM_THREADS": "1"})

    def test_a_parent_that_only_waits_leaves_its_cpu_to_the_workers(self) -> None:
        workers = [process()] * 16
        waits = self.advice(process(role="main", cpu_s=1.0, run_queue_wait_s=1.0), *workers)
        computes = self.advice(process(role="main"), *workers)
        assert [found[-1].numbers["workers"] for found in (waits, computes)] == [8, 7]

    def test_workers_are_those_of_each_rank_and_ranks_are_no_fewer_than_the_cpus(self) -> None:
        ranks = [process(role="rank", rank=i) for i in range(2)]
        command = "mpirun -n 2 python train.py --workers {}"
        found = self.limit(*ranks, *[process()] * 16, command=command.format(8))
        assert found[0].endswith("-n 2 python train.py --workers 3")

    @pytest.mark.parametrize(
        "command",
        [
            "python train.py --threads {} --epochs 8",
            "python train.py --num-threads={}",
            "python train.py model.nthreads={}",
            # An option that says threads decides before one that says jobs.
            "python train.py -j 8 --intra_op_threads {}",
        ],
    )
    def test_an_argument_that_sizes_a_pool_is_edited(self, command: str) -> None:
        torch = Pool("torch", 8, "program", "OMP_NUM_THREADS=1")
        environment = {"OMP_NUM_THREADS": "1"}
        found = self.limit(*[process(torch)] * 4, command=command.format(8), environment=environment)
        # The variable that was set did not decide: another value of it would not either.
        assert found == (command.format(2), {})

    def test_a_variable_that_the_program_sets_itself(self) -> None:
        inside = Pool("openblas", 8, "variable", "OMP_NUM_THREADS=8")
        found = self.limit(*[process(inside)] * 4, command="python train.py --threads=8")
        assert found == ("python train.py --threads=2", {})
        (edit,) = self.advice(*[process(inside)] * 4)
        assert (edit.kind, edit.subject) == ("edit-code", 'os.environ["OMP_NUM_THREADS"] = "2"')

    def test_what_should_win_back_most_stands_first(self) -> None:
        found = inventory(run(*[process(BLAS, Pool("torch", 8, "program"))] * 16))
        advice = limit_advice(found, ("python", "train.py"), 10.0)
        # 128 cores are asked for on 8: half as many processes leave 64, half of the pools of all leave 72.
        assert [one.kind for one in advice] == ["start-fewer", "limit-threads", "edit-code"]
        gains = [one.predicted_gain_s for one in advice]
        assert gains == pytest.approx([10 * 64 / 120, 10 * 56 / 120, 10 * 56 / 120])

    @pytest.mark.parametrize(
        ("processes", "kind", "gain"),
        [([process()] * 16, "start-fewer", 0.5), ([process(BLAS)] * 8, "limit-threads", 9.0)],
        ids=["processes", "threads"],
    )
    def test_nothing_is_won_back_below_what_the_work_itself_takes(
        self, processes: list[Process], kind: str, gain: float
    ) -> None:
        (one,) = limit_advice(inventory(run(*processes)), ("python", "train.py"), 10.0, (9.0, 0.5))
        assert (one.kind, one.predicted_gain_s) == (kind, gain)

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("mpirun -n 4", "mpirun --bind-to core --map-by slot:PE=2 -n 4"),
            ("srun -n 4", "srun --cpus-per-task=2 --cpu-bind=cores -n 4"),
            ("mpirun --bind-to none -n 4", "mpirun --bind-to none -n 4"),
        ],
    )
    def test_ranks_are_bound(self, before: str, after: str) -> None:
        ranks = [process(BLAS, role="rank", rank=rank) for rank in range(4)]
        assert self.limit(*ranks, command=f"{before} python train.py")[0] == f"{after} python train.py"

    def test_a_quota_below_the_affinity(self) -> None:
        limited = Host(name="node", cpus=64, affinity=64, quota_cpus=2.0)
        found = self.limit(process(Pool("openblas", 64, "default"), host=limited), host=limited)
        assert found == ("taskset -c 0-1 python train.py", {"OPENBLAS_NUM_THREADS": "2"})
        # Of the CPUs that the run has, as in a cpuset.
        bound = replace(limited, affinity=4, affinity_cpus=(7, 9, 10, 11), quota_cpus=3.0)
        command, _ = self.limit(process(Pool("openblas", 64, "default"), host=bound), host=bound)
        assert command == "taskset -c 7,9-10 python train.py"

    def test_what_fits_needs_nothing(self) -> None:
        assert self.advice(process(BLAS)) == ()


@pytest.mark.parametrize(
    "launcher",
    [
        "srun -n 8 --pty",
        "srun -n 8 -K",
        "srun -q debug --chdir /scratch/run -o out/log.txt",
        "mpirun -np 8 -bind-to-core",
        "mpirun -np 8 --display-allocation --map-by node",
        "mpirun --prefix /opt/mpi --mca btl /dev/none -x PATH=/opt/bin -np 8 -nolocal",
        "mpiexec.hydra -n 8 -genvall -s all -genv HOME /home/me -wdir /scratch/run",
        "mpiexec -n 8 --of-a-later-version",
        "horovodrun -np 8 --gloo",
        "torchrun --nproc-per-node 8 --log-dir /scratch/log --no-python",
    ],
)
def test_the_program_is_seen_behind_all_options_of_its_launcher(launcher: str) -> None:
    for program in ("./solver in.txt", "../solver -n 4", "/opt/bin/solver", "python t.py"):
        command = (*launcher.split(), *program.split())
        assert " ".join(command[program_at(command) :]) == program


@pytest.mark.parametrize(
    "launcher",
    [
        "srun -K -o out/log.txt",
        "mpirun -np 8 --wdir /scratch --display-map",
        "mpirun -tune /etc/x --mca a /b -x PATH=/bin",
        "torchrun --log-dir /scratch/log --no-python",
    ],
)
def test_a_directory_or_file_of_a_launcher_is_no_program(launcher: str) -> None:
    words = (*launcher.split(), "solver", "in.txt")
    assert program_at(words) == len(words), "which word it is, is not known"


class TestReports:
    def test_like_processes_are_one_row(self) -> None:
        (section,) = pool_sections(run(process(BLAS, role="main"), *[process(BLAS, TORCH)] * 4), 50)
        note, table = section.blocks
        assert "ask for 40 cores" in note.text
        assert "5.0 for each CPU" in note.text
        main, workers = (row.cells[:2] for row in table.rows)
        assert main == ("main", "openblas 8 (default)")
        assert workers == ("4 × worker", "openblas 8 (default); torch 4 (set by the program)")

    def test_what_did_not_decide_is_told(self) -> None:
        late = Pool("libgomp", 8, "default", "OMP_NUM_THREADS=1")
        pools = late, Pool("openblas", 2, "variable", "OMP_NUM_THREADS=9"), Pool("mkl", None)
        (section,) = pool_sections(run(process(*pools)), 50)
        assert section.blocks[1].rows[0].cells[1].split("; ") == [
            *("libgomp 8 (default", "OMP_NUM_THREADS=1 was set too late)"),
            *("openblas 2 (OMP_NUM_THREADS=9, capped)", "mkl (size not known)"),
        ]

    def test_only_differences(self) -> None:
        before = inventory(run(process(BLAS), environment={"OMP_PLACES": "cores", "RANK": "0"}))
        assert pool_differences(before, before) == pool_differences(before, None) == []
        few = Pool("openblas", 2, "variable", "OMP_NUM_THREADS=2")
        environment = {"OMP_PLACES": "cores", "RANK": "1", "OMP_NUM_THREADS": "2"}
        after = inventory(run(*[process(few)] * 3, environment=environment))
        (section,) = pool_differences(before, after)
        assert ["|".join(row.cells) for row in section.blocks[0].rows] == [
            "workers|1|3",
            "openblas threads|8 (default)|2 (OMP_NUM_THREADS=2)",
            "OMP_NUM_THREADS|not set|2",
            "processes at work|1|3",
            "cores asked for|8|6",
            "cores used|0.5|1.5",
            "cores demanded|1|3",
        ]
