"""Comparisons of runs that were sampled: what intervals permit to say, and what they do not.

Runs are made by construction (`tests.programs`), so that the truth is known; the estimates hold it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profkit
from profkit.compare.replicates import gather
from profkit.compare.sampled_calls import NONE_SEEN, call_ratios, unseen_seconds
from profkit.formats import write_run
from profkit.measure.side_facts import no_side
from profkit.model import Effect, Process, Profile, Roots, Run, RunSet, Thread, Tier
from profkit.model.ranges import PUSHED
from profkit.model.thread import Definition, name_digest
from profkit.report.wording.summaries import summary_of
from profkit.report.wording.verdicts import verdict_block
from profkit.verdict.account import BUCKETS, CAPTURE, Account
from profkit.verdict.diagnosis import diagnose as diff
from profkit.verdict.judge import judge
from profkit.verdict.rule import Condition, Judged, Reading, Rule, evaluate, less, more
from profkit.verdict.thresholds import value
from profkit.verdict.types import Bounded, Verdict
from tests.builders import Row, Told, profile, ranges, timed, with_estimates, with_main, with_thread
from tests.programs import (
    ACQUIRE,
    QUEUE_GET,
    Fn,
    assert_adds_up,
    captured,
    compare,
    estimated,
    one_side,
    program,
    training,
)
from tests.shared import check_schema, words_of

#: What rounding of samples and of calls may leave in a bucket, of the walls.
SLIGHT = 1e-3


#: CPU seconds of `loop`, and of one more of its 100 steps.
LOOP_S, STEP_S = 2.36, 0.0235


def judged(a: Run | RunSet, b: Run | RunSet) -> Verdict:
    return judge(compare(a, b))


def counted(calls: int, low: float, high: float, time: float = 1.0, samples: int = 100) -> Profile:
    """A profile of one function whose calls are estimated."""
    return with_estimates(profile([Row("/w/m.py", 1, "f", calls, time)]), [(low, high, samples, 0.1)])


def loop(others: float = 0.0, environment: Mapping[str, str] | None = None, **more: object) -> Run:
    """The training loop without its native product, which samples need not show."""
    found = training(**more)  # type: ignore[arg-type]
    functions = [fn for fn in found if not fn.name.startswith("<")]
    return program(functions, others=others, environment=environment)


def unseen(tottime: float, samples: int, *tiers: Tier, wall: float = 100.0) -> Process:
    """A process of which samples were taken, none of them in what is asked for."""
    one = counted(0, math.nan, math.nan, time=tottime, samples=samples)
    return Process(wall_s=wall, threads=(Thread(one),), tiers=tiers or (Tier("sampled", 0.0),))


EXACT_PROCESS = replace(program([Fn("f", 1, 8.0)]).processes[0], tiers=())


@pytest.mark.parametrize(
    ("processes", "seconds"),
    [
        ([unseen(8.0, 1000)], NONE_SEEN / 1000 * 8.0),
        ([unseen(8.0, 1000), unseen(2.0, 500)], NONE_SEEN / 1500 * 10.0),
        ([EXACT_PROCESS], 0.0),
        ([replace(EXACT_PROCESS, tiers=(Tier("exact", 0.0),))], 0.0),
        # Exact for 6 s of 10 s, then sampled, then exact again.
        (
            [unseen(9.0, 300, Tier("exact", 0.0), Tier("sampled", 6.0), Tier("exact", 8.0), wall=10.0)],
            3 / 300 * 2.0,
        ),
        # Without samples it may have been all of it.
        ([unseen(0.5, 0, wall=0.7)], 0.7),
        ([unseen(0.5, 2, wall=0.7)], 0.5),
        ([replace(unseen(0.0, 0, wall=0.7), threads=())], 0.7),
    ],
    ids=words_of("one two no-tiers exact in-turns no-samples two-samples no-threads"),
)
def test_three_over_the_samples_of_the_sampled_time(processes: list[Process], seconds: float) -> None:
    """The rule of three: of n samples none was in a function."""
    assert unseen_seconds(processes) == pytest.approx(seconds)


class TestOneSided:
    """A function that a sampled side lacks."""

    EXACT = program(training())
    SAMPLED = estimated(EXACT, 0.01)
    #: 3160 samples of 1 ms: what takes at most 3 ms may have been missed.
    BOUND_S = 3 * 0.001

    def rare(self, seconds: float) -> Run:
        return program([*training(), Fn("rare", 1, seconds, callers={"main": 1})])

    #: One exact run of several is enough to see it.
    @pytest.mark.parametrize(
        ("part", "candidate", "match"),
        [
            (0.99, (SAMPLED,), "unseen"),
            (1.01, (SAMPLED,), "gone"),
            (0.33, (EXACT,), "gone"),
            (0.33, (SAMPLED, EXACT), "gone"),
        ],
        ids=["too short", "long enough", "an exact side", "an exact run"],
    )
    def test_it_is_gone_only_if_it_would_have_been_seen(
        self, part: float, candidate: tuple[Run, ...], match: str
    ) -> None:
        found = compare(self.rare(part * self.BOUND_S), one_side(*candidate))
        table = found.signals.table
        assert table.match[table.name.index("rare")] == match
        assert found.signals.residue.baseline_only == (match == "gone")
        assert (found.signals.residue.baseline_only_share > 0) == (match == "gone")

    def test_its_calls_are_not_known_and_its_time_is_no_code_and_no_work(self) -> None:
        found = compare(self.rare(0.0029), estimated(program(training()), 0.0))
        table = found.signals.table
        row = table.name.index("rare")
        assert (call_ratios(table).known[row], table.anomalous[row]) == (False, False)
        assert_adds_up(found.account)
        assert found.account.seconds("code") == pytest.approx(0.0, abs=1e-9)
        assert found.account.seconds("work") == pytest.approx(0.0, abs=1e-9)
        # Of two exact runs it is changed code: sources are known, and it is gone.
        exact = compare(self.rare(0.0029), program(training())).account
        assert exact.seconds("code") == pytest.approx(-0.0029)


class TestSides:
    """Medians over runs."""

    def calls(self, *profiles: Profile, unseen: tuple[float, ...]) -> tuple[list[float], ...]:
        """Calls of each function, and the limits of these."""
        found = gather(profiles, [Roots()] * len(profiles), unseen).profile
        return found.ncalls.tolist(), found.calls_low.tolist(), found.calls_high.tolist()

    def test_runs_that_do_not_know_are_left_out(self) -> None:
        unknown = counted(0, math.nan, math.nan)
        known = counted(10, 8, 12), counted(14, 13, 15)
        assert self.calls(known[0], unknown, known[1], unseen=(1.0,) * 3) == ([12], [10.5], [13.5])
        assert np.isnan(gather([known[0], unknown], [Roots()] * 2, (1.0, 1.0)).ncalls[1, 0])
        calls, low, _ = self.calls(unknown, unknown, unseen=(1.0, 1.0))
        assert calls == [0]
        assert np.isnan(low).all()

    def test_a_run_that_lacks_the_function_does_not_say_0_calls_if_it_was_sampled(self) -> None:
        sides = counted(10, 8, 12), profile([Row("/w/m.py", 5, "g", 1, 1.0, 1.0)])
        assert self.calls(*sides, unseen=(1.0, 0.0))[0][0] == 5
        assert self.calls(*sides, unseen=(1.0, 1.0))[0][0] == 10


class TestRatios:
    def test_errors_of_both_sides_add_up_in_quadrature(self) -> None:
        table = compare(estimated(loop(), 0.1), estimated(loop(steps=200), 0.1)).signals.table
        found = call_ratios(table)
        row = table.name.index("sharpen")
        assert found.value[row] == pytest.approx(2.0)
        down = math.hypot(math.log(1 / 0.9), math.log(1.1))
        assert found.low[row] == pytest.approx(2.0 * math.exp(-down))
        assert found.high[row] == pytest.approx(2.0 * math.exp(down))
        assert not found.exact[row]
        assert found.changed[row]

    @pytest.mark.parametrize(("width", "apart"), [(0.44, True), (0.46, False)])
    @pytest.mark.parametrize("more", [True, False])
    def test_wide_ones_that_leave_out_a_tenth_weigh_with_their_nearer_limit(
        self, width: float, apart: bool, more: bool
    ) -> None:
        sides = [loop(), estimated(loop(steps=200), width)]
        found = compare(*(sides if more else sides[::-1]))
        table = found.signals.table
        ratios, row = call_ratios(table), table.name.index("sharpen")
        assert ratios.apart[row] == apart
        assert not ratios.known[row]
        assert math.isnan(table.per_call_ratio[row])
        limit = 2 * (1 - width)
        weight = limit if apart else 2
        assert ratios.weight[row] == pytest.approx(weight if more else 1 / weight)
        assert_adds_up(found.account)
        mean = 100 * STEP_S / math.log(2)  # logarithmic, of both sides
        booked = mean * (math.log(limit) if more else -math.log(limit)) if apart else 0.0
        assert found.account.seconds("work") == pytest.approx(booked, abs=1e-9)
        rules = [finding.rule for finding in judge(found).findings]
        assert ("call-counts" in rules) == apart
        assert found.account.calls_unknown < 0.01 if apart else found.account.calls_unknown > 0.9


@pytest.mark.parametrize(
    ("condition", "found", "margin"),
    [
        (more("a", "work.calls"), Bounded(1.2, 1.11, 1.3), 1.11 - 1.1),
        (more("a", "work.calls"), Bounded(1.2, 1.09, 1.3), 1.09 - 1.1),
        (less("a", "work.fewer"), Bounded(0.8, 0.7, 0.9), 1 / 1.1 - 0.9),
        (less("a", "work.fewer"), Bounded(0.8, 0.7, 0.92), 1 / 1.1 - 0.92),
    ],
    ids=["more", "too near", "less", "too near below"],
)
def test_the_whole_interval_must_be_beyond_the_threshold(
    condition: Condition, found: Bounded, margin: float
) -> None:
    rule = Rule("r", "faster", "…", conditions=(condition,))
    readings = {"a": Reading("factor", "a", lambda case: found)}
    case = Judged(no_side(), no_side(), Account(0.0, 0.0, ()), readings)
    held, (check,) = evaluate(rule, case, frozenset())
    assert held is (margin > 0)
    assert check.margin == pytest.approx(margin)
    assert check.value == found


class TestCallsUnknown:
    """Half as much again of all CPU time: more calls, or a higher cost of each."""

    def assert_undecided(self, found: Verdict) -> None:
        assert (found.cause, found.rule, found.confidence) == ("inconclusive", "calls-unknown", None)
        sides = [("capture-exact", "baseline"), ("capture-exact", "candidate")]
        assert [(a.kind, a.subject) for a in found.advice] == sides
        assert "profkit capture --exact" in verdict_block(found).summary
        (check,) = (check for check in found.checks if check.rule == "calls-unknown")
        assert (check.reading, check.value, check.held) == ("calls.undecided", True, True)

    @pytest.mark.parametrize("truth", [{"steps": 150}, {"slower": 1.5}])
    @pytest.mark.parametrize("exact", [True, False])
    def test_nothing_is_said_of_the_cause(self, truth: Mapping[str, object], exact: bool) -> None:
        baseline = loop() if exact else estimated(loop(), None)
        self.assert_undecided(judged(baseline, estimated(loop(**truth), None)))

    @pytest.mark.parametrize(("width", "same"), [(0.05, True), (0.15, None)])
    def test_a_higher_cost_needs_calls_that_are_the_same(self, width: float, same: bool | None) -> None:
        """± 5 % leaves out that there are a tenth more calls, ± 15 % does not."""
        found = compare(loop(), estimated(loop(slower=1.5), width))
        assert found.read("calls.same") is same
        assert (judge(found).rule == "calls-unknown") == (same is None)

    def test_one_function_whose_calls_are_not_known_leaves_it_open_if_it_gained(self) -> None:
        slow = {"times": {"sharpen": 3.0}}
        unknown = estimated(loop(**slow), 0.02, of={"sharpen": None})
        found = compare(loop(), unknown)
        assert found.read("calls.known") < value("calls.known")
        self.assert_undecided(judge(found))
        # One that did not gain leaves nothing open.
        other = compare(loop(), estimated(loop(**slow), 0.02, of={"load": None}))
        assert other.read("calls.known") >= value("calls.known")
        assert judge(other).rule != "calls-unknown"

    def test_where_every_call_was_traced_exact_capture_is_not_advised(self) -> None:
        """Compiled modules need not tell the interpreter's profile function of their calls."""

        def traced(**truth: object) -> Run:
            run = estimated(loop(**truth), 0.0, of={"sharpen": None})
            return with_main(run, tiers=(Tier("exact", 0.0),))

        found = judged(traced(), traced(times={"sharpen": 3.0}))
        assert found.rule == "calls-unknown"
        assert [advice.kind for advice in found.advice] == ["compare-inputs"]
        summary = verdict_block(found).summary
        assert "compiled modules" in summary
        assert "--exact" not in summary

    def test_what_waits_for_ranks_leaves_nothing_open(self) -> None:
        send = "<built-in method mpi4py.MPI.send>"

        def rank(sent: float, **truth: Any) -> Run:
            run = program([*training(**truth), Fn(send, 100, sent, callers={"step": 100})])
            return estimated(run, 0.0, of={send: None})

        found = compare(rank(1.5), rank(1.8, slower=1.5))
        assert found.read("calls.known") == pytest.approx(1.0)
        assert judge(found).rule != "calls-unknown"

    def test_what_needs_no_calls_is_said_all_the_same(self) -> None:
        changed = {"times": {"sharpen": 4.0}, "changed": {"sharpen": "slower"}}
        found = judged(loop(), estimated(loop(**changed), None))
        assert (found.cause, found.subject) == ("code-change", "sharpen")
        assert judged(loop(), estimated(loop(ratio=1.0, others=1.5), None)).cause == "contention"

    def test_variables_say_that_libraries_use_other_instructions(self) -> None:
        fewer = {"NPY_DISABLE_CPU_FEATURES": "AVX2"}
        slower = estimated(loop(slower=1.5, environment=fewer), None)
        found = judged(loop(), slower)
        assert (found.cause, found.rule) == ("slower-machine", "slower-cpu")
        assert verdict_block(found).headline == "Libraries use another instruction set"
        assert [a.kind for a in found.advice] == ["same-settings", "verify"]
        assert found.advice[0].argv[:3] == ("env", "-u", "NPY_DISABLE_CPU_FEATURES")
        # Where fixed work took longer too, it is the machine.
        machine = judged(timed(loop()), timed(slower, 1.5))
        assert (machine.rule, verdict_block(machine).headline) == ("slower-cpu", "A slower machine")
        # Nor does it hold where there are more calls.
        more = judged(loop(), estimated(loop(steps=150, environment=fewer), 0.05))
        assert more.cause == "workload-change"

    def test_more_to_do_is_said_where_only_that_is_left(self) -> None:
        """The same source, command and machine: whether in more calls or in each is not known, and no other cause."""

        a, b = timed(loop()), timed(estimated(loop(steps=200), None))
        assert (judged(a, b).cause, judged(a, b).rule) == ("workload-change", "more-to-do")
        assert judged(a, b).findings[0].doubt is None
        # Fixed work runs on one CPU, and those of a virtual machine may slow each other down.
        several = [program(training(steps=n), helpers=[(0.025 * n, 0.0)]) for n in (100, 200)]
        doubted = judged(timed(several[0]), timed(estimated(several[1], None)))
        assert (doubted.rule, doubted.findings[0].doubt) == ("more-to-do", 0.65)
        # Where some calls are known, a part of it is booked as more calls.
        known = {"sharpen": 0.1, "backward": 0.1}
        partly = compare(a, timed(estimated(loop(steps=200), None, of=known)))
        assert partly.read("account.speed") < 0.5
        assert partly.read("account.calls-and-cost") == pytest.approx(1.0, rel=0.05)
        assert judge(partly).cause == "workload-change"
        # Other programs take CPUs, which costs it nothing, or much.
        for ratio, rule in ((0.02, "more-to-do"), (0.5, "run-queue-wait")):
            before, after = program(training()), program(training(steps=200, ratio=ratio), others=1.9)
            assert judged(timed(before), timed(estimated(after, None))).rule == rule
        # Both sides queue as much, and no CPU was free for either.
        queued = [program(training(steps=n, ratio=1.0), others=1.9) for n in (100, 200)]
        found = judged(timed(queued[0]), timed(estimated(queued[1], None)))
        waited = next(one for one in found.evidence if one.signal == "main.wait")
        assert (found.rule, waited.reading) == ("more-to-do", "as-beside-baseline")
        # Nothing says that the CPU was as fast, or it was not: then it may be the machine.
        assert judged(loop(), estimated(loop(steps=200), None)).rule == "calls-unknown"
        assert judged(a, timed(estimated(loop(slower=2.0), None), 2.0)).cause == "inconclusive"
        unsteady = timed(estimated(loop(steps=200), None), scatter=0.7)
        assert judged(a, unsteady).rule == "calls-unknown"

    def test_more_to_do_is_also_more_to_wait_for(self) -> None:
        """Each call of a program's own, or of a server, takes as long as before."""

        def served(steps: int, waited: float) -> Run:
            recv = Fn(
                "<method 'recv' of '_socket.socket' objects>", steps, off=waited, callers={"step": steps}
            )
            return program([*training(steps=steps), recv])

        def cause(steps: int, waited: float) -> str:
            return judged(timed(served(100, 8.0)), timed(estimated(served(steps, waited), None))).cause

        assert cause(200, 16.0) == "workload-change"
        # Longer waits than the work explains, or no more work.
        assert cause(200, 40.0) == "blocked"
        assert cause(100, 16.0) == "blocked"

    def test_what_a_changed_function_passes_on_is_its_code(self) -> None:
        """``step``, below which all the work is, gives ``sharpen`` another object: a list instead of a set."""
        slow = {"sharpen": 4.0}
        a, b = timed(loop()), timed(estimated(loop(times=slow, changed={"step": "other"}), None))
        found = judged(a, b)
        assert (found.cause, found.rule, found.subject) == ("code-change", "changed-above", "step")
        assert "calls sharpen, directly or not" in verdict_block(found).summary
        assert judged(a, timed(estimated(loop(times=slow), None))).cause == "workload-change"
        # A function beside it passes nothing on, and a slower machine is none of its doing.
        beside = timed(estimated(loop(times=slow, changed={"backward": "other"}), None))
        assert judged(a, beside).cause == "inconclusive"
        machine = timed(estimated(loop(slower=2.0, changed={"step": "other"}), None), 2.0)
        assert judged(a, machine).cause != "code-change"

    @pytest.mark.parametrize(
        ("source", "cause", "rule"),
        [
            ("other", "code-change", "changed-source"),
            ("source of slow", "workload-change", "other-function"),
        ],
    )
    def test_the_source_of_a_function_that_samples_missed(self, source: str, cause: str, rule: str) -> None:
        """Fast functions are in no sample until an edit makes them slow; an option chooses others."""
        listed = Definition(beside=0, name=name_digest("slow"), source_hash=source)
        a = with_thread(estimated(loop(), None), definitions=(listed,))
        b = estimated(program([*training(), Fn("slow", 100, 4.0, callers={"step": 100})]), None)
        found = judged(a, b)
        assert (found.cause, found.rule, found.subject) == (cause, rule, "slow")

    def test_ranges_say_how_much_more_there_was_to_do(self) -> None:
        """Their counts are exact where those of calls are not known."""

        def with_steps(run: Run, steps: int, seconds: float) -> Run:
            rows = [Told("step", i * 10**9, i * 10**9 + round(seconds * 1e9), PUSHED) for i in range(steps)]
            return with_main(run, ranges=ranges(rows))

        before = with_steps(loop(), 100, 0.03)
        more = judged(before, with_steps(estimated(loop(steps=200), None), 200, 0.03))
        assert (more.cause, more.rule, more.subject) == ("workload-change", "more-ranges", "step")
        longer = judged(before, with_steps(estimated(loop(slower=2.0), None), 100, 0.06))
        assert longer.rule != "more-ranges"
        # Who has more to do waits longer for it too.
        waits = [
            program([*training(slower=0.5), Fn("get", 10, off=off, callers={"main": 10}, file=QUEUE_GET)])
            for off in (2.0, 6.0)
        ]
        a, b = (with_steps(estimated(run, None), 100 * n, 0.03) for n, run in zip((1, 2), waits, strict=True))
        assert judged(a, b).rule == "more-ranges"
        assert judged(a, with_steps(b, 100, 0.06)).cause == "blocked"

    def test_what_samples_scatter_by_is_no_other_order(self) -> None:
        """Two samplings of one program, of 300 samples each."""
        random = np.random.default_rng(5)

        def drawn() -> Run:
            run = estimated(loop(), None, period=0.01)
            prof = run.processes[0].threads[0].profile
            n = random.multinomial(int(prof.samples.sum()), prof.samples / prof.samples.sum())
            error = 1.96 * 0.01 * np.sqrt(n)
            other = replace(prof, samples=n, tottime=n * 0.01, cumtime=prof.cumtime, tottime_error=error)
            return with_thread(run, profile=other)

        shifted = [compare(drawn(), drawn()).signals.moved for _ in range(40)]
        assert sum(shifted) <= 2
        assert compare(drawn(), estimated(loop(times={"sharpen": 4.0}), None)).signals.moved

    def test_repeats_of_samples_are_not_taken_for_scatter(self) -> None:
        runs = one_side(*(loop(slower=s) for s in (1.0, 1.01, 1.02)))
        noisy = one_side(*(estimated(loop(slower=s), 0.1) for s in (1.0, 1.3, 1.1)))
        assert math.isnan(compare(runs, noisy).signals.noisier)


class TestNative:
    """Native functions have no frame: their time is their Python caller's in a sample."""

    def seen_in_callers(self, **more: object) -> Run:
        """The training loop with the product's 0.4 s in ``forward`` and ``backward``."""
        loop = training(**more)  # type: ignore[arg-type]
        (dot,) = (fn for fn in loop if fn.name.startswith("<"))
        part = {name: dot.run * calls / dot.calls for name, calls in dot.callers.items()}
        return program([replace(fn, run=fn.run + part.get(fn.name, 0.0)) for fn in loop if fn is not dot])

    def test_they_are_compared_as_parts_of_their_callers(self) -> None:
        sides = program(training()), estimated(self.seen_in_callers(), 0.02)
        found = compare(*sides)
        assert_adds_up(found.account)
        assert not any(name.startswith("<") for name in found.signals.table.name)
        assert all(abs(bucket.seconds) < SLIGHT for bucket in found.account.buckets)
        assert not found.signals.table.anomalous.any()
        (said,) = diff(*map(one_side, sides)).warnings
        assert (said.code, said.numbers["functions"]) == ("native-functions-folded", 1)
        assert judge(found).cause == "no-change"

    def test_one_in_which_samples_were_taken_stays(self) -> None:
        found = diff(one_side(program(training())), one_side(estimated(program(training()), 0.02)))
        assert any(name.startswith("<") for name in found.table.name)
        assert found.warnings == ()

    def test_what_waits_by_design_stays(self) -> None:
        """A sampled run that has no sample in a lock did not wait there; which waiting it is would be lost."""
        waits = [*training(), Fn(ACQUIRE, 10, off=1.0, callers={"main": 10})]
        found = compare(estimated(self.seen_in_callers(), 0.02), estimated(program(waits), 0.02))
        assert ACQUIRE in found.signals.table.name
        assert found.account.bucket("blocked").parts[0].seconds == pytest.approx(1.0, rel=0.01)


def with_capture(run: Run, seconds: float) -> Run:
    """The same run as it is when its capture runs so long beside each function, and says so."""
    (main,) = run.processes
    (thread,) = main.threads
    run = replace(run, manifest=replace(run.manifest, wall_s=run.manifest.wall_s + seconds))
    run = with_main(run, wall_s=main.wall_s + seconds, cpu_s=main.cpu_s + seconds)
    return captured(with_thread(run, run_s=thread.run_s + seconds, tracer_s=seconds), seconds)


class TestCapture:
    def test_what_it_added_is_in_its_own_bucket(self) -> None:
        found = compare(with_capture(loop(), 0.1), with_capture(loop(slower=1.1), 1.1)).account
        assert_adds_up(found)
        assert [bucket.name for bucket in found.buckets] == [*BUCKETS, CAPTURE]
        assert found.seconds(CAPTURE) == pytest.approx(1.0)
        assert found.seconds("speed") == pytest.approx(0.1 * LOOP_S)
        assert found.program_s == pytest.approx(0.1 * LOOP_S)
        # What one of two traced sides does not know is not known of the difference.
        half = compare(loop(), with_capture(loop(), 1.0)).account
        assert [bucket.name for bucket in half.buckets] == [*BUCKETS]
        assert_adds_up(half)

    def test_of_what_it_added_to_workers_what_was_waited_for(self) -> None:
        """Two workers compute for 2 s each while the main thread waits for 2 s: half of that is on the path."""

        def pool(added: float) -> Run:
            waits = [Fn("main", run=0.5), Fn(ACQUIRE, 10, off=2.0 + added / 2, callers={"main": 10})]
            run = program(waits, workers=[[Fn("task", 100, run=2.0 + added / 2)]] * 2)
            effects = (Effect(0.0, 0.0, 0.0), *[Effect(added / 2, added / 4, added)] * 2)
            processes = zip(run.processes, effects, strict=True)
            return replace(run, processes=tuple(replace(p, effect=effect) for p, effect in processes))

        found = compare(pool(0.2), pool(1.0)).account
        assert_adds_up(found)
        assert found.seconds(CAPTURE) == pytest.approx(0.4)
        assert found.seconds("speed") == pytest.approx(0.0, abs=1e-9)
        assert found.bucket(CAPTURE).high > found.seconds(CAPTURE) > found.bucket(CAPTURE).low

    @pytest.mark.parametrize(("added", "named"), [(0.85, True), (0.75, False)])
    def test_where_it_is_most_of_the_difference_nothing_is_said_of_the_program(
        self, added: float, named: bool
    ) -> None:
        """The program's own queueing added 0.8 s."""
        slow = loop(ratio=0.8 / LOOP_S, others=1.5)
        sides = with_capture(loop(), 0.1), with_capture(slow, 0.1 + added)
        found = judged(*sides)
        assert (found.rule == "capture-itself") == named
        assert (found.cause == "contention") == (not named)
        if named:
            assert found.cause == "inconclusive"
            assert "Capture overhead" in verdict_block(found).summary
            assert {advice.kind for advice in found.advice} == {"capture-sampled"}

    def test_a_program_that_did_not_change_has_not_changed(self) -> None:
        less, more = with_capture(loop(), 0.05), with_capture(loop(slower=1.01), 1.5)
        found = judged(less, more)
        assert found.cause == judged(more, less).cause == "no-change"
        assert "Capture overhead is" in summary_of(found)
        added = {e.signal: (e.baseline, e.candidate, e.numbers) for e in found.evidence}
        assert added["capture"][:2] == pytest.approx((0.05, 1.5))
        # The walls are shown as they were measured, whatever the verdict takes out of them.
        walls = 0.2 + LOOP_S + 0.05, 0.2 + 1.01 * LOOP_S + 1.5
        assert added["wall"][2]["factor"] == pytest.approx(walls[1] / walls[0])

    def test_less_of_it_hides_no_loss(self) -> None:
        """Capture took 1 s less, and the program queued for 1.2 s."""
        slow = loop(ratio=1.2 / LOOP_S, others=1.5)
        found = compare(with_capture(loop(), 1.1), with_capture(slow, 0.1))
        assert found.account.added_s == pytest.approx(0.2)
        assert found.account.seconds(CAPTURE) == pytest.approx(-1.0)
        assert found.account.seconds("queue") == pytest.approx(1.2, rel=0.01)
        assert judge(found).cause == "contention"

    @pytest.mark.parametrize(("error", "faster"), [(0.2, True), (2.0, False)])
    def test_a_candidate_is_faster_only_beyond_its_interval(self, error: float, faster: bool) -> None:
        more = captured(with_capture(loop(), 0.5), 0.5, error)
        found = judged(with_capture(loop(slower=1.6), 0.1), more)
        assert (found.cause == "faster") is faster
        if faster:
            assert "without capture overhead" in summary_of(found)

    def test_its_interval_is_that_of_the_estimates(self) -> None:
        a, b = captured(with_capture(loop(), 0.5), 0.5, 0.3), captured(with_capture(loop(), 0.9), 0.9, 0.4)
        bucket = compare(a, b).account.bucket(CAPTURE)
        assert (bucket.low, bucket.high) == pytest.approx((0.4 - 0.5, 0.4 + 0.5))
        assert not bucket.beyond_noise
        assert judged(a, b).rule != "capture-itself"


def test_columns_that_say_that_all_is_exact_change_nothing() -> None:
    a, b = program(training()), program(training(steps=130, slower=1.2))
    stated = []
    for run in (a, b):
        prof = run.processes[0].threads[0].profile
        known = with_estimates(prof, [(calls, calls, 0, 0.0) for calls in prof.ncalls.tolist()])
        stated.append(with_main(with_thread(run, profile=known), tiers=(Tier("exact", 0.0),)))
    assert compare(*stated).account.buckets == compare(a, b).account.buckets
    assert judged(*stated).rule == judged(a, b).rule


# Properties ---------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.data())
def test_buckets_add_up_whatever_is_known(data: st.DataObject) -> None:
    def drawn(run: Run, added: float) -> Run:
        if data.draw(st.booleans()):
            period = data.draw(st.sampled_from([0.001, 0.01, 0.5, 20.0]))
            run = estimated(run, data.draw(st.none() | st.floats(0.0, 2.0)), period=period)
        return captured(run, added, data.draw(st.floats(0.0, 5.0))) if known else run

    known = data.draw(st.booleans())
    before, after = data.draw(st.floats(0.0, 20.0)), data.draw(st.floats(0.0, 20.0))
    steps, slower = data.draw(st.integers(1, 300)), data.draw(st.floats(0.1, 10.0))
    ratio = data.draw(st.integers(0, 200)) / 100
    a = drawn(program(training()), before)
    b = drawn(program(training(steps=steps, slower=slower, ratio=ratio), others=1.5), after)
    repeats = data.draw(st.sampled_from([1, 3]))
    found = compare(one_side(*[a] * repeats), one_side(*[b] * repeats)).account
    assert_adds_up(found)
    for bucket in found.buckets:
        assert math.isfinite(bucket.seconds)
        assert bucket.low <= bucket.seconds + 1e-9
        assert bucket.high >= bucket.seconds - 1e-9
    if known and max(before, after) > 0:
        assert found.seconds(CAPTURE) == pytest.approx(after - before, abs=1e-9)
    diff(one_side(a), one_side(b))


PAIRS: Mapping[str, tuple[Run, Run]] = {
    "calls that are not known": (loop(), estimated(loop(steps=150), None)),
    "more calls, as estimates": (loop(), estimated(loop(steps=200), 0.1)),
    "capture overhead": (with_capture(loop(), 0.1), with_capture(loop(slower=1.1), 2.0)),
    "a function that may have been missed": (
        program([*training(), Fn("rare", 1, 0.002, callers={"main": 1})]),
        estimated(program(training()), 0.01),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_every_format_can_say_it(name: str, tmp_path: Path) -> None:
    """From files, since the columns go through them too."""
    for side, run in zip(("a", "b"), PAIRS[name], strict=True):
        write_run(tmp_path / f"{side}.prof", run)
    found = profkit.diff(tmp_path / "a.prof", tmp_path / "b.prof")
    value = json.loads(found.report("json", limit=0, explain=True))
    check_schema(value, "diff-2.json")
    account, unknown = value["account"], name == "calls that are not known"
    assert (CAPTURE in {bucket["name"] for bucket in account["buckets"]}) == (name == "capture overhead")
    assert (account["calls_unknown_share"] > 0.9) == unknown
    assert ("unseen" in {row["match"] for row in value["functions"]}) == ("missed" in name)
    for form in ("terminal", "md", "html"):
        said = " ".join(found.report(form, explain=True).split())
        assert value["verdict"]["cause"] in said
        assert ("capture --exact" in said) == unknown
        assert ("cost per call, or calls" in said) == unknown
        assert ("of the CPU time are not known well enough" in said) == unknown
        assert ("capture overhead" in " ".join(found.report(form).split())) == (name == "capture overhead")
    found.report("svg")
