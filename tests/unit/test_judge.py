"""Verdicts from runs that are known by construction: what starves, what changed, and what cannot be known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from profkit.model import Notice, Pool, Profile, Run, RunSet, Thread
from profkit.verdict.diagnosis import diagnose as diff
from profkit.verdict.judge import judge
from profkit.verdict.types import CAUSES, Advice, Diff, Evidence
from tests.builders import Row, captured, foreign, profile, timed
from tests.programs import Fn, compare, one_side, program, training

#: Ten functions of a few tenths of a second: 3.2 s in all.
BASE = [Row("m.py", 10 * i, f"f{i}", 100, 0.32, source=f"s{i}") for i in range(10)]


def scaled(*factors: float, rows: list[Row] = BASE) -> Profile:
    """The base with each function's time multiplied; the last factor holds for the rest."""
    full = [*factors, *[factors[-1]] * (len(rows) - len(factors))]
    return profile([replace(r, tottime=r.tottime * f) for r, f in zip(rows, full, strict=True)])


def run(prof: Profile, wait: float = 0.0, off: float = 0.0, **more: object) -> Run:
    wall = prof.total
    return captured(prof, wall=wall, run=wall - wait - off, wait=wait, **more)  # type: ignore[arg-type]


def judged(a: Run, b: Run) -> Diff:
    found = diff(RunSet("a", (a,)), RunSet("b", (b,)))
    assert found.verdict.cause in CAUSES
    assert found.verdict.confidence is None or 0 <= found.verdict.confidence <= 1
    return found


def evidence(found: Diff, signal: str) -> Evidence:
    """The one piece of evidence of a signal."""
    (piece,) = (piece for piece in found.verdict.evidence if piece.signal == signal)
    return piece


def advice(found: Diff, kind: str) -> Advice:
    """The one piece of advice of a kind."""
    (piece,) = (piece for piece in found.verdict.advice if piece.kind == kind)
    return piece


def test_a_doubt_lowers_the_confidence_that_is_printed() -> None:
    sure, mild = (
        judged(run(scaled(1.0)), run(scaled(slower), wait=3.2 * (slower - 1))).verdict
        for slower in (2.0, 1.13)
    )
    assert sure.rule == mild.rule == "run-queue-wait"
    assert sure.findings[0].doubt is None
    assert isinstance(sure.confidence, float)
    assert sure.confidence > 0.9
    # Below 1.15× the rule promises no more than this.
    assert (mild.confidence, mild.findings[0].doubt) == (0.85, 0.85)


@pytest.mark.parametrize(("before", "after", "lacked"), [(0.31, 0.31, True), (0.29, 0.31, False)])
def test_both_sides_lacked_cpus_where_both_queued_for_long(before: float, after: float, lacked: bool) -> None:
    one, other = (run(scaled(k), wait=part * scaled(k).total) for k, part in ((1.0, before), (1.01, after)))
    case = compare(RunSet("a", (one,)), RunSet("b", (other,)))
    assert case.read("both.lacked-cpus") is lacked


def test_own_threads_above_the_cores() -> None:
    a = run(scaled(1.0), environment={"OMP_NUM_THREADS": "1"})
    b = run(
        scaled(4.0, 1.5, 2.0),
        wait=4.0,
        children=[(3.0, 5.0), (3.0, 5.0)],
        environment={"OMP_NUM_THREADS": "8"},
    )
    found = judged(a, b)
    verdict = found.verdict
    assert (verdict.cause, verdict.kind) == ("contention", "self-oversubscription")
    assert verdict.confidence is not None
    assert verdict.confidence >= 0.9
    queue = evidence(found, "main.queue")
    assert (queue.baseline, queue.candidate, queue.reading) == (0.0, 4.0, "no-cpu-free")
    assert queue.whole == (pytest.approx(3.2), pytest.approx(6.88))
    demand = evidence(found, "demand")
    assert (demand.whole, demand.reading) == ((2.0, 2.0), "own-threads-compete")
    assert demand.candidate == pytest.approx((2.88 + 6.0 + 14.0) / 6.88)
    limit = advice(found, "limit-threads")
    assert (limit.argv, limit.env) == (("python", "train.py"), {"OMP_NUM_THREADS": "1"})
    assert limit.cures == "queue"
    assert limit.predicted_gain_s == pytest.approx(found.account.seconds("queue"))


def test_other_programs_take_the_cpus() -> None:
    a = run(scaled(1.0))
    b = run(scaled(2.0), wait=3.0, busy=2.0 * 6.4)
    found = judged(a, b)
    assert (found.verdict.cause, found.verdict.kind) == ("contention", "external-load")
    assert evidence(found, "others").reading == "other-programs"
    assert advice(found, "list-processes").argv[:2] == ("ps", "-eo")
    assert advice(found, "capture-idle").argv == ("python", "train.py")


def test_quota_is_asked_before_waiting() -> None:
    found = judged(run(scaled(1.0)), run(scaled(2.0), wait=3.0, throttled=(40, 64)))
    assert (found.verdict.cause, found.verdict.kind) == ("contention", "cpu-quota")
    assert evidence(found, "throttled").candidate == 40 / 64
    assert evidence(found, "demand").reading == "quota"
    assert advice(found, "within-quota").env == {"OMP_NUM_THREADS": "2"}


def test_waiting_that_was_there_before_is_no_cause() -> None:
    found = judged(run(scaled(1.0), wait=0.6), run(scaled(1.01), wait=0.65))
    assert found.verdict.cause == "no-change"


def test_waiting_for_loaders_is_data_starvation() -> None:
    rows = [
        *BASE,
        Row("~", 0, "<method 'acquire' of '_thread.lock' objects>", 10, 0.1),
        Row("/usr/lib/python3.11/queue.py", 154, "get", 10, 0.01, 0.1),
    ]
    a = run(scaled(1.0, rows=rows))
    late = [*rows[:10], replace(rows[10], tottime=4.0), replace(rows[11], cumtime=4.0)]
    verdict = judged(a, run(profile(late), off=3.9)).verdict
    assert verdict.cause == "data-starvation"


FIRST, SECOND = "3fa9c1d2e4b57a90", "9be01aa4c7d2e600"


def at(one: Run, revision: str, *, dirty: bool = False) -> Run:
    """The same from a working tree at a revision."""
    assert one.manifest is not None
    return replace(one, manifest=replace(one.manifest, git={"revision": revision, "dirty": dirty}))


def test_changed_source_of_one_function() -> None:
    changed = [replace(BASE[0], source="other", tottime=2.0), *BASE[1:]]
    found = judged(at(run(scaled(1.0)), FIRST), at(run(profile(changed)), FIRST))
    assert found.verdict.cause == "code-change"
    assert found.verdict.confidence is not None
    assert found.verdict.confidence >= 0.9
    assert found.verdict.subject == "f0"
    assert evidence(found, "function.source").reading == "source-changed"
    per_call = evidence(found, "function.self-time")
    assert (per_call.baseline, per_call.candidate, per_call.reading) == (0.32, 2.0, "code-part")
    log = advice(found, "git-log")
    assert (log.argv, log.cures, log.subject) == (("git", "log", "-p", "--", "m.py"), "code", "f0")
    assert log.predicted_gain_s == pytest.approx(1.68, rel=0.01)


def test_same_source_is_no_code_change() -> None:
    assert judged(run(scaled(1.0)), run(scaled(6.0, 1.0))).verdict.cause != "code-change"


def test_one_function_slower_per_call_without_hashes() -> None:
    rows = [replace(r, source="") for r in BASE]
    found = judged(run(scaled(1.0, rows=rows)), run(scaled(6.0, 1.0, rows=rows)))
    assert (found.verdict.cause, found.verdict.rule) == ("code-change", "one-function")
    assert found.verdict.subject == "f0"
    # Of two plain profiles it is said where the function took twice as long; less, a lost time slice does too.
    before, *after = (foreign(scaled(factor, 1.0, rows=rows)) for factor in (1.0, 6.0, 1.9))
    told = [diff(before, candidate).verdict.cause == "code-change" for candidate in after]
    assert told == [True, False]


def test_native_function_slower_alone_is_not_called_code() -> None:
    rows = [
        Row("~", 0, "<built-in method torch.conv2d>", 100, 0.32),
        *(replace(r, source="") for r in BASE[1:]),
    ]
    plain_a, plain_b = scaled(1.0, rows=rows), scaled(6.0, 1.0, rows=rows)
    assert diff(foreign(plain_a), foreign(plain_b)).verdict.cause == "inconclusive"


def test_twice_the_calls_is_workload() -> None:
    twice = profile([replace(r, ncalls=2 * r.ncalls, tottime=2 * r.tottime) for r in BASE])
    for found in (judged(run(scaled(1.0)), run(twice)), diff(foreign(scaled(1.0)), foreign(twice))):
        assert found.verdict.cause == "workload-change"
        assert found.verdict.numbers["calls.factor"] == pytest.approx(2.0)
        (calls,) = (notice for notice in found.comparability.warnings if notice.code == "calls-differ")
        assert calls.numbers["calls"] == pytest.approx(2.0)


def test_one_factor_on_another_cpu_is_a_slower_machine() -> None:
    verdict = judged(run(scaled(1.0)), run(scaled(1.8), cpu_model="older")).verdict
    assert (verdict.cause, verdict.rule) == ("slower-machine", "slower-cpu")
    assert verdict.confidence is not None
    assert verdict.confidence >= 0.7
    assert verdict.numbers["time.slowdown"] == pytest.approx(1.8)


def test_one_factor_is_a_slower_machine_where_nothing_else_shows() -> None:
    verdict = judged(run(scaled(1.0)), run(scaled(1.8))).verdict
    assert (verdict.cause, verdict.rule) == ("slower-machine", "one-factor")
    uneven = judged(run(scaled(1.0)), run(scaled(1.2, 1.2, 2.4, 1.2, 2.4, 3.0)))
    assert uneven.verdict.cause == "inconclusive"
    drifted = judged(run(scaled(1.0)), run(scaled(1.3))).verdict
    assert drifted.cause == "no-change"


def test_an_instruction_set_needs_no_more_than_a_noticeable_loss() -> None:
    a, b = run(scaled(1.0)), run(scaled(1.2), environment={"OPENCV_CPU_DISABLE": "AVX2"})
    assert judged(a, b).verdict.cause == "slower-machine"


def test_time_that_moved_and_was_not_lost_is_no_change() -> None:
    verdict = judged(run(scaled(1.0)), run(scaled(2.2, 0.2, 1.9, 0.3, 1.0))).verdict
    assert (verdict.cause, verdict.rule) == ("no-change", "same-total")
    lost = judged(run(scaled(1.0)), run(scaled(2.6, 0.4, 2.6, 0.5, 1.2))).verdict
    assert lost.cause == "inconclusive"


def test_more_memory_throughout_the_repeats_is_a_larger_input() -> None:
    def side(factor: float, *memory: int) -> RunSet:
        runs = [run(scaled(factor, 1.0, factor, 1.0, factor)) for _ in memory]
        return RunSet(
            "side",
            tuple(
                replace(r, processes=(replace(r.processes[0], peak_memory_bytes=m),))
                for r, m in zip(runs, memory, strict=True)
            ),
        )

    clean = side(1.0, 200_000_000, 201_000_000, 203_000_000)
    assert diff(clean, side(1.6, 210_000_000, 211_000_000, 212_000_000)).verdict.cause == "workload-change"
    assert diff(clean, side(1.6, 202_000_000, 211_000_000, 212_000_000)).verdict.cause == "inconclusive"


def test_queueing_that_nobody_caused_must_explain_most_of_the_loss() -> None:
    a = run(scaled(1.0), wait=0.2)
    mostly_computing = run(scaled(1.5), wait=0.9)
    assert judged(a, mostly_computing).verdict.cause != "contention"
    assert judged(a, run(scaled(1.5), wait=1.6)).verdict.cause == "contention"
    beside_others = run(scaled(1.5), wait=0.9, busy=4.8 - 0.9 + 2.4)
    assert judged(a, beside_others).verdict.kind == "external-load"


def test_less_code_is_not_less_work() -> None:
    """A changed function that calls others less often saves time; the same source that does has less to do."""
    loop = program(training(per_step={"sharpen": 20}))
    saved = judged(loop, program(training(changed={"blur": "fewer passes"}))).verdict
    assert (saved.cause, saved.rule) == ("faster", "less-time")
    less = judged(loop, program(training(per_step={"sharpen": 5}))).verdict
    assert (less.cause, less.rule, less.subject) == ("workload-change", "call-counts", "blur")


def test_less_time_is_faster() -> None:
    assert judged(run(scaled(1.0), wait=1.5, busy=6.0), run(scaled(0.5))).verdict.cause == "faster"


def test_regression_under_contention_names_both_and_leads_with_the_greater() -> None:
    changed = profile([replace(BASE[0], source="other", tottime=9.0), *BASE[1:]])
    found = judged(run(scaled(1.0)), run(changed, wait=2.2, busy=2 * changed.total)).verdict
    assert {f.cause for f in found.findings} >= {"contention", "code-change"}
    assert found.cause == "code-change"


def test_uniform_slow_down_without_counters_cannot_be_told() -> None:
    found = diff(foreign(scaled(1.0)), foreign(scaled(2.5)))
    assert (found.verdict.cause, found.verdict.rule) == ("inconclusive", "nothing-decides")
    sides = [piece.subject for piece in found.verdict.advice if piece.kind == "capture-side"]
    assert sides == ["baseline", "candidate"]
    assert advice(found, "more-runs").numbers == {"runs": 4}


#: Sixty short functions, as an import makes them, and eight that compute; native and Python.
SCHEDULED = [
    *(Row(f"pkg/m{i % 7}.py", 10 * i, f"short{i}", 3, 2e-4 * 1.07**i) for i in range(60)),
    *(Row("train.py", 10 * i, f"step{i}", 200, 0.1 + 0.05 * i) for i in range(4)),
    *(Row("~", 0, f"<built-in method lib.kernel{i}>", 200, 0.2 + 0.1 * i) for i in range(4)),
]


def scheduled(
    random: np.random.Generator, busy: float, factor: float = 1.0, slice_s: float = 0.005
) -> Profile:
    """The same work on a machine that takes the CPU away: slices at random moments, `busy` of each second of work."""
    rows = []
    for row in SCHEDULED:
        own = row.tottime * factor * float(np.exp(random.normal(0, 0.03)))
        rows.append(replace(row, tottime=own + slice_s * random.poisson(busy * own / slice_s)))
    return profile(rows)


@pytest.mark.parametrize("runs", [1, 5])
def test_time_lost_in_slices_without_counters_is_contention_of_unknown_kind(runs: int) -> None:
    random = np.random.default_rng(5)
    calm = foreign(*(scheduled(random, 0.0) for _ in range(runs)))
    verdict = diff(calm, foreign(*(scheduled(random, 1.5) for _ in range(runs)))).verdict
    assert (verdict.cause, verdict.kind) == ("contention", None)
    assert verdict.rule == ("starved" if runs == 1 else "starved-repeats")
    slower = diff(calm, foreign(*(scheduled(random, 0.0, factor=2.5) for _ in range(runs)))).verdict
    assert slower.cause == "inconclusive"


@pytest.mark.parametrize("runs", [1, 3, 5])
def test_clean_repeats_are_no_change(runs: int) -> None:
    random = np.random.default_rng(9)

    def side() -> RunSet:
        profiles = [scaled(*(float(np.exp(random.normal(0, 0.03))) for _ in range(10))) for _ in range(runs)]
        return RunSet("clean", tuple(run(p) for p in profiles))

    assert diff(side(), side()).verdict.cause == "no-change"


def repeats(*factors: float, **more: object) -> RunSet:
    """Repeats on one machine, all functions slower by a factor; `busy` is the CPU of all programs per second."""
    made = []
    for i, factor in enumerate(factors):
        prof = scaled(factor)
        busy = more.get("busy")
        one = run(prof, **{**more, "busy": None if busy is None else busy * prof.total})  # type: ignore[operator]
        made.append(replace(timed(one), path=f"run-{i}.prof"))
    return RunSet("side", tuple(made))


CLEAN_REPEATS = (1.0, 1.01, 0.99, 1.02, 0.98)


@pytest.mark.parametrize("slower", [1.08, 1.17, 1.32])
def test_a_neighbour_that_shares_memory_is_contention_for_it(slower: float) -> None:
    clean = repeats(*CLEAN_REPEATS, busy=1.0)
    beside = repeats(*(slower * factor for factor in CLEAN_REPEATS), busy=2.0)
    found = diff(clean, beside)
    assert (found.verdict.cause, found.verdict.kind) == ("contention", "shared-hardware")
    assert found.verdict.findings[0].bucket == "speed"
    assert found.verdict.findings[0].severity > 0.9
    assert evidence(found, "others").reading == "other-programs"
    assert advice(found, "capture-idle").cures == "speed"


@pytest.mark.parametrize("slower", [1.08, 1.17, 1.32])
@pytest.mark.parametrize("runs", [3, 5])
def test_a_loss_that_every_repeat_shows_is_never_no_change(slower: float, runs: int) -> None:
    clean = repeats(*CLEAN_REPEATS[:runs], busy=1.0)
    slow = repeats(*(slower * factor for factor in CLEAN_REPEATS[:runs]), busy=1.0)
    found = diff(clean, slow).verdict
    # One factor of all functions, on a machine that did fixed work as fast.
    assert found.cause == "inconclusive"
    assert found.numbers["lost"] is True
    # So it is where the neighbour was there before: it is no reason.
    neighbour = diff(
        repeats(*CLEAN_REPEATS[:runs], busy=2.0),
        repeats(*(slower * factor for factor in CLEAN_REPEATS[:runs]), busy=2.0),
    ).verdict
    assert neighbour.cause == found.cause


def test_one_run_that_took_much_longer_hides_no_loss_that_all_show() -> None:
    clean = repeats(1.66, 1.66, 1.67, busy=1.0)
    found = diff(clean, repeats(1.82, 1.89, 3.77, busy=1.0)).verdict
    assert found.cause != "no-change"
    # Neither does one of the baseline make one.
    assert diff(repeats(1.0, 1.3, 1.02), repeats(1.1, 1.12, 1.32)).verdict.cause == "no-change"


def test_a_loss_within_the_scatter_of_the_repeats_is_no_change() -> None:
    wide = (1.0, 1.12, 0.9, 1.08, 0.93)
    assert diff(repeats(*wide), repeats(*(1.08 * factor for factor in wide))).verdict.cause == "no-change"
    two = repeats(1.0, 1.01), repeats(1.08, 1.09)
    assert diff(*two).verdict.cause == "no-change"


def test_what_else_differs_is_a_doubt() -> None:
    changed = [replace(row, source="new", tottime=1.6) if row.name == "f0" else row for row in BASE]
    same = judged(run(profile(BASE)), run(profile(changed))).verdict
    assert (same.cause, same.doubts) == ("code-change", ())
    elsewhere = judged(run(profile(BASE)), run(profile(changed), cpu_model="another")).verdict
    assert (elsewhere.cause, elsewhere.doubts) == ("code-change", ("cpu-model-differs",))
    assert elsewhere.confidence is not None
    assert same.confidence is not None
    assert elsewhere.confidence < same.confidence
    host = judged(run(profile(BASE)), run(profile(changed), host="b")).verdict
    assert host.doubts == ("host-differs",)
    a, b = run(profile(BASE)), run(profile(changed))
    failed = judged(failing(a), failing(b)).verdict
    assert failed.doubts == ("both-failed",)


def failing(one: Run) -> Run:
    assert one.manifest is not None
    return replace(one, manifest=replace(one.manifest, exit_status=1))


def test_the_changed_function_is_named_with_its_place_and_revisions() -> None:
    changed = [replace(row, source="new", tottime=1.6) if row.name == "f3" else row for row in BASE]

    first, second = FIRST, SECOND
    found = judged(at(run(profile(BASE)), first), at(run(profile(changed)), second))
    assert found.verdict.numbers["code.place"] == "m.py:30"
    assert (found.verdict.numbers["revision-before"], found.verdict.numbers["revision"]) == (
        first[:12],
        second[:12],
    )
    assert advice(found, "git-log").argv == ("git", "diff", first[:12], second[:12], "--", "m.py")
    hostile = judged(at(run(profile(BASE)), "--output=x"), at(run(profile(changed)), second))
    assert advice(hostile, "git-log").argv == ("git", "log", "-p", "--", "m.py")


def test_git_is_asked_for_what_it_can_say() -> None:
    changed = [replace(row, source="new", tottime=1.6) if row.name == "f3" else row for row in BASE]
    edited = judged(at(run(profile(BASE)), FIRST), at(run(profile(changed)), FIRST, dirty=True))
    # What was edited is in no revision: a log does not have it.
    assert advice(edited, "git-log").argv == ("git", "diff", FIRST[:12], "--", "m.py")
    nowhere = judged(run(profile(BASE)), run(profile(changed)))
    assert nowhere.verdict.cause == "code-change"
    assert "git-log" not in [one.kind for one in nowhere.verdict.advice]


def test_new_code_that_holds_the_gain_counts_with_what_changed() -> None:
    new = [
        replace(BASE[0], source="other", tottime=1.0),
        *BASE[1:],
        Row("m.py", 5, "helper", 9, 2.0, source="n"),
    ]
    verdict = judged(run(scaled(1.0)), run(profile(new))).verdict
    assert (verdict.cause, verdict.rule) == ("code-change", "changed-source")


def test_slower_code_in_workers_is_not_called_blocking() -> None:
    def pool(cost: float, source: str) -> Run:
        job = Fn("job", 50, cost, source=source)
        wait = Fn("<method 'poll' of 'select.poll' objects>", 50, 0.0, 0.0, cost, {"main": 50})
        return program([Fn("main", 1, 1.0), wait], workers=[[job]])

    found = judged(pool(3.0, "before"), pool(7.8, "after"))
    assert (found.verdict.cause, found.verdict.subject) == ("code-change", "job")
    assert found.account.seconds("code") == pytest.approx(4.8)


def test_time_off_the_cpu_is_taken_out_where_a_tracer_measured_it() -> None:
    def side(off: float, **more: object) -> Run:
        return program([*training(**more), Fn("read", 10, 0.1, 0.0, off, {"step": 10})])  # type: ignore[arg-type]

    # A function that stood still for longer has most of the self time; what was computed grew elsewhere.
    found = judged(side(0.1), side(2.1, times={"sharpen": 4.0}, changed={"sharpen": "slower"}))
    assert (found.verdict.cause, found.verdict.subject) == ("code-change", "sharpen")
    assert found.account.seconds("code") == pytest.approx(3.0)
    assert found.account.seconds("blocked") == pytest.approx(2.0)
    assert "read" not in {piece.subject for piece in found.verdict.evidence}


def test_more_threads_recorded_are_not_more_work() -> None:
    """From Python 3.12 on cProfile holds the calls of all threads; before, those of one."""
    one = profile(BASE)
    all_ = profile([replace(r, ncalls=2 * r.ncalls, tottime=2 * r.tottime) for r in BASE])
    assert diff(foreign(one), foreign(all_)).verdict.cause == "workload-change"
    mixed = foreign(all_).runs[0]
    mixed = replace(mixed, warnings=(Notice("threads-in-one-stack", "", {"python": "3.12"}),))
    found = diff(foreign(one), RunSet("b", (mixed,)))
    assert found.verdict.cause == "inconclusive"
    assert Notice("one-side-mixes-threads", "candidate") in found.comparability.warnings


def test_a_main_thread_that_waits_for_its_own_workers_is_not_blocked() -> None:
    rows = [*BASE, Row("~", 0, "<method 'acquire' of '_thread.lock' objects>", 10, 0.1)]
    a = run(scaled(1.0, rows=rows), children=[(0.5, 0.0)])
    waiting = scaled(*[1.0] * 10, 40.0, rows=rows)
    assert judged(a, run(waiting, off=3.8, children=[(4.0, 0.0)])).verdict.cause != "blocked"
    assert judged(a, run(waiting, off=3.8, children=[(0.5, 0.0)])).verdict.cause == "blocked"


def test_more_workers_are_the_cause_in_a_program_that_queued_before_as_well() -> None:
    """Four ranks on two CPUs queue; with four times as many workers they wait for those, which queue."""

    def ranks(workers: int, queued: float, waited: float) -> RunSet:
        wait = Fn("<built-in method posix.waitpid>", 1, off=waited, callers={"main": 1})
        return one_side(program([*training(ratio=2.0), wait], helpers=[(1.0, queued)] * workers))

    case = compare(ranks(4, 2.0, 1.0), ranks(16, 3.0, 9.0))
    found = judge(case)
    assert (found.cause, found.kind) == ("contention", "self-oversubscription")
    assert case.read("settings.queue") == pytest.approx(1.0)
    # As many of them, or more that do not queue, explain nothing.
    assert compare(ranks(4, 2.0, 1.0), ranks(4, 3.0, 9.0)).read("settings.queue") == 0.0
    assert judge(compare(ranks(4, 2.0, 1.0), ranks(16, 0.2, 9.0))).cause != "contention"


def test_a_main_thread_that_spins_while_its_team_queues_is_contended() -> None:
    def side(factor: float, team: int, rest_wait: float) -> Run:
        made = run(scaled(factor), wait=0.1)
        main = made.processes[0]
        threads = tuple(
            Thread(Profile.empty(), tid=200 + i, run_s=1.0, run_queue_wait_s=rest_wait / team)
            for i in range(team)
        )
        pool = Pool("libgomp", threads=team + 1)
        grown = replace(
            main,
            threads=(*main.threads, *threads),
            pools=(pool,),
            cpu_s=(main.cpu_s or 0.0) + team,
            run_queue_wait_s=(main.run_queue_wait_s or 0.0) + rest_wait,
        )
        return replace(made, processes=(grown,))

    verdict = judged(side(1.0, 1, 0.1), side(1.5, 7, 6.0)).verdict
    assert (verdict.cause, verdict.kind) == ("contention", "self-oversubscription")
    assert judged(side(1.0, 1, 0.1), side(1.5, 1, 0.2)).verdict.cause != "contention"


def test_changed_source_is_named_on_a_machine_that_drifted() -> None:
    def side(drift: float, forward: float, product: float, source: str) -> Run:
        return program(
            training(slower=drift, times={"forward": forward, "dot": product}, changed={"forward": source})
        )

    # Everything is 1.3 times as slow; `forward` and what it calls natively are more than that.
    found = judged(side(1.0, 1.0, 1.0, "before"), side(1.3, 3.5, 3.5, "after"))
    assert (found.verdict.cause, found.verdict.subject) == ("code-change", "forward")
    # Half of the native calls are those of `backward`, which did not change.
    assert found.account.seconds("code") == pytest.approx(1.3 * 2.5 * (0.4 + 0.8 / 2), rel=0.1)
    equal = judged(side(1.0, 1.0, 1.0, "same"), side(1.3, 3.5, 3.5, "same"))
    assert equal.verdict.cause == "inconclusive"
    assert equal.account.seconds("code") == 0.0
