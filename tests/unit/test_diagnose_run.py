"""The verdict from one run: what it lacked, and silence where it lacked nothing."""

from __future__ import annotations

from dataclasses import replace

from profkit.model import Run
from profkit.verdict.alone import diagnose_run
from profkit.verdict.types import Verdict
from tests.builders import Row, captured, foreign, profile

ROWS = [Row("m.py", 10 * i, f"f{i}", 100, 0.5) for i in range(8)]


def said(run: Run) -> Verdict | None:
    return diagnose_run(run, run.processes)


def test_a_run_that_lacked_nothing_gets_no_verdict() -> None:
    assert said(captured(profile(ROWS), wall=4.0, run=3.9, wait=0.1)) is None


def test_a_foreign_profile_gets_no_verdict() -> None:
    assert said(foreign(profile(ROWS)).runs[0]) is None


def test_own_processes_above_the_cpus() -> None:
    run = captured(profile(ROWS), wall=8.0, run=3.0, wait=5.0, children=[(3.0, 5.0)] * 4)
    verdict = said(run)
    assert verdict is not None
    assert (verdict.cause, verdict.kind) == ("contention", "self-oversubscription")
    assert "62 %" in verdict.summary
    assert verdict.advice


def test_others_above_the_cpus() -> None:
    verdict = said(captured(profile(ROWS), wall=8.0, run=4.0, wait=4.0, busy=16.0))
    assert verdict is not None
    assert (verdict.cause, verdict.kind) == ("contention", "external-load")


def test_queueing_that_nobody_caused_is_how_threads_hand_over() -> None:
    run = captured(profile(ROWS), wall=8.0, run=2.0, wait=1.0, children=[(2.0, 1.0)])
    assert said(run) is None
    assert run.machine is not None
    unknown = said(replace(run, machine=replace(run.machine, busy_s=None)))
    assert unknown is not None
    assert (unknown.cause, unknown.kind) == ("contention", None)
    assert unknown.confidence < 0.7


def test_more_ranks_than_cpus() -> None:
    run = captured(profile(ROWS), wall=8.0, run=2.0, wait=2.0)
    ranks = tuple(replace(run.processes[0], pid=100 + i, rank=i, role="rank") for i in range(4))
    verdict = said(replace(run, processes=ranks))
    assert verdict is not None
    assert (verdict.cause, verdict.kind) == ("contention", "self-oversubscription")


def test_workers_that_use_every_cpu_do_not_starve_their_consumer() -> None:
    rows = [*ROWS, Row("/usr/lib/python3.11/multiprocessing/pool.py", 96, "get", 50, 0.0, 7.0)]
    run = captured(profile(rows), wall=8.0, run=0.5, wait=0.0, children=[(7.5, 0.2), (7.0, 0.2)])
    assert said(run) is None


def test_a_quota_is_named_before_waiting() -> None:
    verdict = said(captured(profile(ROWS), wall=8.0, run=4.0, wait=4.0, throttled=(30, 80)))
    assert verdict is not None
    assert (verdict.cause, verdict.kind) == ("contention", "cpu-quota")


def test_workers_that_queue_while_the_main_thread_waits_for_them() -> None:
    run = captured(profile(ROWS), wall=8.0, run=0.5, wait=0.0, children=[(3.0, 4.5)] * 5)
    verdict = said(run)
    assert verdict is not None
    assert verdict.cause == "contention"
    assert "workers" in verdict.summary


def test_waiting_for_loaders() -> None:
    rows = [*ROWS, Row("/usr/lib/python3.11/multiprocessing/queues.py", 96, "get", 50, 0.0, 5.0)]
    run = captured(profile(rows), wall=8.0, run=3.0, wait=0.0, children=[(1.0, 0.0)])
    verdict = said(run)
    assert verdict is not None
    assert verdict.cause == "data-starvation"


def test_standing_still() -> None:
    verdict = said(captured(profile(ROWS), wall=10.0, run=2.0, wait=0.0))
    assert verdict is not None
    assert verdict.cause == "blocked"
    assert verdict.confidence < 0.9


def test_a_run_that_only_starts_is_not_judged() -> None:
    run = captured(profile(ROWS), wall=0.3, run=0.1, wait=0.2)
    assert said(run) is None


def test_no_processes_no_verdict() -> None:
    run = captured(profile(ROWS), wall=4.0, run=4.0, wait=0.0)
    assert diagnose_run(replace(run, processes=()), ()) is None
