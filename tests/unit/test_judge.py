"""Verdicts from runs that are known by construction: of two sides, and of one run alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.capture.agent.settings import recorded_environment
from profkit.formats import join_ranks, load_side
from profkit.measure.side_facts import SideFacts, side_facts
from profkit.model import Host, Notice, Paths, Pause, Pool, Profile, Run, RunSet, Thread
from profkit.report.wording.verdicts import comparison_block
from profkit.verdict.alone import judge_run
from profkit.verdict.diagnosis import diagnose as diff
from profkit.verdict.judge import judge
from profkit.verdict.thresholds import value
from profkit.verdict.types import CAUSES, Advice, Diff, Evidence, Verdict
from tests.builders import Row, captured, foreign, profile, timed, with_main, with_thread
from tests.programs import ACQUIRE, PROJECT_FILE, QUEUE_GET, Fn, compare, diffed, one_side, program, training
from tests.rank_files import Did, rank_run

#: Ten functions of a few tenths of a second: 3.2 s in all.
BASE = [Row("m.py", 10 * i, f"f{i}", 100, 0.32, source=f"s{i}") for i in range(10)]
#: The same without sources.
BARE = [replace(r, source="") for r in BASE]
#: CPU seconds of the base.
BUSY = 3.2
#: The same, every function of which is called twice as often.
TWICE = profile([replace(r, ncalls=2 * r.ncalls, tottime=2 * r.tottime) for r in BASE])


def scaled(*factors: float, rows: list[Row] = BASE) -> Profile:
    """The base with each function's time multiplied; the last factor holds for the rest."""
    full = [*factors, *[factors[-1]] * (len(rows) - len(factors))]
    return profile([replace(r, tottime=r.tottime * f) for r, f in zip(rows, full, strict=True)])


def edited(row: int, seconds: float, *new: Row) -> Profile:
    """The base with another source of one function, which takes so long, and with new functions."""
    return profile([*BASE[:row], replace(BASE[row], source="other", tottime=seconds), *BASE[row + 1 :], *new])


def run(prof: Profile, wait: float = 0.0, off: float = 0.0, **more: object) -> Run:
    wall = prof.total
    return captured(prof, wall=wall, run=wall - wait - off, wait=wait, **more)


CLEAN = run(scaled(1.0))
QUEUED = run(scaled(1.0), wait=0.2)


def waiting(seconds: float, off: float = 0.0, *, workers: float) -> Run:
    """The base and a lock that it waits in, beside workers that compute for so long."""
    return run(profile([*BASE, Row("~", 0, ACQUIRE, 10, seconds)]), off=off, children=[(workers, 0.0)])


def spinning(factor: float, team: int, rest_wait: float, ran: float = 1.0, others: float = 0.0) -> Run:
    """The base, whose main thread computes while the threads of its pool queue."""
    prof = scaled(factor)
    made = run(prof, wait=0.1, busy=prof.total + team * ran + others)
    main = made.processes[0]
    threads = (
        Thread(Profile.empty(), tid=200 + i, run_s=ran, run_queue_wait_s=rest_wait / team)
        for i in range(team)
    )
    return with_main(
        made,
        threads=(*main.threads, *threads),
        pools=(Pool("libgomp", threads=team + 1),),
        cpu_s=main.cpu_s + team * ran,
        run_queue_wait_s=main.run_queue_wait_s + rest_wait,
    )


def with_memory(factor: float, *memory: int) -> RunSet:
    """Repeats with these peaks of memory in megabytes, whose functions are slower but for two."""
    one = run(scaled(factor, 1.0, factor, 1.0, factor))
    return one_side(*(with_main(one, peak_memory_bytes=10**6 * peak) for peak in memory))


def repeats(*factors: float, slower: float = 1.0, busy: float | None = None) -> RunSet:
    """Repeats on one machine; `busy` is the CPU of all programs per second."""
    made = []
    for i, factor in enumerate(factors):
        prof = scaled(slower * factor)
        one = run(prof, busy=None if busy is None else busy * prof.total)
        made.append(replace(timed(one), path=f"run-{i}.prof"))
    return one_side(*made)


STEADY = (1.0, 1.01, 0.99, 1.02, 0.98)
SCATTER = (1.0, 1.12, 0.9, 1.08, 0.93)


def judged(a: Run | RunSet, b: Run | RunSet) -> Diff:
    found = diffed(a, b)
    assert found.verdict.cause in CAUSES
    assert found.verdict.confidence is None or 0 <= found.verdict.confidence <= 1
    return found


def said(run: Run) -> Verdict | None:
    """What a run says of itself."""
    return judge_run(run, run.processes).verdict


def evidence(found: Diff, signal: str) -> Evidence:
    """The one piece of evidence of a signal."""
    (piece,) = (piece for piece in found.verdict.evidence if piece.signal == signal)
    return piece


def advice(found: Diff, kind: str) -> Advice:
    """The one piece of advice of a kind."""
    (piece,) = (piece for piece in found.verdict.advice if piece.kind == kind)
    return piece


EXTERNAL = ("contention", "run-queue-wait", "external-load")
WITH_MEMORY = with_memory(1.0, 200, 201, 203)
#: Two sides, and the cause that is found, with its rule and kind where they matter.
CAUSE: dict[str, tuple[Any, ...]] = {
    "waiting that was there before": (run(scaled(1.0), wait=0.6), run(scaled(1.01), wait=0.65), "no-change"),
    "queueing that explains most": (QUEUED, run(scaled(1.5), wait=1.6), "contention"),
    "the same queueing where one side lacks CPUs": (
        run(scaled(1.0), busy=3.2),
        run(scaled(2.0), wait=2.0, busy=4.4 + 2.4),
        *EXTERNAL,
    ),
    "less queueing beside others": (QUEUED, run(scaled(1.5), wait=0.9, busy=4.8 - 0.9 + 2.4), *EXTERNAL),
    "a main thread that spins while its team queues": (
        spinning(1.0, 1, 0.1),
        spinning(1.5, 7, 6.0),
        *("contention", "run-queue-wait", "self-oversubscription"),
    ),
    "a main thread that spins while others take its team's CPUs": (
        spinning(1.0, 7, 0.1),
        spinning(1.5, 7, 6.0, ran=0.7, others=12.0),
        *EXTERNAL,
    ),
    "waiting for a lock": (waiting(0.1, workers=0.5), waiting(4.0, 3.8, workers=0.5), "blocked"),
    "one factor": (CLEAN, run(scaled(1.8)), "slower-machine", "one-factor"),
    "one factor on another CPU": (CLEAN, run(scaled(1.8), cpu_model="older"), "slower-machine", "slower-cpu"),
    "one factor that is small": (CLEAN, run(scaled(1.3)), "no-change"),
    "instructions switched off": (
        CLEAN,
        run(scaled(1.2), environment={"OPENCV_CPU_DISABLE": "AVX2"}),
        "slower-machine",
    ),
    "time that moved": (CLEAN, run(scaled(2.2, 0.2, 1.9, 0.3, 1.0)), "no-change", "same-total"),
    "new code that holds the gain": (
        CLEAN,
        run(edited(0, 1.0, Row("m.py", 5, "helper", 9, 2.0, source="n"))),
        *("code-change", "changed-source"),
    ),
    "time that moved and was saved": (CLEAN, run(scaled(0.5, 0.82)), "faster", "less-time"),
    "less time": (run(scaled(1.0), wait=1.5, busy=6.0), run(scaled(0.5)), "faster"),
    "more memory in all repeats": (WITH_MEMORY, with_memory(1.6, 210, 211, 212), "workload-change"),
    "more memory in some": (WITH_MEMORY, with_memory(1.6, 202, 211, 212), "inconclusive"),
    "a slow repeat of the baseline": (repeats(1.0, 1.3, 1.02), repeats(1.1, 1.12, 1.32), "no-change"),
    "a loss within the scatter": (repeats(*SCATTER), repeats(*SCATTER, slower=1.08), "no-change"),
    "a loss of two repeats": (repeats(1.0, 1.01), repeats(1.08, 1.09), "no-change"),
}
#: Two sides, and a cause that is not found.
NO_CAUSE: dict[str, tuple[Any, ...]] = {
    "a slower function of the same source": (CLEAN, run(scaled(6.0, 1.0)), "code-change"),
    # A lost time slice does as much.
    "a less slow one of plain profiles": (
        foreign(profile(BARE)),
        foreign(scaled(1.9, 1.0, rows=BARE)),
        "code-change",
    ),
    "waiting for its own workers": (waiting(0.1, workers=0.5), waiting(4.0, 3.8, workers=4.0), "blocked"),
    "queueing that explains little": (QUEUED, run(scaled(1.5), wait=0.9), "contention"),
    "a team that hardly queues": (spinning(1.0, 1, 0.1), spinning(1.5, 1, 0.2), "contention"),
    "a team of the same size that computes longer, too": (
        spinning(1.0, 7, 0.1),
        spinning(1.5, 7, 6.0, ran=1.5, others=12.0),
        "contention",
    ),
    "a repeat that took much longer": (
        repeats(1.66, 1.66, 1.67, busy=1.0),
        repeats(1.82, 1.89, 3.77, busy=1.0),
        "no-change",
    ),
}


@pytest.mark.parametrize("name", CAUSE)
def test_the_cause_that_is_found(name: str) -> None:
    a, b, *expected = CAUSE[name]
    verdict = judged(a, b).verdict
    assert [verdict.cause, verdict.rule, verdict.kind][: len(expected)] == expected


@pytest.mark.parametrize("name", NO_CAUSE)
def test_a_cause_that_is_not_found(name: str) -> None:
    a, b, cause = NO_CAUSE[name]
    assert judged(a, b).verdict.cause != cause


def test_what_moved_for_no_known_reason_is_said() -> None:
    for factors, what in (((2.4, 1.0), "Time moved between"), ((2.6, 0.4, 2.6, 0.5, 1.2), "The order of")):
        found = judged(CLEAN, run(scaled(*factors)))
        assert found.verdict.cause == "inconclusive"
        assert f"{what} functions" in comparison_block(found).summary


def test_threads_that_no_pool_explains_are_the_programs_own() -> None:
    """LightGBM starts as many as its own parameter says, whatever the size of OpenMP's pool."""
    before, many = spinning(1.0, 1, 0.1), spinning(1.5, 7, 6.0)
    found = judged(before, with_main(many, pools=(Pool("libgomp", threads=2),)))
    assert found.verdict.kind == "self-oversubscription"
    assert advice(found, "own-threads").numbers["cpus"] == 2
    assert "own-threads" not in [piece.kind for piece in judged(before, many).verdict.advice]


@pytest.mark.parametrize(
    ("others", "threads", "kind"), [(0.0, 4, "self-oversubscription"), (0.2, 4, None), (0.0, 2, None)]
)
def test_where_nobody_else_took_cpus_more_threads_than_cpus_did(
    others: float, threads: int, kind: str | None
) -> None:
    """Threads that take turns ask for no more CPUs than there are, and queue all the same."""

    def side(ratio: float) -> Run:
        run = program(training(ratio=ratio), others=others)
        idle = Thread(profile([]), tid=7, run_s=0.0, run_queue_wait_s=0.0)
        return with_main(run, threads=(*run.processes[0].threads, *[idle] * (threads - 1)))

    verdict = diffed(side(0.0), side(0.5)).verdict
    assert (verdict.cause, verdict.kind) == ("contention", kind)
    assert ("capture-idle" in [one.kind for one in verdict.advice]) is (kind is None)


@pytest.mark.parametrize(("startup", "queued", "lacks"), [(4.0, 4.0, True), (4.0, 0.1, False)])
def test_a_long_start_does_not_hide_that_too_many_threads_follow(
    startup: float, queued: float, lacks: bool
) -> None:
    """Two threads of a library compute beside the main one; importing it takes longer than the work."""
    helpers = [(1.0, queued)] * 2
    run = program([Fn("step", 100, 1.0, queue=queued / 4)], startup=startup, helpers=helpers)
    found, facts = said(run), side_facts(one_side(run), [run.processes], 1.0)
    assert (found is not None and found.kind == "self-oversubscription") is lacks
    assert facts.demand < value("demand.self"), "on average, it asks for no more than there is"


def with_pauses(run: Run, *pauses: tuple[Pause, ...]) -> Run:
    """The same with what each process, of one thread, waited for."""
    waited = zip(run.processes, pauses, strict=True)
    processes = (replace(p, threads=(replace(p.threads[0], pauses=of),)) for p, of in waited)
    return replace(run, processes=tuple(processes))


@pytest.mark.parametrize(("added", "cause"), [(1.0, "garbage-collection"), (0.1, "no-change")])
def test_garbage_collection_that_takes_longer(added: float, cause: str) -> None:
    def side(collected: float) -> Run:
        main, step, load, *others = training()
        run = program([main, step, replace(load, run=load.run + collected), *others])
        return with_pauses(run, (Pause(2, "gc-2", collected, 9),))

    found = diffed(side(0.5), side(0.5 + added))
    assert found.verdict.cause == cause
    if cause != "no-change":
        assert found.verdict.subject == "load"
        assert found.account.collected_s == pytest.approx((0.5, 1.5))
        assert "1.50 s, against 500 ms" in comparison_block(found).summary
    assert said(side(4.0)).cause == "garbage-collection"


READ = "<method 'read' of '_io.BufferedReader' objects>"


@pytest.mark.parametrize(("run_s", "off_s"), [(1.5, 0.1), (0.2, 1.4)])
def test_files_that_were_in_memory_before(run_s: float, off_s: float) -> None:
    """The kernel copies what storage delivers while the thread runs, or the thread waits for the disk."""

    def side(run_s: float, off_s: float, stored: int, read: int = 900_000_000) -> Run:
        made = program([*training(), Fn(READ, 40, run_s, off=off_s, callers={"main": 40})])
        return with_main(made, storage_bytes=stored, read_bytes=read)

    found = diffed(side(0.2, 0.0, 4096), side(run_s + 0.2, off_s, 900_000_000))
    assert (found.verdict.cause, found.verdict.rule) == ("blocked", "reading")
    assert "Storage delivered 900 MB" in comparison_block(found).summary
    # More of them is other work.
    more = side(run_s + 0.2, off_s, 4096, read=1_800_000_000)
    assert diffed(side(0.2, 0.0, 4096), more).verdict.rule != "reading"


@pytest.mark.parametrize(("again", "kind"), [(800_000_000, "short-memory"), (300_000_000, None)])
def test_files_that_are_read_again_for_lack_of_memory(again: int, kind: str | None) -> None:
    def side(run_s: float, off_s: float, stored: int, again: int, limit: int | None) -> Run:
        made = program([Fn(READ, 40, run_s, off=off_s, callers={"main": 40}), *training()])
        made = with_pauses(made, (Pause(0, "disk", off_s, 40),))
        machine = replace(made.machine, refaulted_bytes=again, memory_limit_bytes=limit)
        return replace(with_main(made, storage_bytes=stored, read_bytes=900_000_000), machine=machine)

    slow = side(0.4, 8.0, 900_000_000, again, 250_000_000)
    found = diffed(side(0.2, 0.0, 4096, 0, None), slow)
    assert (found.verdict.rule, found.verdict.kind) == ("reading", kind)
    assert ("limited to 250 MB" in comparison_block(found).summary) is bool(kind)
    advised = [one.kind for one in found.verdict.advice]
    assert advised[:1] == ["more-memory"] if kind else advised[:2] == ["warm-files", "warm-baseline"]
    # Of one run it is unknown what had to be read a first time: a third of it is enough.
    alone = said(slow)
    assert (alone.cause, alone.rule, alone.kind) == ("blocked", "reading", "short-memory")
    # What is in memory is read as fast as it can be.
    assert said(side(8.0, 0.0, 4096, 0, None)) is None


def test_files_that_are_written_to_the_disk_each_time() -> None:
    """The kernel computes while it writes, and most waits are too short to be seen: those seen say for what."""
    sync = Fn("<built-in method posix.fsync>", 400, callers={"main": 400})

    def side(run_s: float, off_s: float) -> Run:
        made = program([replace(sync, run=run_s, off=off_s), *training()])
        return with_pauses(made, (Pause(0, "write", 0.1 * off_s, 40),))

    found = diffed(side(0.01, 0.01), side(1.5, 2.0))
    assert (found.verdict.rule, found.verdict.numbers["blocked.on"]) == ("off-cpu", "write")
    assert found.account.seconds("rest") == pytest.approx(0.0, abs=0.01)
    assert found.account.seconds("speed") == pytest.approx(1.49, abs=0.05)


@pytest.mark.parametrize(
    ("environment", "command", "named"),
    [
        ({"PYTHONTRACEMALLOC": "1"}, ("python", "a.py"), "PYTHONTRACEMALLOC"),
        ({"NUMBA_DISABLE_JIT": "1"}, ("python", "a.py"), "NUMBA_DISABLE_JIT"),
        ({}, ("python", "-X", "dev", "-u", "a.py"), "-X dev"),
        ({}, ("python", "-Xtracemalloc=5", "a.py"), "-X tracemalloc=5"),
        ({}, ("python", "-m", "coverage", "run", "--branch", "a.py"), "coverage"),
        ({"NUMBA_DISABLE_JIT": "0", "PYTHONMALLOC": "pymalloc"}, ("python", "a.py"), ""),
        ({}, ("python", "-m", "http.server", "a.py"), ""),
        ({}, ("python", "a.py", "-X", "dev"), ""),
    ],
)
def test_a_setting_for_debugging_that_slows_the_candidate(
    environment: Mapping[str, str], command: tuple[str, ...], named: str
) -> None:
    def side(factor: float, environment: Mapping[str, str], command: tuple[str, ...]) -> Run:
        return program(training(slower=factor), environment=environment, command=command)

    slow = side(1.8, environment, command)
    found = diffed(side(1.0, {}, ("python", "a.py")), slow)
    assert (found.verdict.cause == "environment") is bool(named)
    if named:
        assert f"slowed down by {named}" in comparison_block(found).headline
        assert advice(found, "same-settings").argv == (
            ("env", "-u", named, *command)
            if environment
            else tuple(w for w in command if w in ("python", "-u", "a.py"))
        )
    assert diffed(slow, side(2.9, environment, command)).verdict.cause != "environment"


PACKAGES = "/v/lib/python3.11/site-packages"


def test_a_library_that_runs_code_of_another_implementation() -> None:
    pack = "<built-in method packb of msgpack._cmsgpack.Packer object>"
    compiled = [*training(), Fn(pack, 400, 0.1, callers={"step": 400})]
    fallback = [
        *training(),
        Fn("Packer.pack", 400, 0.4, callers={"step": 400}, file=f"{PACKAGES}/msgpack/fallback.py"),
        Fn("Packer._pack", 9000, 3.6, callers={"Packer.pack": 9000}, file=f"{PACKAGES}/msgpack/fallback.py"),
    ]
    found = diffed(program(compiled), program(fallback))
    assert (found.verdict.cause, found.verdict.rule) == ("environment", "other-library-code")
    assert "other code of a library runs: msgpack" in comparison_block(found).headline
    assert ("compare-libraries", "msgpack") in [(a.kind, a.argv[-1]) for a in found.verdict.advice if a.argv]
    # An option explains it as well.
    other = program(fallback, command=("python", "train.py", "--packer", "pure"))
    assert diffed(program(compiled), other).verdict.rule != "other-library-code"


def test_functions_that_are_compiled_while_the_program_runs() -> None:
    def side(compiling: float) -> Run:
        numba, called = f"{PACKAGES}/numba/core", {"_compile_for_args": 90}
        begin = Fn("_compile_for_args", 3, 0.01, callers={"step": 3}, file=f"{numba}/dispatcher.py")
        passes = Fn("run_pass", 90, compiling, callers=called, file=f"{numba}/compiler.py")
        return program([*training(), begin, passes])

    found = diffed(side(0.2), side(3.0))
    assert (found.verdict.cause, found.verdict.rule) == ("start-up", "compiling")
    assert "compiling took longer: numba" in comparison_block(found).headline
    assert diffed(side(0.2), side(0.25)).verdict.cause == "no-change"


def test_a_program_that_binds_itself_to_fewer_cpus_is_told_so() -> None:
    def side(given: int, left: int, wait: float) -> Run:
        made = run(scaled(1.0 + wait / 3.2), wait=wait, cpus=given, children=[(1.0, wait)])
        bound = replace(made.processes[0].host, affinity=left, affinity_cpus=tuple(range(left)))
        return with_main(made, host=bound)

    found = judged(side(4, 4, 0.0), side(4, 1, 3.2))
    assert found.verdict.kind == "self-oversubscription"
    assert advice(found, "unbind").numbers == {"cpus": 1, "machine": 4}


LAUNCH = "/usr/lib/python3.11/multiprocessing/popen_fork.py"


@pytest.mark.parametrize("processes", [40, 2])
def test_processes_that_are_started_again_and_again(processes: int) -> None:
    """Each epoch forks its workers again: the function that does so computes and queues for longer."""

    def side(processes: int, launch: float) -> Run:
        forks = Fn("_launch", processes, launch, 0.8 * launch, callers={"main": processes}, file=LAUNCH)
        return program([*training(), forks], helpers=[(0.02, 0.0)] * processes)

    found = diffed(side(2, 0.05), side(processes, 1.5)).verdict
    assert (found.rule == "process-starts") is (processes > 2)
    if processes > 2:
        assert (found.cause, found.numbers["processes"]) == ("start-up", processes + 1)


@pytest.mark.parametrize(("before", "after", "lacked"), [(0.31, 0.31, True), (0.29, 0.31, False)])
def test_both_sides_lacked_cpus_where_both_queued_for_long(before: float, after: float, lacked: bool) -> None:
    one, other = (run(scaled(k), wait=part * scaled(k).total) for k, part in ((1.0, before), (1.01, after)))
    assert compare(one, other).read("both.lacked-cpus") is lacked


def test_own_threads_above_the_cores() -> None:
    children = [(3.0, 5.0), (3.0, 5.0)]
    b = run(scaled(4.0, 1.5, 2.0), wait=4.0, children=children, environment={"OMP_NUM_THREADS": "8"})
    found = judged(run(scaled(1.0), environment={"OMP_NUM_THREADS": "1"}), b)
    assert (found.verdict.cause, found.verdict.kind) == ("contention", "self-oversubscription")
    assert found.verdict.confidence >= 0.9
    demand = evidence(found, "demand")
    assert (demand.whole, demand.reading) == ((2.0, 2.0), "own-threads-compete")
    assert demand.candidate == pytest.approx((2.88 + 6.0 + 14.0) / 6.88)
    limit = advice(found, "limit-threads")
    assert (limit.argv, limit.env) == (("python", "train.py"), {"OMP_NUM_THREADS": "1"})
    assert (limit.cures, limit.predicted_gain_s) == ("queue", pytest.approx(found.account.seconds("queue")))
    # One run a side: without what runs that should be equal differ by, on the longer side.
    slower = found.account.candidate_s / found.account.baseline_s
    queue = found.account.bucket("queue")
    assert limit.least_gain_s == pytest.approx(limit.predicted_gain_s - slower * (queue.seconds - queue.low))
    assert 0 < limit.least_gain_s < limit.predicted_gain_s


def test_quota_is_asked_before_waiting() -> None:
    found = judged(CLEAN, run(scaled(2.0), wait=3.0, throttled=(40, 64)))
    assert (found.verdict.cause, found.verdict.kind) == ("contention", "cpu-quota")
    assert evidence(found, "throttled").candidate == 40 / 64
    assert evidence(found, "demand").reading == "quota"
    assert advice(found, "within-quota").env == {"OMP_NUM_THREADS": "2"}


@pytest.mark.parametrize(
    ("before", "wait", "holds"),
    [(CLEAN, 0.0, False), (CLEAN, 0.2, False), (CLEAN, 0.5, True), (foreign(scaled(1.0)).runs[0], 3.0, True)],
    ids=["no queueing", "hardly any", "some", "a baseline that is plain"],
)
def test_a_quota_is_a_cause_only_where_it_cost_time(before: Run, wait: float, holds: bool) -> None:
    """It also stops threads that nobody waits for."""
    found = judged(before, run(scaled(2.0), wait=wait, throttled=(40, 64))).verdict
    assert ("throttling" in {finding.rule for finding in found.findings}) is holds


@pytest.mark.parametrize(
    ("host", "variable", "machine"),
    [
        ("host", "", 8),
        # Another machine's CPUs say nothing of this one, and a batch system gave the run what it may have.
        ("elsewhere", "", 2),
        ("host", "SLURM_NTASKS", None),
        ("host", "PBS_NODENUM", None),
        ("host", "PBS_NUM_PPN", None),
        ("host", "LSB_DJOB_NUMPROC", None),
    ],
)
def test_a_run_on_one_cpu_is_let_onto_cpus_that_are_its_to_take(
    host: str, variable: str, machine: int | None
) -> None:
    def on(made: Run, place: Host) -> Run:
        processes = (replace(process, host=place, pools=()) for process in made.processes)
        return replace(made, processes=tuple(processes), manifest=replace(made.manifest, host=place))

    recorded = recorded_environment({variable: "1", "HOME": "/home/me"})
    slow = run(scaled(2.0), wait=BUSY, children=[(2.0, 3.0)], environment=recorded)
    before = on(run(scaled(1.0), children=[(2.0, 0.0)]), Host(host, cpu_model="cpu", cpus=8, affinity=8))
    found = judged(before, on(slow, Host("host", cpu_model="cpu", cpus=2, affinity=1))).verdict
    assert (found.cause, found.kind) == ("contention", "self-oversubscription")
    offered = [one.numbers["machine"] for one in found.advice if one.kind == "more-cpus"]
    assert offered == ([] if machine is None else [machine])


FIRST, SECOND = "3fa9c1d2e4b57a90", "9be01aa4c7d2e600"


def at(one: Run, revision: str, *, dirty: bool = False, exit_status: int = 0) -> Run:
    """The same from a working tree at a revision, or with another end."""
    git = {"revision": revision, "dirty": dirty}
    return replace(one, manifest=replace(one.manifest, git=git, exit_status=exit_status))


def test_git_is_asked_for_what_it_can_say() -> None:
    changed = run(edited(3, 1.6))
    log = ("log", "-p")
    for before, after, dirty, asked in (
        (FIRST, SECOND, False, ("diff", FIRST[:12], SECOND[:12])),
        # What was edited is in no revision: a log does not have it.
        (FIRST, FIRST, True, ("diff", FIRST[:12])),
        ("--output=x", SECOND, False, log),
    ):
        found = judged(at(CLEAN, before), at(changed, after, dirty=dirty))
        assert advice(found, "git-log").argv == ("git", *asked, "--", "m.py")
    # Outside of a repository, or changed within one clean revision: git does not follow the file.
    for nowhere in (judged(CLEAN, changed), judged(at(CLEAN, FIRST), at(changed, FIRST))):
        assert nowhere.verdict.cause == "code-change"
        assert "git-log" not in [one.kind for one in nowhere.verdict.advice]


def test_less_code_is_not_less_work() -> None:
    """A changed function that calls others less often saves time; the same source that does has less to do."""
    loop = program(training(per_step={"sharpen": 20}))
    saved = judged(loop, program(training(changed={"blur": "fewer passes"}))).verdict
    assert (saved.cause, saved.rule) == ("faster", "less-time")
    less = judged(loop, program(training(per_step={"sharpen": 5}))).verdict
    assert (less.cause, less.rule, less.subject) == ("workload-change", "call-counts", "blur")


def test_regression_under_contention_names_both_and_leads_with_the_greater() -> None:
    changed = edited(0, 9.0)
    found = judged(CLEAN, run(changed, wait=2.2, busy=2 * changed.total)).verdict
    assert {f.cause for f in found.findings} >= {"contention", "code-change"}
    assert found.cause == "code-change"


#: Sixty short functions, as an import makes them, and eight that compute; native and Python.
SCHEDULED = [
    *(Row(f"pkg/m{i % 7}.py", 10 * i, f"short{i}", 3, 2e-4 * 1.07**i) for i in range(60)),
    *(Row("train.py", 10 * i, f"step{i}", 200, 0.1 + 0.05 * i) for i in range(4)),
    *(Row("~", 0, f"<built-in method lib.kernel{i}>", 200, 0.2 + 0.1 * i) for i in range(4)),
]


def scheduled(random: np.random.Generator, busy: float, factor: float = 1.0) -> Profile:
    """The same work on a machine that takes the CPU away: slices at random moments, `busy` of each second of work."""
    rows, slice_s = [], 0.005
    for row in SCHEDULED:
        own = row.tottime * factor * float(np.exp(random.normal(0, 0.03)))
        rows.append(replace(row, tottime=own + slice_s * random.poisson(busy * own / slice_s)))
    return profile(rows)


@pytest.mark.parametrize("runs", [1, 5])
def test_time_lost_in_slices_without_counters_is_contention_of_unknown_kind(runs: int) -> None:
    random = np.random.default_rng(5)
    calm = foreign(*(scheduled(random, 0.0) for _ in range(runs)))
    verdict = judged(calm, foreign(*(scheduled(random, 1.5) for _ in range(runs)))).verdict
    assert (verdict.cause, verdict.kind) == ("contention", None)
    assert verdict.rule == ("starved" if runs == 1 else "starved-repeats")
    slower = judged(calm, foreign(*(scheduled(random, 0.0, factor=2.5) for _ in range(runs)))).verdict
    assert slower.cause == "inconclusive"


@pytest.mark.parametrize("runs", [1, 3, 5])
def test_clean_repeats_are_no_change(runs: int) -> None:
    factors = np.exp(np.random.default_rng(9).normal(0, 0.03, (2, runs, 10)))
    a, b = (one_side(*(run(scaled(*one)) for one in side)) for side in factors.tolist())
    assert judged(a, b).verdict.cause == "no-change"


@pytest.mark.parametrize("slower", [1.08, 1.17, 1.32])
def test_a_neighbour_that_shares_memory_is_contention_for_it(slower: float) -> None:
    found = judged(repeats(*STEADY, busy=1.0), repeats(*STEADY, slower=slower, busy=2.0))
    assert (found.verdict.cause, found.verdict.kind) == ("contention", "shared-hardware")
    finding = found.verdict.findings[0]
    assert (finding.bucket, finding.severity > 0.9) == ("speed", True)
    assert evidence(found, "others").reading == "other-programs"
    assert advice(found, "capture-idle").cures == "speed"


@pytest.mark.parametrize("slower", [1.08, 1.17, 1.32])
@pytest.mark.parametrize("runs", [3, 5])
@pytest.mark.parametrize("busy", [1.0, 2.0], ids=["by itself", "beside the same neighbour"])
def test_a_loss_that_every_repeat_shows_is_never_no_change(slower: float, runs: int, busy: float) -> None:
    """One factor of all functions, on a machine that did fixed work as fast."""
    steady = STEADY[:runs]
    found = judged(repeats(*steady, busy=busy), repeats(*steady, slower=slower, busy=busy)).verdict
    assert found.cause == "inconclusive"
    assert found.numbers["lost"] is True


def test_what_else_differs_is_a_doubt() -> None:
    changed = edited(0, 1.6)
    same, elsewhere = (judged(CLEAN, run(changed, cpu_model=model)).verdict for model in ("cpu", "another"))
    assert same.cause == elsewhere.cause == "code-change"
    assert (same.doubts, elsewhere.doubts) == ((), ("cpu-model-differs",))
    assert elsewhere.confidence < same.confidence
    assert judged(CLEAN, run(changed, host="b")).verdict.doubts == ("host-differs",)
    failed = judged(*(at(one, FIRST, exit_status=1) for one in (CLEAN, run(changed)))).verdict
    assert failed.doubts == ("both-failed",)


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
        return program([*training(**more), Fn("read", 10, 0.1, 0.0, off, {"step": 10})])

    # A function that stood still for longer has most of the self time; what was computed grew elsewhere.
    found = judged(side(0.1), side(2.1, times={"sharpen": 4.0}, changed={"sharpen": "slower"}))
    assert (found.verdict.cause, found.verdict.subject) == ("code-change", "sharpen")
    assert found.account.seconds("code") == pytest.approx(3.0)
    assert found.account.seconds("blocked") == pytest.approx(2.0)
    assert "read" not in {piece.subject for piece in found.verdict.evidence}


def test_more_threads_recorded_are_not_more_work() -> None:
    """From Python 3.12 on cProfile holds the calls of all threads; before, those of one."""
    mixed = foreign(TWICE).runs[0]
    mixed = replace(mixed, warnings=(Notice("threads-in-one-stack", "", {"python": "3.12"}),))
    found = judged(foreign(profile(BASE)), mixed)
    assert found.verdict.cause == "inconclusive"
    assert Notice("one-side-mixes-threads", "candidate") in found.comparability.warnings


def test_more_workers_are_the_cause_in_a_program_that_queued_before_as_well() -> None:
    """Four ranks on two CPUs queue; with four times as many workers they wait for those, which queue."""

    def ranks(workers: int, queued: float, waited: float) -> RunSet:
        wait = Fn("<built-in method posix.waitpid>", 1, off=waited, callers={"main": 1})
        return one_side(program([*training(ratio=2.0), wait], helpers=[(1.0, queued)] * workers))

    before = ranks(4, 2.0, 1.0)
    case = compare(before, ranks(16, 3.0, 9.0))
    assert (judge(case).cause, judge(case).kind) == ("contention", "self-oversubscription")
    assert case.read("settings.queue") == pytest.approx(1.0)
    # As many of them, or more that do not queue, explain nothing.
    assert compare(before, ranks(4, 3.0, 9.0)).read("settings.queue") == 0.0
    assert judge(compare(before, ranks(16, 0.2, 9.0))).cause != "contention"


@pytest.mark.parametrize("size", [1, 4])
def test_a_functions_part_of_the_lost_time_is_that_of_one_rank(size: int) -> None:
    """The functions and the ranges have the time of all ranks, and the lost time is that of one."""

    def side(gradient: float, steps: int) -> RunSet:
        did = {"load": Did(100, 8.0), "gradient": Did(100, gradient)}
        known: dict[str, Any] = {"size": size, "wall": 8.0 + gradient, "steps": [0.05] * steps}
        return one_side(join_ranks([rank_run(rank, did, **known) for rank in range(size)]))

    case = compare(side(1.0, 10), side(3.0, 20))
    assert case.account.program_s == pytest.approx(2.0)
    assert case.read("function.of-lost") == pytest.approx(1.0)
    assert case.read("ranges.part") == pytest.approx(0.25)


@pytest.mark.parametrize("size", [1, 4])
def test_the_part_of_imports_in_which_modules_are_compiled_is_that_of_one_rank(size: int) -> None:
    def side(imported: float, compiled: float) -> Run:
        calls, file = {"_find_and_load": 9}, "<frozen importlib._bootstrap_external>"
        load = Fn("_find_and_load", 1, imported, callers={"main": 1}, file="<frozen importlib._bootstrap>")
        functions = [Fn("main", 1, 2.0), load, Fn("source_to_code", 9, compiled, callers=calls, file=file)]
        own, row = np.array([fn.run for fn in functions]), np.arange(3, dtype=np.int32)
        paths = Paths(row - np.int32(1), row, np.array([1, 1, 9]), own, 0 * own, 0 * own)
        one, ranks = program(functions), []
        for rank in range(size):
            traced = with_thread(one, tid=100 + rank, paths=paths)
            ranks += with_main(traced, pid=100 + rank, role="rank", rank=rank).processes
        return replace(one, processes=tuple(ranks))

    case = compare(side(0.5, 0.0), side(2.0, 0.5))
    assert case.account.own_imports_added_s == pytest.approx(2.0)
    assert case.read("imports.compiled") == pytest.approx(0.25)


def test_what_ranks_wait_for_beside_each_other_is_that_of_one() -> None:
    """Eight that wait for a program at the same time, or for their workers, wait no longer than one does."""

    def facts(wait: Fn, size: int) -> SideFacts:
        run = program([Fn("main", 1, 0.5), wait])
        run = with_pauses(run, (Pause(1, "child", 1.5, 50),))
        ranks = [replace(run.processes[0], pid=100 + rank, role="rank", rank=rank) for rank in range(size)]
        return side_facts(RunSet("job", (replace(run, processes=tuple(ranks)),)), [ranks], 2.0)

    waiting = Fn("<built-in method posix.waitpid>", 9, off=1.5, callers={"main": 9})
    delivering = Fn("get", 9, off=1.5, callers={"main": 9}, file=QUEUE_GET)
    for size in (1, 8):
        assert facts(waiting, size).children_awaited_s == pytest.approx(1.5)
        assert facts(delivering, size).delivery_s == pytest.approx(1.5)


@pytest.mark.parametrize(("queued", "cause"), [(9.0, "contention"), (0.2, "start-up")])
def test_a_pool_too_wide_for_the_cpus_takes_long_to_start_as_well(queued: float, cause: str) -> None:
    """With ranks and a neighbour on two CPUs all queue, and starting sixteen workers takes as long as their work."""

    def side(workers: int, launch: float) -> Run:
        forks = Fn("_launch", workers, launch, 0.85 * launch, callers={"main": workers}, file=LAUNCH)
        return program([*training(ratio=2.0), forks], helpers=[(1.0, queued)] * workers)

    found = diffed(side(4, 0.1), side(16, 3.0)).verdict
    assert found.cause == cause


def test_contention_that_was_there_before_is_not_why_more_work_takes_longer() -> None:
    """Five threads on two CPUs queue, and with twice the work somewhat more than twice as long."""

    def side(work: float, ratio: float, helpers: int) -> Run:
        each = (2.0 * work, ratio * 2.0 * work)
        return program(training(slower=work, ratio=ratio), helpers=[each] * helpers)

    before = side(1.0, 0.25, 4)
    more = compare(before, side(2.0, 0.5, 4))
    assert (more.read("contention.known"), more.read("contention.grew")) == (True, False)
    assert 0.2 < more.read("account.queue") < 0.5
    assert judge(more).cause != "contention"
    # Threads that were not there before are the cause.
    threads = compare(before, side(2.0, 0.5, 8))
    assert threads.read("contention.grew") is True
    assert judge(threads).cause == "contention"


@pytest.mark.parametrize(("factor", "tone"), [(1.1, "good"), (1.25, "unsure"), (0.78, "unsure")])
def test_single_runs_that_differ_by_a_fifth_are_not_called_alike(factor: float, tone: str) -> None:
    found = judged(run(scaled(1.0)), run(scaled(factor)))
    assert found.verdict.cause == "no-change"
    assert comparison_block(found).tone == tone
    more = [one for one in found.verdict.advice if one.kind == "more-runs"]
    assert [one.subject for one in more] == (["baseline", "candidate"] if tone == "unsure" else [])
    assert all(one.argv == ("python", "train.py") for one in more)


def test_changed_source_is_named_on_a_machine_that_drifted() -> None:
    def side(drift: float, forward: float, source: str) -> Run:
        times = {"forward": forward, "dot": forward}
        return program(training(slower=drift, times=times, changed={"forward": source}))

    # Everything is 1.3 times as slow; `forward` and what it calls natively are more than that.
    found = judged(side(1.0, 1.0, "before"), side(1.3, 3.5, "after"))
    assert (found.verdict.cause, found.verdict.subject) == ("code-change", "forward")
    # Half of the native calls are those of `backward`, which did not change.
    assert found.account.seconds("code") == pytest.approx(1.3 * 2.5 * (0.4 + 0.8 / 2), rel=0.1)
    equal = judged(side(1.0, 1.0, "same"), side(1.3, 3.5, "same"))
    assert equal.verdict.cause == "inconclusive"
    assert equal.account.seconds("code") == 0.0


# What one run says of itself: what it lacked, and silence where it lacked nothing

SAMPLES = sorted((Path(__file__).resolve().parents[2] / "sample_profiles").glob("*/*.prof"))
ROWS = [Row("m.py", 10 * i, f"f{i}", 100, 0.5) for i in range(8)]


def alone(run: float, wait: float, **more: Any) -> Run:
    """A run of 8 s, of which its main thread ran and queued so long."""
    return captured(profile(ROWS), wall=8.0, run=run, wait=wait, **more)


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


def test_who_takes_the_cpus() -> None:
    others, quota, one = alone(4.0, 4.0, busy=16.0), alone(4.0, 4.0, throttled=(30, 80)), alone(2.0, 2.0)
    # Four of them, on two CPUs.
    each = (replace(one.processes[0], pid=100 + i, rank=i, role="rank") for i in range(4))
    ranks = replace(one, processes=tuple(each))
    found = [(said(run).cause, said(run).kind) for run in (others, quota, ranks)]
    assert found == [("contention", kind) for kind in ("external-load", "cpu-quota", "self-oversubscription")]


def test_own_processes_above_the_cpus() -> None:
    verdict = said(alone(3.0, 5.0, children=[(3.0, 5.0)] * 4))
    assert (verdict.cause, verdict.kind) == ("contention", "self-oversubscription")
    assert verdict.numbers["main.wait"] == pytest.approx(5.0 / 8.0)
    assert verdict.numbers["contention.who"] == "main"
    assert [piece.kind for piece in verdict.advice] == ["limit-threads", "start-fewer", "verify"]


def test_queueing_that_nobody_caused_is_how_threads_hand_over() -> None:
    run = alone(2.0, 1.0, children=[(5.0, 2.0)])
    assert said(run) is None
    unknown = said(replace(run, machine=replace(run.machine, busy_s=None)))
    assert (unknown.cause, unknown.kind) == ("contention", None)
    assert unknown.findings[0].confidence < 0.7
    assert unknown.confidence is None


def test_what_starting_processes_takes_is_also_in_functions_that_start_them() -> None:
    forks = Fn("_launch", 16, 3.0, 0.5, callers={"main": 16}, file=LAUNCH)
    run = program([*training(), forks], startup=0.1, helpers=[(0.5, 0.0)] * 16)
    found = judge_run(run, run.processes)
    (starts,) = (finding for finding in found.verdict.findings if finding.rule == "process-starts")
    assert starts.seconds == pytest.approx(found.account.starts_s)
    assert starts.severity == pytest.approx(found.account.starts_s / found.account.candidate_s)
    assert starts.seconds > 2 * found.account.seconds("startup")


def test_workers_that_queue_while_the_main_thread_waits_for_them() -> None:
    verdict = said(alone(0.5, 0.0, children=[(3.0, 4.5)] * 5))
    assert (verdict.cause, verdict.numbers["contention.who"]) == ("contention", "helpers")
    assert verdict.evidence[0].signal == "helpers.queue"


@pytest.mark.parametrize(("seconds", "lacks"), [(0.1, False), (1.0, True)])
def test_helpers_that_queue_for_a_negligible_part_of_the_wall_lack_nothing(
    seconds: float, lacks: bool
) -> None:
    """Beside a neighbour, half of the little time for which they are active."""
    found = said(alone(0.5, 0.0, children=[(seconds, seconds)], busy=8.0))
    rules = {finding.rule for finding in found.findings} if found is not None else set()
    assert ("run-queue-wait" in rules) is lacks


def test_where_both_want_the_cpus_the_greater_is_named() -> None:
    """As a comparison with a run of the same threads would: the neighbour is what it lacks."""
    both = alone(4.0, 4.0, children=[(4.0, 10.0)], busy=16.0)
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


def test_a_process_that_is_gone_long_after_python_has_ended() -> None:
    """Unloading libraries takes 0.7 s of CPU time: the kernel counts it, and the agent does not see it."""
    run = program([Fn("main", 1, 1.0), Fn(ACQUIRE, 1, off=2.0, callers={"main": 1})])
    run = with_thread(run, run_s=1.7)
    manifest = replace(run.manifest, wall_s=run.manifest.wall_s + 0.7)
    found = judge_run(replace(run, manifest=manifest), run.processes).account
    parts = {bucket.name: pytest.approx(bucket.seconds) for bucket in found.buckets if bucket.seconds}
    assert parts == {"startup": 0.2 + 0.7, "running": 1.0, "blocked": 2.0}


SLEEP = "<built-in method time.sleep>"


def test_what_workers_wait_for_is_said_where_the_main_thread_waits_for_them() -> None:
    """They hold a lock while they sleep: one sleeps, the other waits for the lock."""
    waitpid, flock = "<built-in method posix.waitpid>", "<built-in method fcntl.flock>"

    def side(slept: float) -> Run:
        half = {"off": slept / 2, "callers": {"task": 9}}
        worker = [Fn("task", 1, 0.4), Fn(SLEEP, 9, **half), Fn(flock, 9, **half)]
        main = [Fn("main", 1, 0.1), Fn(waitpid, 1, off=0.5 + slept, callers={"main": 1})]
        waited = (Pause(1, "sleep", slept / 2, 9), Pause(2, "lock", slept / 2, 9))
        run = program(main, workers=[worker] * 2)
        return with_pauses(run, (Pause(1, "child", 0.5 + slept, 9),), waited, waited)

    found = diffed(side(0.0), side(4.0))
    assert (found.verdict.cause, found.verdict.numbers["blocked.on"]) == ("blocked", "lock")
    meanwhile = evidence(found, "helpers.blocked-on")
    assert meanwhile.subject == "time.sleep"
    assert (meanwhile.baseline, meanwhile.candidate) == (0.0, pytest.approx(4.0))
    assert "helpers.blocked-on" in [one.signal for one in said(side(4.0)).evidence]


@pytest.mark.parametrize(
    ("slept", "decoded", "computed", "starved"),
    [(4.0, 0.0, 0.0, True), (3.0, 1.0, 1.0, True), (1.0, 4.0, 0.0, False)],
    ids=["sleeps", "computes too", "computes"],
)
def test_what_a_late_loader_waits_for(slept: float, decoded: float, computed: float, starved: bool) -> None:
    def side(times: float) -> Run:
        ran, off = 0.4 + times * decoded, times * slept
        loader = [Fn("task", 1, ran), Fn(SLEEP, 9, off=off, callers={"task": 9})]
        get = Fn("get", 9, 0.01, callers={"main": 9}, file=QUEUE_GET)
        wait = Fn(ACQUIRE, 9, off=0.1 + ran + off, callers={"get": 9})
        run = program([Fn("main", 1, 0.1 + times * computed), get, wait], workers=[loader])
        return with_pauses(run, (Pause(2, "lock", wait.off, 9),), (Pause(1, "sleep", off, 9),))

    found = diffed(side(0.0), side(1.0))
    assert ((found.verdict.cause, found.verdict.rule) == ("data-starvation", "loading")) is starved
    if starved:
        assert evidence(found, "helpers.blocked-on").subject == "time.sleep"


def test_a_process_that_was_stopped() -> None:
    run = program([Fn("main", 1, 6.0, 0.0, 4.0)])
    assert said(run) is None
    found = said(with_pauses(run, (Pause(0, "stopped", 3.5, 9),)))
    assert (found.cause, found.rule) == ("blocked", "stopped")
    assert found.numbers["account.stopped"] == pytest.approx(0.35, rel=0.05)
    assert found.advice[0].numbers["what"] == "stopped"


def takers(verdict: Verdict) -> set[str | None]:
    """What a verdict says takes the CPUs."""
    kinds = {"contention.itself": "self-oversubscription"}
    kinds |= dict.fromkeys(("contention.others", "contention.beside"), "external-load")
    return {verdict.kind} | {kind for name, kind in kinds.items() if verdict.numbers.get(name)}


def test_a_run_alone_and_its_comparison_name_the_same_takers_of_the_cpus() -> None:
    """A baseline that lacked CPUs as well is no difference, and some other cause may be greater."""
    sides = [(file.parent, load_side(str(file))) for file in SAMPLES]
    pairs = [(one, other) for (a, one), (b, other) in permutations(sides, 2) if a == b]
    compared = [(diff(*pair).verdict, said(run)) for pair in pairs for run in pair[1].runs]
    lacked = [both for both in compared if both[1] and both[0].cause == both[1].cause == "contention"]
    assert lacked
    for one, other in lacked:
        assert {one.kind, other.kind} - {None} <= takers(one) & takers(other)


def pool_of(threads: int, *, each: float = 0.0, size: int = 0, cpus: int = 2, variable: str = "") -> Run:
    """The base, whose work the threads of a pool divide among them, or take so many seconds for `each`.

    `size` is that of the pool, where not all of its threads have work.
    """
    each = each or BUSY / threads
    busy = threads * each
    environment = {"OMP_NUM_THREADS": variable} if variable else {}
    made = run(scaled(each / BUSY), cpus=cpus, busy=busy, environment=environment)
    team = (Thread(Profile.empty(), tid=200 + i, run_s=each) for i in range(threads - 1))
    named = f"OMP_NUM_THREADS={threads}" if variable else ""
    pool = Pool("libgomp", threads=size or threads, variable=named)
    return with_main(made, threads=(*made.processes[0].threads, *team), pools=(pool,), cpu_s=busy)


def test_a_pool_with_fewer_threads_leaves_cpus_idle() -> None:
    found = judged(pool_of(2), pool_of(1, variable="1"))
    verdict = found.verdict
    assert (verdict.cause, verdict.rule) == ("thread-settings", "fewer-threads")
    assert "1 thread at work instead of 2" in comparison_block(found).summary
    assert [e.reading for e in verdict.evidence if e.signal == "pools.threads"] == ["pool"]
    assert advice(found, "same-settings").argv[:3] == ("env", "-u", "OMP_NUM_THREADS")
    assert "It may use 0.50× as many CPUs" in comparison_block(judged(pool_of(2), pool_of(1, cpus=1))).summary
    assert judged(pool_of(1), pool_of(2)).verdict.cause == "faster"
    # As many threads as before, which all take twice as long: not their number.
    assert judged(pool_of(2), pool_of(2, each=BUSY)).verdict.cause != "thread-settings"


def test_a_wider_pool_that_takes_longer_has_too_many_threads() -> None:
    """Each of eight threads takes 0.7 of the work, instead of a half."""
    narrow = pool_of(2, cpus=16)
    found = judged(narrow, pool_of(8, each=0.7 * BUSY, cpus=16))
    assert (found.verdict.cause, found.verdict.rule) == ("thread-settings", "more-threads")
    assert "8 threads at work instead of 2" in comparison_block(found).summary
    assert advice(found, "limit-threads").env == {"OMP_NUM_THREADS": "2"}
    # A pool of the same width: more of its threads work, as with more data.
    same = pool_of(8, each=0.7 * BUSY, size=2, cpus=16)
    assert judged(narrow, same).verdict.rule != "more-threads"


def test_fewer_workers_leave_cpus_idle() -> None:
    def pool(size: int, cost: float = 4.0) -> Run:
        jobs = [[Fn("job", 120 // size, cost / size)]] * size
        return program([Fn("main", 1, 0.1), Fn(ACQUIRE, 1, 0.0, 0.0, cost / size, {"main": 1})], workers=jobs)

    two, one = pool(2), pool(1)
    found = judged(two, one)
    assert (found.verdict.cause, found.verdict.rule) == ("thread-settings", "fewer-workers")
    assert "2 processes at once instead of 3" in comparison_block(found).summary
    assert {a.kind for a in found.verdict.advice} >= {"more-workers"}
    # Its jobs also take longer.
    assert judged(two, pool(1, 4.8)).verdict.rule != "fewer-workers"


def loading(workers: int, off: float) -> Run:
    """A loop that waits for its loaders, which sleep for their storage."""
    get = Fn("get", 9, 0.01, callers={"main": 9}, file=QUEUE_GET)
    wait = Fn(ACQUIRE, 9, off=off, callers={"get": 9})
    tasks = {"task": 12 // workers}
    slept = Fn(SLEEP, 12 // workers, off=off - 0.4 / workers, callers=tasks)
    loader = [Fn("task", 12 // workers, 0.4 / workers), slept]
    return program([Fn("main", 1, 0.1), get, wait], workers=[loader] * workers)


def test_a_loop_that_waits_for_fewer_loaders() -> None:
    found = diffed(loading(4, 1.0), loading(1, 3.8))
    assert (found.verdict.cause, found.verdict.rule) == ("thread-settings", "fewer-workers")
    assert "2 processes at once instead of 5" in comparison_block(found).summary
    # Three of four cannot take four times as long for being fewer.
    assert diffed(loading(4, 1.0), loading(3, 4.0)).verdict.rule == "loading"
    assert diffed(loading(4, 1.0), loading(4, 4.0)).verdict.rule == "loading"


def test_a_few_looks_at_the_interpreters_lock_are_no_cause() -> None:
    """On a busy machine one look may stand for a tenth of a second."""

    def side(waited: float, looks: int) -> Run:
        functions = [Fn("main", 1, 1.0), Fn("spin", 1, 0.5, callers={"main": 1})]
        run = program([*functions, Fn(ACQUIRE, 1, off=0.1 + waited, callers={"main": 1})])
        return with_pauses(run, (Pause(2, "gil", waited, looks), Pause(1, "gil-held", waited, looks)))

    for looks, enough in ((10, True), (9, False)):
        run = side(2.0, looks)
        alone = judge_run(run, run.processes).verdict
        assert (diffed(side(0.0, 0), run).verdict.rule == "gil") is enough
        assert (alone is not None and alone.rule == "gil") is enough


@pytest.mark.parametrize(("what", "rule"), [("disk", "reading"), ("file", "reading"), ("write", "off-cpu")])
def test_files_that_are_written_are_not_read(what: Any, rule: str) -> None:
    def side(off: float) -> Run:
        run = program([Fn("main", 1, 1.0), Fn("store", 100, 0.2, off=0.1 + off, callers={"main": 100})])
        # Most waits are too short to be seen; those that are seen are all of one kind.
        return with_pauses(run, (Pause(1, what, 0.3 * (0.1 + off), 50),))

    found = diffed(side(0.0), side(3.0)).verdict
    assert (found.cause, found.rule) == ("blocked", rule)
    assert found.numbers.get("blocked.on", what) == what


def taking_turns(locked: float, taker: str = "work", file: str = PROJECT_FILE) -> Run:
    """Four workers, each of which computes for 0.3 s, and waits so long for a lock."""
    worker = [
        Fn("work", 100, 0.3),
        Fn(taker, 100, callers={"work": 100}, file=file),
        Fn(ACQUIRE, 100, off=locked, callers={taker: 100}),
    ]
    if taker == "work":
        del worker[1]
    wait = Fn(ACQUIRE, 1, off=0.6 + locked, callers={"main": 1})
    run = program([Fn("main", 1, 0.1), wait], workers=[worker] * 4)
    seen = Pause(len(worker) - 1, "lock", locked, 50)
    return with_pauses(run, (Pause(1, "lock", wait.off, 50),), *[(seen,)] * 4)


@pytest.mark.parametrize("taker", ["work", "__enter__"])
def test_workers_that_wait_for_a_lock_of_the_program(taker: str) -> None:
    file = PROJECT_FILE if taker == "work" else "/usr/lib/python3.11/multiprocessing/synchronize.py"
    found = diffed(taking_turns(0.0, taker, file), taking_turns(1.4, taker, file))
    verdict, seconds = found.verdict, found.account.seconds
    assert (verdict.cause, verdict.rule, verdict.subject) == ("blocked", "own-locks", "work")
    assert "waited 1.40 s for it on average, against 0 s" in comparison_block(found).summary
    assert seconds("blocked") > 0.9 * found.account.added_s > abs(seconds("speed"))
    assert advice(found, "await").numbers["what"] == "lock"
    alone = said(taking_turns(1.4, taker, file))
    assert (alone.rule, alone.subject) == ("own-locks", "work")


def test_one_that_only_waits_for_a_lock_does_not_take_turns() -> None:
    def running(locked: float) -> float:
        idle = [Fn("watch", 1, 0.001), Fn(ACQUIRE, 1, off=locked, callers={"watch": 1})]
        waits = [Fn("main", 1, 0.1), Fn(ACQUIRE, 1, off=3.0, callers={"main": 1})]
        run = program(waits, workers=[[Fn("work", 100, 3.0)], idle])
        run = with_pauses(run, (Pause(1, "lock", 3.0, 50),), (), (Pause(1, "lock", locked, 50),))
        return judge_run(run, run.processes).account.seconds("running")

    assert running(3.0) == pytest.approx(running(0.0), rel=0.01)


def test_workers_that_wait_for_a_queue_do_not_wait_for_each_other() -> None:
    queue = "/usr/lib/python3.11/multiprocessing/queues.py"
    before, after = (taking_turns(locked, "get", queue) for locked in (0.0, 1.4))
    assert diffed(before, after).verdict.rule != "own-locks"
    alone = said(after)
    assert alone is None or alone.rule != "own-locks"


@pytest.mark.parametrize(
    ("waits", "what", "seen"),
    [
        ("<built-in method posix.waitpid>", "child", True),
        ("<built-in method posix.read>", "pipe", True),
        ("<method 'poll' of 'select.poll' objects>", "pipe", False),
    ],
)
def test_programs_that_it_starts_take_longer(waits: str, what: Any, seen: bool) -> None:
    """A process that lives too briefly is not seen, but its CPU time is known."""

    def side(computed: float) -> Run:
        run = program([Fn("main", 1, 0.5), Fn(waits, 9, off=computed, callers={"main": 9})])
        run = with_pauses(run, (Pause(1, what, computed, 50),))
        main = replace(run.processes[0], parent=1)
        child = replace(main, pid=7, role="child", threads=(), profiled=False, run_queue_wait_s=0.0)
        child = replace(
            child, cpu_s=computed if seen else 0.0, command=("/usr/bin/xz", "-6"), parent=main.pid
        )
        machine = replace(run.machine, tree_cpu_s=0.5 + computed)
        shell = replace(child, pid=1, cpu_s=0.0, command=("bash", "train.sh"))
        return replace(run, processes=(shell, main, child), machine=machine)

    found = diffed(side(0.2), side(3.0))
    verdict, headline = found.verdict, comparison_block(found).headline
    assert (verdict.cause, verdict.rule, verdict.subject) == ("blocked", "child-programs", "xz")
    assert headline == "4.11× slower, 900 ms → 3.70 s: programs that it starts take longer: xz"
    assert found.account.seconds("blocked") == pytest.approx(2.8)
    children = evidence(found, "children")
    assert (children.baseline, children.candidate) == pytest.approx((0.2, 3.0))
    alone = said(side(3.0))
    assert (alone.rule, alone.subject) == ("child-programs", "xz")


@pytest.mark.parametrize(
    ("before", "after", "rest", "rule"),
    [
        ((6, 0.2), (12, 0.2), 0.0, "more-programs"),
        # None that the baseline starts.
        ((0, 0.2), (12, 0.2), 0.0, "more-programs"),
        ((6, 0.2), (7, 0.4), 0.0, "child-programs"),
        # More of them, each of which has less to do.
        ((6, 0.2), (18, 0.1), 0.0, "child-programs"),
        # How many there are is not known where the sampler missed much of their time.
        ((6, 0.2), (12, 0.2), 1.6, "child-programs"),
    ],
)
def test_a_program_that_starts_more_programs(
    before: tuple[int, float], after: tuple[int, float], rest: float, rule: str
) -> None:
    def side(number: int, each: float) -> Run:
        computed = number * each + rest
        run = program([Fn("main", 1, 0.5), Fn("<built-in method posix.waitpid>", 9, off=computed)])
        run = with_pauses(run, (Pause(1, "child", computed, 50),))
        main = run.processes[0]
        child = replace(main, role="child", threads=(), profiled=False, cpu_s=each, run_queue_wait_s=0.0)
        child = replace(child, command=("/usr/bin/sort", "-R"), parent=main.pid)
        machine = replace(run.machine, tree_cpu_s=main.cpu_s + computed)
        children = (replace(child, pid=1000 + i) for i in range(number))
        return replace(run, processes=(main, *children), machine=machine)

    found = diffed(side(*before), side(*after))
    assert (found.verdict.rule, found.verdict.subject) == (rule, "sort")
    if rule == "more-programs":
        block = comparison_block(found)
        assert block.headline.endswith(": it starts more programs: sort")
        against = f"against {before[0]}, and each" if before[0] else "and none in the baseline"
        assert f"starts 12 processes, most of which run sort, {against}" in block.summary


@pytest.mark.parametrize(
    ("factors", "rule"),
    [
        # One function does 30 times as much.
        ((1.0,) * 9 + (30.0,), "more-per-call"),
        # All take longer, as those do that share a core or caches.
        ((3.0,), "run-queue-wait"),
    ],
)
def test_more_work_beside_others_that_are_busy_now(factors: tuple[float, ...], rule: str) -> None:
    prof = scaled(*factors)
    wait = 0.35 * prof.total
    shares = np.full(len(prof), 0.35) * prof.tottime
    prof = replace(prof, wait=shares, blocked=np.zeros(len(prof)))
    slow = timed(captured(prof, wall=prof.total, run=prof.total - wait, wait=wait, busy=1.9 * prof.total))
    found = diffed(timed(CLEAN), slow)
    assert found.verdict.rule == rule
    assert (found.account.seconds("speed") > found.account.seconds("queue")) == (rule == "more-per-call")


def test_threads_that_start_programs_wait_for_them() -> None:
    """The main thread waits for its two threads, and these for what they started."""

    def side(computed: float) -> Run:
        run = program([Fn("main", 1, 0.5), Fn("wait", 9, off=computed, callers={"main": 9})])
        main = replace(with_pauses(run, (Pause(1, "lock", computed, 50),)).processes[0], parent=1)
        read = profile([Row("/usr/lib/python3.11/subprocess.py", 1165, "communicate", 9, computed)])
        strings, module = (*read.strings, "subprocess"), np.array([len(read.strings)], np.int32)
        off = {"wait": np.zeros(1), "blocked": np.array([computed])}
        read = replace(read, strings=strings, module=module, **off)
        seen = (Pause(0, "pipe", computed, 50),)
        threads = [Thread(read, 9, name, 0.01, 0.0, pauses=seen) for name in ("a", "b")]
        main = replace(main, threads=(*main.threads, *threads))
        child = replace(main, pid=7, role="child", threads=(), profiled=False, cpu_s=2 * computed)
        child = replace(child, command=("grep", "-E"), parent=main.pid, run_queue_wait_s=0.0)
        return replace(run, processes=(main, child))

    found = diffed(side(0.2), side(3.0)).verdict
    assert (found.rule, found.subject) == ("child-programs", "grep")


def test_a_loop_that_waits_for_fewer_threads() -> None:
    """Threads that download: each of them waits most of the time."""

    futures = "/usr/lib/python3.11/concurrent/futures/"

    def side(number: int, off: float, *more: Fn) -> Run:
        get = Fn("result", 9, 0.01, callers={"main": 9}, file=f"{futures}_base.py")
        run = program([Fn("main", 1, 0.1), get, Fn(ACQUIRE, 9, off=off, callers={"result": 9})])
        each = program([Fn("fetch", 32 // number, 0.1 / number), Fn(SLEEP, 32 // number, off=off), *more])
        fetching = replace(each.processes[0].threads[0], tid=None)
        threads = (*run.processes[0].threads, *[fetching] * number)
        return with_main(run, threads=threads, cpu_s=0.21)

    found = diffed(side(32, 0.2), side(4, 1.4))
    assert (found.verdict.cause, found.verdict.rule) == ("thread-settings", "fewer-python-threads")
    assert "5 threads of Python instead of 33" in comparison_block(found).summary
    assert {a.kind for a in found.verdict.advice} >= {"more-threads"}
    assert diffed(side(32, 0.2), side(32, 1.4)).verdict.rule == "loading"
    # Half of them do not make it seven times as long, and one of three may be a progress bar's.
    assert diffed(side(32, 0.2), side(16, 1.4)).verdict.rule == "loading"
    assert diffed(side(2, 0.2), side(1, 0.5)).verdict.rule == "loading"
    pool = Fn("_worker", 1, 0.001, file=f"{futures}thread.py")
    assert diffed(side(2, 0.5, pool), side(1, 1.0, pool)).verdict.rule == "fewer-python-threads"
