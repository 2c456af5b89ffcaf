"""The verdict from one run: what it lacked, and silence where it lacked nothing."""

from __future__ import annotations

from dataclasses import replace

from profkit.analysis.diagnose_run import diagnose_run
from profkit.analysis.types import Verdict
from profkit.model import Run
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
