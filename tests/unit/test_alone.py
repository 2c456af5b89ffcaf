"""What one run says of itself: what it lacked, and silence where it lacked nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from profkit.formats import load_side
from profkit.model import Pause, Run, RunSet
from profkit.verdict.alone import judge_run
from profkit.verdict.diagnosis import diagnose as diff
from profkit.verdict.types import Verdict
from tests.builders import Row, captured, foreign, profile
from tests.programs import ACQUIRE, Fn, program

SAMPLES = [
    path for path in (Path(__file__).resolve().parents[2] / "sample_profiles").iterdir() if path.is_dir()
]
ROWS = [Row("m.py", 10 * i, f"f{i}", 100, 0.5) for i in range(8)]


def said(run: Run) -> Verdict | None:
    return judge_run(run, run.processes).verdict


def consumer(own: float, waits: float, *workers: tuple[float, float]) -> Run:
    """A main thread that works, and that waits for what its workers hand over."""
    get = Fn("get", 50, 0.01, callers={"main": 50}, file="/usr/lib/python3.11/multiprocessing/queues.py")
    return program([Fn("main", 1, own), get, Fn(ACQUIRE, 50, 0.0, 0.0, waits, {"get": 50})], helpers=workers)


@pytest.mark.parametrize(
    "run",
    [
        captured(profile(ROWS), wall=4.0, run=3.9, wait=0.1),
        foreign(profile(ROWS)).runs[0],
        captured(profile(ROWS), wall=0.3, run=0.1, wait=0.2),
        consumer(0.5, 7.5, (7.5, 0.2), (7.0, 0.2)),
        replace(captured(profile(ROWS), wall=4.0, run=4.0, wait=0.0), processes=()),
    ],
    ids=["lacked nothing", "foreign", "only starts", "its workers use every CPU", "no processes"],
)
def test_without_a_lack_there_is_no_verdict(run: Run) -> None:
    assert said(run) is None


def ranks() -> Run:
    """Four ranks on two CPUs."""
    run = captured(profile(ROWS), wall=8.0, run=2.0, wait=2.0)
    each = (replace(run.processes[0], pid=100 + i, rank=i, role="rank") for i in range(4))
    return replace(run, processes=tuple(each))


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        (captured(profile(ROWS), wall=8.0, run=4.0, wait=4.0, busy=16.0), "external-load"),
        (captured(profile(ROWS), wall=8.0, run=4.0, wait=4.0, throttled=(30, 80)), "cpu-quota"),
        (ranks(), "self-oversubscription"),
    ],
    ids=["others", "a quota", "more ranks than CPUs"],
)
def test_who_takes_the_cpus(run: Run, kind: str) -> None:
    assert (said(run).cause, said(run).kind) == ("contention", kind)


def test_own_processes_above_the_cpus() -> None:
    verdict = said(captured(profile(ROWS), wall=8.0, run=3.0, wait=5.0, children=[(3.0, 5.0)] * 4))
    assert (verdict.cause, verdict.kind) == ("contention", "self-oversubscription")
    assert verdict.numbers["main.wait"] == pytest.approx(5.0 / 8.0)
    assert verdict.numbers["contention.who"] == "main"
    assert [piece.kind for piece in verdict.advice] == ["limit-threads", "start-fewer", "verify"]


def test_queueing_that_nobody_caused_is_how_threads_hand_over() -> None:
    run = captured(profile(ROWS), wall=8.0, run=2.0, wait=1.0, children=[(5.0, 2.0)])
    assert said(run) is None
    unknown = said(replace(run, machine=replace(run.machine, busy_s=None)))
    assert (unknown.cause, unknown.kind) == ("contention", None)
    assert unknown.findings[0].confidence < 0.7
    assert unknown.confidence is None


def test_workers_that_queue_while_the_main_thread_waits_for_them() -> None:
    verdict = said(captured(profile(ROWS), wall=8.0, run=0.5, wait=0.0, children=[(3.0, 4.5)] * 5))
    assert (verdict.cause, verdict.numbers["contention.who"]) == ("contention", "helpers")
    assert verdict.evidence[0].signal == "helpers.queue"


def test_where_both_want_the_cpus_the_greater_is_named() -> None:
    """As a comparison with a run of the same threads would: the neighbour is what it lacks."""
    both = captured(profile(ROWS), wall=8.0, run=4.0, wait=4.0, children=[(4.0, 10.0)], busy=16.0)
    verdict = said(both)
    assert (verdict.numbers["contention.itself"], verdict.numbers["contention.others"]) == (True, True)
    assert verdict.kind == "external-load"
    beside = [replace(both.processes[1], pid=pid) for pid in (7, 8)]
    more = said(replace(both, processes=(*both.processes, *beside)))
    assert more.kind == "self-oversubscription"


def test_waiting_for_loaders() -> None:
    run = consumer(0.5, 7.5, (1.0, 0.0))
    found = judge_run(run, run.processes)
    assert found.account.seconds("loading") == pytest.approx(6.5)
    assert (found.verdict.cause, found.verdict.rule) == ("data-starvation", "loading")
    advice = found.verdict.advice[0]
    assert (advice.kind, advice.predicted_gain_s) == ("more-loaders", pytest.approx(6.5))


def test_standing_still() -> None:
    run = program([Fn("main", 1, 2.0), Fn(ACQUIRE, 1, 0.0, 0.0, 8.0, {"main": 1})])
    found = judge_run(run, run.processes)
    verdict = found.verdict
    assert (verdict.cause, verdict.rule) == ("blocked", "off-cpu")
    assert verdict.numbers["off"] == pytest.approx(0.8)
    assert found.account.seconds("blocked") == pytest.approx(8.0)
    advice = verdict.advice[0]
    assert (advice.argv, advice.files) == (("profkit", "show", "--by", "cumtime"), ("run.prof",))
    # What ``show --by cumtime`` prints is not its own next step.
    again = judge_run(run, run.processes, "cumtime").verdict
    assert (again.rule, again.advice) == ("off-cpu", ())


def test_a_process_that_was_stopped() -> None:
    run = program([Fn("main", 1, 6.0, 0.0, 4.0)])
    assert judge_run(run, run.processes).verdict is None
    (process,) = run.processes
    thread = replace(process.threads[0], pauses=(Pause(0, "stopped", 3.5, 9),))
    found = judge_run(run, [replace(process, threads=(thread,))]).verdict
    assert (found.cause, found.rule) == ("blocked", "stopped")
    assert found.numbers["account.stopped"] == pytest.approx(0.35, rel=0.05)
    assert found.advice[0].numbers["what"] == "stopped"


def named(verdict: Verdict) -> set[str]:
    """Everything that a verdict says takes the CPUs."""
    found = {verdict.kind} if verdict.kind else set()
    if verdict.numbers.get("contention.itself"):
        found.add("self-oversubscription")
    if verdict.numbers.get("contention.others") or verdict.numbers.get("contention.beside"):
        found.add("external-load")
    return found


def contradictions(pairs: Iterable[tuple[RunSet, RunSet]]) -> list[str]:
    """Candidates of which a comparison and the run alone name different takers of the CPUs.

    A baseline that lacked CPUs as well is no difference, and some other cause may be greater.
    """
    found = []
    for baseline, candidate in pairs:
        compared = diff(baseline, candidate).verdict
        for run in candidate.runs:
            alone = said(run)
            if alone is None or not compared.cause == alone.cause == "contention":
                continue
            takers = named(compared), named(alone)
            if not {compared.kind, alone.kind} - {None} <= takers[0] & takers[1]:
                found.append(f"{run.path}: {compared.kind} of {takers[0]}, {alone.kind} of {takers[1]}")
    return found


def test_a_run_alone_and_its_comparison_name_the_same() -> None:
    sides = [[load_side(str(file)) for file in sorted(directory.glob("*.prof"))] for directory in SAMPLES]
    pairs = [pair for files in sides for pair in permutations(files, 2)]
    assert len(pairs) > 20
    assert any(diff(*pair).verdict.cause == "contention" for pair in pairs)
    assert contradictions(pairs) == []
