"""Comparisons that were once judged wrong, built from runs whose every second is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from profkit.model import Host, Profile, Run, Thread
from profkit.report import terminal
from profkit.report.diffdoc import diff_document
from profkit.report.wording.summaries import summary_of
from profkit.verdict.alone import judge_run
from tests.builders import with_main
from tests.programs import ACQUIRE, QUEUE_GET, Fn, compare, diffed, plain, program, side, training

#: Both runs queue as long as they compute, beside other programs that take 1.5 of two CPUs; they start at once.
NEIGHBOUR: Mapping[str, object] = {"ratio": 1.0, "others": 1.5, "startup": 0.0}
#: `sharpen` was changed, and takes four times as long.
SLOWER: Mapping[str, object] = {"times": {"sharpen": 4.0}, "changed": {"sharpen": "slower"}}
#: `blur` was changed, and calls `sharpen` four times as often.
LOOP: Mapping[str, object] = {"per_step": {"sharpen": 20}, "changed": {"blur": "with a loop"}}


class TestBesideTheSameNeighbour:
    """Queueing was there before, and grew with what the candidate does."""

    @pytest.mark.parametrize(
        ("after", "cause", "subject", "bucket", "seconds"),
        [
            ({**NEIGHBOUR, **SLOWER}, "code-change", "sharpen", "code", 6.0),
            ({**NEIGHBOUR, **LOOP}, "code-change", "blur", "code", 6.0),
            ({**NEIGHBOUR, "steps": 200}, "workload-change", "main", "queue", 0.0),
            ({**NEIGHBOUR, "ratio": 2.5, "others": 1.9}, "contention", "", "queue", 1.5 * 3.16),
        ],
        ids=["slower code", "a loop", "more steps", "a second neighbour"],
    )
    def test_what_changed_is_named(
        self, after: dict[str, object], cause: str, subject: str, bucket: str, seconds: float
    ) -> None:
        found = diffed(side(**NEIGHBOUR), side(**after))
        assert (found.verdict.cause, found.verdict.subject) == (cause, subject)
        causes = {cause, *(finding.cause for finding in found.verdict.findings)}
        assert ("contention" in causes) == (cause == "contention")
        assert found.account.seconds(bucket) == pytest.approx(seconds, abs=1e-6)

    def test_larger_data_in_the_same_calls_is_not_contention(self) -> None:
        """More data and a slower memory look alike: either may be named, queueing may not."""
        found = diffed(side(**NEIGHBOUR), side(**NEIGHBOUR, slower=1.6))
        assert found.verdict.cause != "contention"
        assert found.account.seconds("speed") == pytest.approx(2 * 0.6 * 3.16)


def std(name: str, module: str) -> Fn:
    return Fn(name, 0, file=f"/usr/lib/python3.11/{module}.py")


#: Ways to wait in a loop: native function, what of the standard library wraps it, and what it calls for each turn.
WAITS: Mapping[str, tuple[str, tuple[Fn, ...]]] = {
    "time.sleep": ("<built-in method time.sleep>", ()),
    "poll": (
        "<method 'poll' of 'select.poll' objects>",
        (std("PollSelector.select", "selectors"), std("Connection.poll", "multiprocessing/connection")),
    ),
    "select": ("<built-in method select.select>", (std("SelectSelector.select", "selectors"),)),
    "a lock": (ACQUIRE, (std("Condition.wait", "threading"),)),
    "a queue": ("<method 'get' of '_queue.SimpleQueue' objects>", ()),
}


def polling(kind: str, turns: int, seconds: float) -> list[Fn]:
    """The training loop with `turns` polls that wait `seconds` in all; each also costs 20 µs of CPU time."""
    native, wrappers = WAITS[kind]
    found, caller = [], "step"
    for wrapper in reversed(wrappers):
        found.append(replace(wrapper, calls=turns, run=2e-5 * turns, callers={caller: turns}))
        caller = wrapper.name
    return [*training(), *found, Fn(native, turns, 0.0, 0.0, seconds, {caller: turns})]


class TestWaitingIsNoWork:
    """A longer wait polls more often: these calls are neither more work nor changed code."""

    @pytest.mark.parametrize("kind", WAITS)
    @pytest.mark.parametrize("build", [plain, program])
    def test_a_program_that_polls_longer_is_blocked(self, build: Callable[..., Run], kind: str) -> None:
        found = diffed(build(polling(kind, 200, 0.4)), build(polling(kind, 3000, 6.0)))
        if build is program:
            assert found.verdict.cause == "blocked"
        else:
            assert found.verdict.cause not in ("workload-change", "code-change", "slower-machine")
            assert found.account.seconds("code") == pytest.approx(0.0, abs=0.01)
        assert found.account.seconds("work") == pytest.approx(0.0, abs=0.01)
        assert found.account.seconds("blocked") == pytest.approx(5.6, rel=0.02)

    def test_work_beside_longer_waiting_is_still_seen(self) -> None:
        polls = polling("poll", 3000, 1.0)[len(training()) :]
        found = diffed(plain(polling("poll", 200, 0.4)), plain([*training(200), *polls]))
        assert (found.verdict.cause, found.verdict.rule) == ("workload-change", "call-counts")
        assert found.account.seconds("work") == pytest.approx(3.15, rel=0.01)

    def test_a_projects_own_function_of_such_a_name_computes(self) -> None:
        own = Fn("wait", 100, 1.0, callers={"step": 100})
        more = replace(own, calls=400, run=4.0, callers={"step": 400})
        found = diffed(program([*training(), own]), program([*training(), more]))
        assert found.account.seconds("work") == pytest.approx(3.0)


class TestWhereCallsOriginate:
    """A function is called four times as often because its caller changed, or because there is more work."""

    def test_plain_profiles_name_the_function_whose_calls_changed_alone(self) -> None:
        found = diffed(plain(training()), plain(training(per_step={"sharpen": 20})))
        assert (found.verdict.cause, found.verdict.rule) == ("code-change", "calls-per-call")
        assert found.verdict.subject == "blur"
        work = diffed(plain(training()), plain(training(200)))
        assert (work.verdict.cause, work.verdict.subject) == ("workload-change", "main")

    def test_a_library_between_hands_the_change_down(self) -> None:
        """A library makes other calls because its changed caller calls it differently."""

        def run(turns: int, source: str) -> Run:
            file = "/v/site-packages/lib/a.py"
            library = Fn("resize", 100, 0.1, callers={"blur": 100}, file=file)
            inner = Fn("kernel", turns, 0.002 * turns, callers={"resize": turns}, file=file)
            return program([*training(changed={"blur": source}), library, inner])

        found = diffed(run(500, "small"), run(2000, "large"))
        assert found.account.seconds("code") == pytest.approx(3.0, rel=0.02)
        assert (found.verdict.cause, found.verdict.subject) == ("code-change", "blur")


class TestEnds:
    """Runs that ended differently did different work; that is reported before every other cause."""

    @pytest.mark.parametrize("ends", [(0, 1), (2, 0), (1, 3), (0, 137), (139, 139), (0, 255)])
    @pytest.mark.parametrize(
        "more", [{"ratio": 2.0, "others": 1.9}, {"steps": 300}], ids=["queued", "longer"]
    )
    def test_another_end_is_inconclusive(self, ends: tuple[int, int], more: dict[str, object]) -> None:
        found = diffed(side(exit_status=ends[0]), side(exit_status=ends[1], **more))
        assert (found.verdict.cause, found.verdict.rule) == ("inconclusive", "unfinished")
        assert found.verdict.numbers["baseline-exit"] == ends[0]
        assert found.verdict.numbers["candidate-exit"] == ends[1]
        first = " ".join(terminal.render(diff_document(found), width=100).splitlines()[:4])
        assert summary_of(found.verdict).partition(":")[0] in " ".join(first.split())
        failed = [name for name, end in zip(("baseline", "candidate"), ends, strict=True) if end]
        assert [a.subject for a in found.verdict.advice if a.kind == "run-to-end"] == failed

    def test_two_that_fail_before_anything_is_profiled_are_not_judged(self) -> None:
        nothing = with_main(side(exit_status=1), threads=(), profiled=False)
        found = diffed(nothing, replace(nothing, path="another.prof"))
        assert (found.verdict.cause, found.verdict.rule) == ("inconclusive", "unfinished")
        assert terminal.render(diff_document(found)).startswith("? One run failed")


class TestTwoPrograms:
    """Runs of two programs cannot be compared, whatever either of them waited for."""

    @staticmethod
    def other(ratio: float = 0.0, off: float = 0.0) -> list[Fn]:
        """Another program of the same libraries."""

        def name(of: str) -> str:
            return of if of.startswith("<") else f"other_{of}"

        fns = [
            replace(f, name=name(f.name), callers={name(k): v for k, v in f.callers.items()}, file="/w/o.py")
            for f in training(60, ratio=ratio)
        ]
        return [*fns, Fn(ACQUIRE, 10, 0.0, 0.0, off, {"other_step": 10})]

    @pytest.mark.parametrize("waits", [{}, {"ratio": 3.0}, {"off": 9.0}, {"ratio": 1.0, "off": 9.0}])
    @pytest.mark.parametrize("swapped", [False, True])
    @pytest.mark.parametrize("shared_s", [0.0, 20.0])
    def test_it_is_inconclusive(self, waits: dict[str, float], swapped: bool, shared_s: float) -> None:
        """Also where both spend most of their time in one library."""
        solve = "<built-in method lib.solve>"
        ours = [*training(), Fn(solve, 10, shared_s, callers={"main": 10})]
        others = [*self.other(**waits), Fn(solve, 30, 1.5 * shared_s, callers={"other_main": 30})]
        for runs in ((program(ours), program(others, others=1.9)), (plain(ours), plain(others))):
            found = diffed(*(runs[::-1] if swapped else runs))
            assert (found.verdict.cause, found.verdict.rule) == ("inconclusive", "another-program")
            assert found.verdict.confidence is None
            assert not found.verdict.findings

    def test_module_bodies_and_a_main_of_the_same_name_do_not_make_them_one(self) -> None:
        """Scripts of one name in two directories, most of whose time is in one library."""

        def script(*names: str, source: str) -> Run:
            fns = [
                Fn("<module>", 1, 0.01, source=source),
                Fn("main", 1, 0.02, callers={"<module>": 1}, source=source),
                Fn("main.<locals>.<genexpr>", 10, 0.1, callers={"main": 10}, source=source),
                *(Fn(name, 10, 0.3, callers={"main": 10}) for name in names),
            ]
            return program([*fns, Fn("<built-in method lib.solve>", 10, 9.0, callers={"main": 10})])

        a, b = script("crawl", "fetch", "parse", source="a"), script("fit", "predict", "score", source="b")
        assert diffed(a, b).verdict.rule == "another-program"
        # The same functions, of which one is another and main calls it: one program that changed.
        changed = script("crawl", "fetch", "parse_all", source="b")
        assert diffed(a, changed).verdict.rule != "another-program"
        # A script of one function that changed.
        assert diffed(script(source="a"), script(source="b")).verdict.rule != "another-program"

    def test_a_program_that_was_refactored_in_part_is_the_same(self) -> None:
        main, step, load, *others = training(times={"load": 3.0})
        renamed = [main, step, replace(load, name="smooth"), *others]
        assert diffed(side(), program(renamed)).verdict.rule != "another-program"


class TestBoundRanks:
    """Ranks that profkit was started in, each bound to its own CPUs, may use all of those together."""

    @staticmethod
    def job(*cpus: tuple[int, ...], busy: float = 4.0, queue: float = 0.0) -> Run:
        """A merged job of ranks that are bound to these CPUs and compute all the time."""
        one = program([Fn("main", 1, busy, queue)])
        hosts = [Host(name="host", cpus=2, affinity=len(on), affinity_cpus=on) for on in cpus]
        ranks = tuple(
            replace(one.processes[0], pid=100 + i, role="rank", rank=i, host=host)
            for i, host in enumerate(hosts)
        )
        # Written by the first rank's launcher, which was bound like its rank.
        manifest = replace(one.manifest, host=hosts[0])
        machine = replace(one.machine, busy_s=busy * len(cpus))
        return replace(one, processes=ranks, manifest=manifest, machine=machine)

    def test_ranks_on_cpus_of_their_own_do_not_compete(self) -> None:
        apart, together = self.job((0,), (1,)), self.job((0,), (0,), busy=4.0, queue=4.0)
        assert judge_run(apart, apart.processes).verdict is None
        alone = judge_run(together, together.processes).verdict
        assert (alone.cause, alone.kind) == ("contention", "self-oversubscription")
        verdict = diffed(apart, together).verdict
        assert (verdict.cause, verdict.kind) == ("contention", "self-oversubscription")
        freed = compare(together, apart)
        assert freed.read("contention.itself") is False
        assert freed.signals.candidate.demand_cores == pytest.approx(8.0 / 4.2)


def test_threads_without_functions_are_no_other_program() -> None:
    run = side()
    native = Thread(Profile.empty(), tid=999, run_s=1.0, run_queue_wait_s=0.0)
    grown = with_main(run, threads=(*run.processes[0].threads, native))
    assert diffed(side(), grown).verdict.rule != "another-program"


@pytest.mark.parametrize(
    ("name", "kept", "file"),
    [
        (ACQUIRE, "data-starvation", QUEUE_GET),
        ("<method 'recv' of '_socket.socket' objects>", "blocked", "/w/m.py"),
    ],
    ids=["for loaders", "for a server"],
)
def test_twice_the_steps_wait_twice_as_long(name: str, kept: str, file: str) -> None:
    """Most of the added time is waiting, but each step waits as long as before."""

    def run(steps: int, waited: float) -> Run:
        get = Fn("get", steps, 0.01, callers={"step": steps}, file=file)
        wait = Fn(name, steps, off=waited, callers={"get": steps})
        return side((get, wait), steps=steps)

    before = run(100, 6.0)
    found = diffed(before, run(200, 12.0)).verdict
    assert (found.cause, found.rule) == ("workload-change", "call-counts")
    assert all(finding.cause == found.cause for finding in found.findings)
    # Twice the steps do not explain four times the waiting.
    assert diffed(before, run(200, 24.0)).verdict.cause == kept
    assert diffed(before, run(100, 12.0)).verdict.cause == kept
