"""The account of the lost time: its buckets add up to the difference of the walls, and each holds what it should.

Pairs are made by construction (`tests.programs`), so that what belongs into each bucket is known beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profkit.compare.call_sites import logarithmic_mean
from profkit.formats.load import load_side
from profkit.model import Run, RunSet
from profkit.model.pauses import Pause
from profkit.verdict.account import RUN_BUCKETS, Account
from profkit.verdict.alone import judge_run
from tests.builders import foreign, with_thread
from tests.programs import (
    ACQUIRE,
    QUEUE_GET,
    ROUNDING,
    WHERE_KNOWN,
    Fn,
    assert_adds_up,
    compare,
    one_side,
    plain,
    program,
    sampled,
    side,
    training,
)
from tests.shared import SAMPLES

#: What a bucket may be off where only one thing was changed and a tracer measured it: a millionth of the change.
EXACT = 1e-6
#: … and where the kernel's counters are known, but functions are known by their self time alone.
COUNTED = 0.01


def account_of(a: RunSet | Run, b: RunSet | Run, process: str | None = None) -> Account:
    return compare(a, b, process).account


def assert_holds(found: Account, known: Mapping[str, float], within: float) -> None:
    """Each bucket holds what is known of it, and the others nothing."""
    for bucket in found.buckets:
        assert bucket.seconds == pytest.approx(known.get(bucket.name, 0.0), abs=within), bucket.name


RUNS = sorted(str(path.relative_to(SAMPLES)) for path in SAMPLES.glob("*/*.prof"))
#: Each two runs of a workload; a property below is that swapped sides have the same parts.
PAIRS = [(a, b) for a, b in combinations(RUNS, 2) if a.partition("/")[0] == b.partition("/")[0]]


class TestSamples:
    @pytest.mark.parametrize(("baseline", "candidate"), PAIRS)
    def test_buckets_add_up(self, baseline: str, candidate: str) -> None:
        a, b = (load_side(SAMPLES / name) for name in (baseline, candidate))
        walls = a.runs[0].manifest.wall_s, b.runs[0].manifest.wall_s
        assert len(a.runs) == len(b.runs) == 1
        assert_adds_up(account_of(a, b), walls)
        assert_adds_up(account_of(a, b, "main" if "mpi" not in baseline else "rank:1"), walls)
        before, after = (foreign(side.runs[0].processes[0].threads[0].profile) for side in (a, b))
        assert_adds_up(account_of(before, after))
        mixed = account_of(before, b)
        assert_adds_up(mixed)
        assert mixed.merged == ("speed", "queue"), "one side without counters leaves both without"

    @pytest.mark.parametrize("name", RUNS)
    def test_one_run_is_made_up_of_its_wall(self, name: str) -> None:
        run = load_side(SAMPLES / name).runs[0]
        found = judge_run(run, run.processes).account
        assert tuple(b.name for b in found.buckets if b.name not in WHERE_KNOWN) == RUN_BUCKETS
        assert math.fsum(b.seconds for b in found.buckets) == pytest.approx(run.manifest.wall_s, rel=ROUNDING)
        assert math.fsum(b.share for b in found.buckets) == pytest.approx(1.0, rel=ROUNDING)
        assert all(b.seconds >= -ROUNDING for b in found.buckets if b.name != "startup")


def lock(off: float, run: float = 0.0, calls: int = 100) -> Fn:
    """A lock that a step waits in."""
    return Fn(ACQUIRE, calls, run, 0.0, off, {"step": calls})


def handed_over(off: float) -> list[Fn]:
    """A queue from which a step takes what a loader made, and the lock inside."""
    return [
        Fn("get", 100, 0.01, callers={"step": 100}, file=QUEUE_GET),
        Fn(ACQUIRE, 100, 0.0, 0.0, off, {"get": 100}),
    ]


def reduced(seconds: float, off: float = 0.0) -> Fn:
    """A collective call that spins, and sleeps."""
    return Fn("<method 'Allreduce' of 'mpi4py.MPI.Comm' objects>", 100, seconds, 0.0, off, {"step": 100})


#: A function whose source changed, and which takes 3 s more.
SLOWER_CODE: Mapping[str, object] = {"times": {"sharpen": 4.0}, "changed": {"sharpen": "slower"}}


def queued(seconds: float) -> Mapping[str, object]:
    """Options of a loop of 3.16 s CPU time that queues so long, beside others."""
    return {"ratio": seconds / sum(fn.run for fn in training()), "others": 1.5}


def with_lock(run: Run, waited: float, holder: str) -> Run:
    """The run of which a tracer saw that a step waited for the interpreter's lock, and what held it meanwhile."""
    profile = run.processes[0].threads[0].profile
    names = [profile.strings[name] for name in profile.name.tolist()]
    seen = (ACQUIRE, "gil"), (holder, "gil-held")
    return with_thread(run, pauses=tuple(Pause(names.index(name), what, waited, 9) for name, what in seen))


@pytest.mark.parametrize(("holder", "bucket"), [("blur", "code"), ("forward", "gil")])
def test_waiting_while_changed_code_holds_the_interpreters_lock_is_its_code(holder: str, bucket: str) -> None:
    before = with_lock(side([lock(0.1)]), 0.1, holder)
    after = with_lock(side([lock(2.1)], changed={"blur": "holds it"}), 2.1, holder)
    for a, b, way in ((before, after, 1.0), (after, before, -1.0)):
        found = account_of(a, b)
        for name in ("code", "gil", "blocked"):
            expected = way * 2.0 if name == bucket else 0.0
            assert found.seconds(name) == pytest.approx(expected, abs=EXACT), name
        assert math.fsum(one.seconds for one in found.buckets) == pytest.approx(found.added_s)
    named = [part.name for part in account_of(before, after).bucket("gil").parts if part.kind == "holder"]
    assert named == ([holder] if bucket == "gil" else [])


class TestOneThingChanged:
    """Each bucket alone: it holds all of the change, and the others hold nothing."""

    CASES: Mapping[str, tuple[Run, Run, str, float]] = {
        "longer start": (side(), side(startup=0.9), "startup", 0.7),
        "twice the steps": (side(), side(steps=200), "work", 3.15),
        "half the steps": (side(steps=200), side(), "work", -3.15),
        "a loop in blur, whose source changed": (
            side(),
            side(per_step={"sharpen": 20}, changed={"blur": "with a loop"}),
            "code",
            3.0,
        ),
        "sharpen costs four times as much, its source changed": (
            side(),
            side(**SLOWER_CODE),
            "code",
            3.0,
        ),
        "a native function below changed code costs more": (
            side(),
            side(times={"dot": 3.0}, changed={"forward": "larger matrices", "backward": "too"}),
            "code",
            1.6,
        ),
        "every function costs 1.5 times as much": (side(), side(slower=1.5), "speed", 0.5 * 3.16),
        "it queues": (side(), side(**queued(2.5)), "queue", 2.5),
        "its workers queue": (
            side([lock(1.1)], helpers=[(1.0, 0.1)]),
            side([lock(3.1)], helpers=[(1.0, 2.1)]),
            "queue",
            2.0,
        ),
        "a lock is held for longer": (side([lock(0.1)]), side([lock(2.1)]), "blocked", 2.0),
        "a loader delivers late": (side(handed_over(0.1)), side(handed_over(2.1)), "loading", 2.0),
        "another rank comes late": (side([reduced(0.1)]), side([reduced(1.2, 0.4)]), "imbalance", 1.5),
        "a lock spins": (side([lock(0.1, 0.01)]), side([lock(0.1, 0.81)]), "rest", 0.8),
    }

    @pytest.mark.parametrize("name", CASES)
    def test_it_is_in_its_bucket(self, name: str) -> None:
        a, b, bucket, seconds = self.CASES[name]
        found = account_of(a, b)
        assert_adds_up(found)
        assert_holds(found, {bucket: seconds}, EXACT * abs(seconds))
        # Without a tracer, counters tell running from queueing and standing still; names, which function stood still.
        found = account_of(sampled(a), sampled(b))
        assert_adds_up(found)
        if name == "another rank comes late":
            # Ranks spin or sleep as the library likes: what slept is spread over all functions.
            assert found.seconds("imbalance") == pytest.approx(seconds, rel=COUNTED)
        else:
            assert_holds(found, {bucket: seconds}, COUNTED * abs(seconds))


class TestMixtures:
    """Several things at once, each by its known part."""

    @pytest.mark.parametrize(
        ("before", "after", "others", "known"),
        [
            (0.2, {"steps": 200, "ratio": 0.5}, 1.0, {"work": 1.2 * 3.15, "queue": 0.3 * (3.16 + 3.15)}),
            # A short baseline that queued for 40 times its CPU time: more work is not more than the wall.
            (40.0, {"steps": 1000, "ratio": 0.1}, 1.5, {"work": 1.1 * 9 * 3.15, "queue": -39.9 * 3.16}),
        ],
        ids=["beyond work", "long queueing before"],
    )
    def test_queueing_that_only_grew_with_work_is_booked_with_it(
        self, before: float, after: Mapping[str, object], others: float, known: Mapping[str, float]
    ) -> None:
        # Start and end would queue as well.
        found = account_of(side(ratio=before, others=others, startup=0), side(others=1.5, startup=0, **after))
        for bucket, seconds in {"queue": 0.0, **known}.items():
            assert found.seconds(bucket) == pytest.approx(seconds, rel=EXACT, abs=EXACT), bucket

    def test_everything_at_once(self) -> None:
        a = side([lock(0.1), reduced(0.1)])
        b = side(
            [lock(1.1, calls=200), replace(reduced(0.6), calls=200, callers={"step": 200})],
            startup=0.7,
            steps=200,
            times={"sharpen": 1.5},
            changed={"sharpen": "slower"},
            slower=1.1,
            ratio=0.4,
            others=1.5,
        )
        found = account_of(a, b)
        assert_adds_up(found)
        # Twice the calls, each 1.1 times as long; what is above the factor that all share is the changed function's.
        others, sharpen = logarithmic_mean(np.array([2.15, 1.0]), np.array([2 * 2.15 * 1.1, 2 * 1.1 * 1.5]))
        grown = 2 * 2.15 + 0.01
        known = {
            "startup": 0.5,
            "work": (others + sharpen) * math.log(2),
            "code": sharpen * math.log(1.5),
            "speed": (others + sharpen) * math.log(1.1) + 0.1 * 0.01,
            "queue": 0.4 * 1.1 * (grown + 1.5 * 2.0),
            "blocked": 1.0,
            "imbalance": 0.5,
        }
        assert_holds(found, known, 1e-4 * found.added_s)


def test_a_slower_function_of_plain_profiles_is_code() -> None:
    """Without counters and sources, as far as the others kept their cost."""
    found = account_of(plain(training()), plain(training(times={"sharpen": 4.0})))
    assert found.merged == ("speed", "queue")
    assert found.seconds("code") == pytest.approx(3.0, rel=EXACT)


class TestIntervals:
    @staticmethod
    def repeats(random: np.random.Generator, n: int, scatter: float = 0.02, **more: object) -> RunSet:
        """Runs whose functions scatter, together and each by itself."""
        runs = []
        for _ in range(n):
            drift = float(np.exp(random.normal(0, scatter)))
            each = {name: float(np.exp(random.normal(0, scatter))) for name in ("sharpen", "forward", "dot")}
            for name, factor in dict(more.get("times", {})).items():  # type: ignore[call-overload]
                each[name] = each.get(name, 1.0) * factor
            runs.append(program(training(**{**more, "times": each, "slower": drift})))  # type: ignore[arg-type]
        return one_side(*runs)

    def test_they_come_from_three_repeats_on(self) -> None:
        random = np.random.default_rng(3)
        for n, basis in ((1, "other-programs"), (2, "other-programs"), (3, "repeats"), (5, "repeats")):
            found = account_of(self.repeats(random, n), self.repeats(random, n))
            assert found.basis == basis
            assert all(b.low <= b.seconds <= b.high for b in found.buckets)

    def test_they_cover_the_truth_and_leave_out_nothing_for_a_change(self) -> None:
        random = np.random.default_rng(11)
        changed = {"times": {"sharpen": 2.0}, "changed": {"sharpen": "slower"}}
        covered = 0
        for _ in range(20):
            found = account_of(self.repeats(random, 5), self.repeats(random, 5, **changed))
            code = found.bucket("code")
            assert code.beyond_noise
            covered += code.low - 0.05 <= 1.0 <= code.high + 0.05
            assert not found.bucket("work").beyond_noise
            assert not found.bucket("blocked").beyond_noise
        assert covered >= 17

    def test_one_run_a_side_is_as_sure_as_other_programs_repeats_are(self) -> None:
        found = account_of(side(), side(slower=1.05))
        assert not found.bucket("speed").beyond_noise
        assert account_of(side(), side(slower=1.3)).bucket("speed").beyond_noise
        # Who queues beside a busy neighbour queues for another time in each repeat.
        before, after = side(ratio=1.0, others=1.5), side(ratio=1.2, others=1.5)
        assert not account_of(before, after).bucket("queue").beyond_noise
        assert account_of(side(), side(ratio=0.2, others=1.5)).bucket("queue").beyond_noise


def test_a_repeat_that_took_no_time_says_nothing_of_the_others() -> None:
    runs = [plain([Fn("main", 1, t)]) for t in (0.0, 2.0, 4.0, 4.0)]
    found = account_of(one_side(*runs[:2]), one_side(*runs[2:]))
    assert (found.baseline_s, found.candidate_s) == (1.0, 4.0)
    assert_adds_up(found)
    assert found.seconds("speed") == pytest.approx(3.0)


def test_of_one_run_the_seconds_are_where_they_were_put() -> None:
    loop = training(ratio=0.5)
    run = program([*loop, lock(0.7, 0.1)], startup=0.3, others=1.5)
    found = judge_run(run, run.processes).account
    assert found.candidate_s == pytest.approx(0.3 + 1.5 * 3.16 + 0.8)
    known = {"startup": 0.3, "running": 3.16 + 0.1, "queue": 0.5 * 3.16, "blocked": 0.7}
    assert_holds(found, known, EXACT)
    assert (found.baseline_s, found.merged) == (0.0, ())
    assert judge_run(plain(loop), plain(loop).processes).account.merged == ("running", "queue")


# Properties ---------------------------------------------------------------------------------------------------

#: Clocks count nanoseconds.
seconds = st.just(0.0) | st.integers(0, 50_000_000_000).map(lambda ns: ns * 1e-9)
NAMES = ("main", "f", "g", "h", ACQUIRE, "<built-in method time.sleep>", "<built-in method lib.dot>")


@st.composite
def functions(draw: st.DrawFn) -> list[Fn]:
    """Functions of which any calls those after it, with any times; some wait, some are native."""
    names = draw(st.lists(st.sampled_from(NAMES[1:]), unique=True, max_size=len(NAMES) - 1))
    found = [Fn("main", 1, draw(seconds), draw(seconds), draw(seconds))]
    for name in names:
        callers = {
            caller.name: draw(st.integers(0, 1000))
            for caller in found
            if not caller.name.startswith("<") and draw(st.booleans())
        }
        calls = sum(callers.values()) + draw(st.integers(0, 3))
        source = "" if name.startswith("<") else draw(st.sampled_from(["", "one", "other"]))
        found.append(Fn(name, calls, draw(seconds), draw(seconds), draw(seconds), callers, source=source))
    return found


@st.composite
def runs(draw: st.DrawFn) -> Run:
    kind = draw(st.sampled_from(["traced", "counted", "plain"]))
    fns = draw(functions())
    if kind == "plain":
        return plain(fns)
    made = program(
        fns,
        startup=0.001 + draw(seconds),
        workers=draw(st.lists(functions(), max_size=2)),
        helpers=draw(st.lists(st.tuples(seconds, seconds), max_size=2)),
        others=draw(st.floats(0.0, 2.0)),
    )
    return sampled(made) if kind == "counted" else made


sides = st.lists(runs(), min_size=1, max_size=3).map(lambda found: one_side(*found))


@given(sides, sides)
@settings(max_examples=60)
def test_buckets_of_any_two_sides_add_up(a: RunSet, b: RunSet) -> None:
    found = account_of(a, b)
    assert_adds_up(found)
    larger = max(found.baseline_s, found.candidate_s)
    assert abs(found.seconds("queue")) <= larger * (1.0 + ROUNDING)


@given(runs(), runs())
@settings(max_examples=40)
def test_swapped_sides_lose_what_the_others_gained(a: Run, b: Run) -> None:
    forth, back = account_of(a, b), account_of(b, a)
    whole = max(1.0, forth.baseline_s, forth.candidate_s)
    assert forth.added_s == pytest.approx(-back.added_s, abs=1e-9 * whole)
    # What is measured and not apportioned is the same either way.
    for name in ("startup", "blocked", "loading", "imbalance"):
        assert forth.seconds(name) == pytest.approx(-back.seconds(name), abs=1e-6 * whole), name
