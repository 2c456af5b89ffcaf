"""The measured facts behind a verdict, as numbers: each signal where it says something, and nothing where not."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from profkit.model import Host, Machine, Neighbour, Neighbours, Run, Series
from profkit.verdict.evidence import produce
from profkit.verdict.machine_differences import fixed_work, one_machine
from profkit.verdict.types import Evidence
from tests.builders import timed, with_main
from tests.programs import ACQUIRE, QUEUE_GET, Fn, compare, diffed, program, sampled, side
from tests.unit.test_iterations import beside, ranges_from


def found_in(a: Run, b: Run, *names: str) -> dict[str, Evidence]:
    """Evidence of some producers, by signal; of several of one signal the first."""
    return {piece.signal: piece for piece in reversed(produce(names, compare(a, b)))}


def machine(run: Run, **fields: Any) -> Run:
    """The run on a machine that counted this."""
    return replace(run, machine=replace(run.machine, **fields))


class TestWaitingForACpu:
    def test_the_rank_that_queues_most(self) -> None:
        """Of 16 ranks one queues: little of what all wait together, and half of its own time."""

        def job(queue: float, others: float) -> Run:
            whole, free = (program([Fn("main", 1, 4.0, wait)], cpus=32) for wait in (queue, 0.0))
            mains = ((whole if i == 3 else free).processes[0] for i in range(16))
            ranks = (
                replace(
                    main, pid=100 + i, role="rank", rank=i, threads=(replace(main.threads[0], tid=100 + i),)
                )
                for i, main in enumerate(mains)
            )
            return machine(replace(whole, processes=tuple(ranks)), busy_s=64.0 + others * (4.2 + queue))

        found = diffed(job(0.1, 0.0), job(4.0, 0.9)).verdict
        assert (found.cause, found.kind) == ("contention", "external-load")
        piece = found.evidence[0]
        assert (piece.signal, piece.unit, piece.reading) == ("rank.wait", "share", "others-wait-for-rank")
        assert (piece.baseline, piece.candidate) == (pytest.approx(0.1 / 4.1), 0.5)
        assert found.numbers["contention.who"] == "rank"

    def test_what_the_hypervisor_gave_away(self) -> None:
        a, b = side(), machine(side(ratio=1.0), steal_s=3.0)
        steal = found_in(a, b, "steal")["steal"]
        assert (steal.baseline, steal.reading) == (None, "other-guests")
        assert steal.candidate == pytest.approx(3.0 / 6.52)
        assert found_in(a, machine(side(), steal_s=0.1), "steal") == {}
        assert diffed(a, b).verdict.kind == "external-load"

    @pytest.mark.parametrize(
        ("before", "after", "reading"),
        [(0.0, 1.5, "other-programs"), (1.4, 1.5, "as-beside-baseline"), (0.0, 0.1, "machine-idle")],
    )
    def test_what_others_used(self, before: float, after: float, reading: str) -> None:
        others = found_in(side(others=before), side(others=after), "others")["others"]
        assert (others.baseline, others.candidate) == (pytest.approx(before), pytest.approx(after))
        assert others.reading == reading

    def test_functions_that_queued_are_named_only_where_it_was_measured_that_they_did(self) -> None:
        assert found_in(sampled(side()), sampled(side(ratio=1.0)), "queue-functions") == {}
        assert found_in(side(), side(), "queue-functions") == {}

    def test_who_takes_the_cpus_where_both_do(self) -> None:
        """The one whose demand differs between the sides: more threads of its own, or others that came."""
        before = side(helpers=[(3.0, 0.0)] * 2, others=1.0)
        more_workers = diffed(before, side(ratio=1.0, helpers=[(3.0, 6.0)] * 8, others=1.5)).verdict
        assert (more_workers.cause, more_workers.kind) == ("contention", "self-oversubscription")
        assert more_workers.numbers["contention.others"] is True
        before = side(helpers=[(6.0, 3.0)] * 4)
        came = diffed(before, side(ratio=1.0, helpers=[(6.0, 6.0)] * 4, others=1.0)).verdict
        assert (came.cause, came.kind) == ("contention", "external-load")
        assert came.numbers["contention.itself"] is True

    def test_the_programs_that_took_the_cpus(self) -> None:
        backup = Neighbour("nightly-backup", 1.0, 812, user="ann", group="docker 3fa9c1d2e4b5")
        listed = (backup, Neighbour("indexer", 0.4, 90), Neighbour("sh", 0.01, 91))
        slow = side(ratio=2.0, others=1.9)
        found = diffed(side(), machine(slow, neighbours=Neighbours(6.0, listed, 1.5, True))).verdict
        assert found.kind == "external-load"
        named = found.evidence[1]
        assert (named.signal, named.reading) == ("neighbours", "who-ran")
        assert [named.numbers[f"name-{i}"] for i in range(2)] == ["nightly-backup", "indexer"]
        assert (named.numbers["pid-0"], named.numbers["cores-0"]) == (812, 1.0)
        # What hardly ran is not named, nor is a user.
        assert "name-2" not in named.numbers
        assert "ann" not in named.numbers.values()
        hidden = machine(slow, neighbours=Neighbours(6.0, (), 1.5, False))
        assert diffed(side(), hidden).verdict.evidence[1].numbers == {"named": 0, "hidden": 1.5}


class TestGpus:
    @staticmethod
    def used(run: Run, *shares: float) -> Run:
        column = np.array([*shares, math.nan])  # read twice a second: between two readings there is none
        return replace(run, series=Series(np.arange(column.size), {"gpu_utilisation": column}))

    def test_gpus_that_waited_more(self) -> None:
        a, b = self.used(side(), 0.9, 0.7), self.used(side(ratio=2.0, others=1.9), 0.2, 0.4)
        gpu = diffed(a, b).verdict.evidence[1]
        assert (gpu.signal, gpu.unit, gpu.reading) == ("gpu", "share", "gpu-waited")
        assert (gpu.baseline, gpu.candidate) == pytest.approx((0.8, 0.3))
        # Beside a run without readings one has its own.
        gpu = found_in(side(), self.used(side(), 0.4), "gpu")["gpu"]
        assert (gpu.baseline, gpu.candidate, gpu.reading) == (None, pytest.approx(0.4), "")


def loaded(wait: float, load: float) -> Run:
    """A loop of ten iterations whose consumer takes what a loader brings, annotated with NVTX ranges."""
    get = Fn("get", 10, 0.001, callers={"step": 10}, file=QUEUE_GET)
    run = side((get, Fn(ACQUIRE, 10, 0.0, 0.0, wait, {"get": 10})))
    return with_main(run, ranges=ranges_from(beside(load=load)))


def test_a_consumer_that_waits_for_loaders() -> None:
    found = diffed(loaded(0.1, 12.0), loaded(4.1, 60.0)).verdict
    assert (found.cause, found.rule) == ("data-starvation", "loading")
    pieces = {piece.signal: piece for piece in found.evidence}
    for signal in ("delivery", "main.off"):
        assert (pieces[signal].baseline, pieces[signal].candidate) == pytest.approx((0.1, 4.1))
    assert pieces["main.off"].numbers == {"share": pytest.approx(1.0)}
    waits = pieces["iterations.wait"]
    assert waits.baseline < 0.3 < waits.candidate  # type: ignore[operator]
    assert waits.numbers["before"] == pytest.approx(1000 / 12, rel=0.05)
    assert waits.numbers["after"] == pytest.approx(1000 / 60, rel=0.05)


class TestMachines:
    def test_another_cpu(self) -> None:
        found = found_in(side(), side(cpu_model="older", slower=1.8), "machines")
        assert found == {"cpu.model": Evidence("cpu.model", "text", "cpu", "older", reading="another-cpu")}

    def test_a_machine_that_did_the_same_fixed_work_more_slowly(self) -> None:
        fast, slow = (timed(side(slower=f), f) for f in (1.0, 1.5))
        found = found_in(fast, slow, "machines")
        fixed, yardstick, verdict = found["fixed-work"], found["yardstick"], diffed(fast, slow).verdict
        assert (fixed.candidate, fixed.reading) == (pytest.approx(1.5), "machine-slower")
        assert (yardstick.baseline, yardstick.candidate) == (pytest.approx(1e-4), pytest.approx(1.5e-4))
        assert (verdict.cause, verdict.rule) == ("slower-machine", "slower-cpu")
        # Within what its readings scatter by anyway it says nothing, and neither does one side alone.
        wide = [timed(side(slower=f), f, scatter=0.5) for f in (1.0, 1.5)]
        assert found_in(*wide, "machines")["fixed-work"].reading == "machine-as-fast"
        assert found_in(fast, side(slower=1.5), "machines") == {}

    @pytest.mark.parametrize(("second", "known"), [("host", True), ("there", False)])
    def test_of_a_job_on_several_hosts_not_every_machine_is_known(self, second: str, known: bool) -> None:
        """What is known of its machine is that of the launcher's."""

        def job(factor: float) -> Run:
            run = timed(side(slower=factor), factor)
            ranks = (
                replace(run.processes[0], pid=100 + rank, role="rank", rank=rank, host=Host(name))
                for rank, name in enumerate(("host", second))
            )
            return replace(run, processes=tuple(ranks))

        case = compare(job(1.0), job(1.5))
        assert one_machine(case.before, case.now) is known
        assert bool(fixed_work(case.before, case.now)) is known

    def test_one_factor_is_no_slower_machine_where_fixed_work_took_as_long(self) -> None:
        """Another model that is as fast does not explain it either."""
        for model in ("cpu", "older"):
            found = diffed(timed(side()), timed(side(slower=1.5, cpu_model=model))).verdict
            assert found.cause not in ("slower-machine", "no-change", "code-change"), model

    def test_instruction_sets(self) -> None:
        variables = {"OPENCV_CPU_DISABLE": "AVX2"}
        piece = found_in(side(), side(environment=variables), "machines")["variable"]
        assert (piece.subject, piece.baseline, piece.candidate) == ("OPENCV_CPU_DISABLE", None, "AVX2")
        assert piece.reading == "other-instructions"


class TestInputs:
    def test_more_memory_and_more_bytes_read(self) -> None:
        def used(memory: int, read: int, slower: float = 1.0) -> Run:
            return with_main(side(slower=slower), peak_memory_bytes=memory, read_bytes=read)

        a, b = used(200_000_000, 50_000_000), used(290_000_000, 75_000_000, 1.6)
        found, verdict = found_in(a, b, "inputs"), diffed(a, b).verdict
        assert {s: (e.baseline, e.candidate, e.unit) for s, e in found.items()} == {
            "memory.peak": (200e6, 290e6, "bytes"),
            "bytes.read": (50e6, 75e6, "bytes"),
        }
        assert found["memory.peak"].numbers == {"factor": pytest.approx(1.45)}
        assert (verdict.cause, verdict.rule) == ("workload-change", "larger-input")
        # A megabyte more is no larger input, whatever the factor.
        assert found_in(used(10_000_000, 1), used(11_500_000, 2), "inputs") == {}

    @pytest.mark.parametrize(
        ("command", "words"),
        [
            (("python", "train.py", "--n", "7"), ("5", "7")),
            (("python", "train.py"), ("python train.py --n 5", "python train.py")),
        ],
    )
    def test_command_lines(self, command: tuple[str, ...], words: tuple[str, str]) -> None:
        before = side(command=("python", "train.py", "--n", "5"))
        piece = found_in(before, side(command=command), "command")["command"]
        assert (piece.baseline, piece.candidate, piece.reading) == (*words, "differs")
        assert found_in(before, before, "command") == {}

    @pytest.mark.parametrize(
        ("before", "after", "differs"),
        [
            ("python3 /home/a/train.py /data/a", "/v/bin/python3.12 train.py /data/a", False),
            ("python -u a/train.py", "python -u b/train.py", False),
            ("python train.py /data/1/a", "python train.py /data/2/a", True),
            ("python train.py", "python train.py --big", True),
            # Of runs that are masked.
            ("python <project>/train.py --on x", "python train.py --on x", False),
            ("python train.py --on <project>/1/a", "python train.py --on <project>/2/a", True),
        ],
    )
    def test_a_program_elsewhere_is_the_same_and_data_elsewhere_are_others(
        self, before: str, after: str, differs: bool
    ) -> None:
        case = compare(*(side(command=tuple(words.split())) for words in (before, after)))
        assert case.read("command.differs") is differs


def test_where_no_code_changed_none_is_named() -> None:
    names = ("code-function", "code-calls", "code-source", "per-call-function", "per-call")
    assert set(found_in(side(), side(), *names)) == {"per-call"}


def test_what_two_producers_give_is_there_once() -> None:
    case = compare(side(), side(slower=1.3))
    assert len(produce(("wall", "wall", "main-wait", "main-wait"), case)) == 2


def test_machines_without_counters_are_not_asked() -> None:
    for none in (None, Machine()):
        bare = replace(side(), machine=none)
        assert found_in(bare, bare, "others", "steal", "pressure") == {}
