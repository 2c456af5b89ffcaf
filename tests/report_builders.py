"""Fixed results to render: comparisons of every kind, hostile ones, and runs to show.

Values stand here as a reader of the golden files needs them, or follow from runs that are made by construction;
nothing is measured or drawn by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from profkit.compare.result_types import Comparability, DiffTable, Ranking, Residue, SideSummary, SideTable
from profkit.compare.setting_differences import Setting
from profkit.model import (
    Effect,
    FunctionKey,
    Git,
    Host,
    Machine,
    Manifest,
    Notice,
    OpenCall,
    Process,
    Profile,
    Roots,
    Run,
    RunSet,
    Thread,
    Tier,
)
from profkit.verdict.account import BUCKETS, RUN_BUCKETS, Account, Bucket, Part
from profkit.verdict.alone import judge_run
from profkit.verdict.types import Advice, Diff, Evidence, Finding, RunVerdict, Verdict
from tests import builders
from tests.programs import Fn, diffed, one_side, plain, program, training

#: Names that try to break out of every output: escape sequences, markup of rich, Markdown and HTML, line
#: breaks, bidirectional controls, undecodable bytes, wide characters, mentions.
HOSTILE = (
    *("\x1b[31mred\x1b[0m", "[bold]rich[/bold]", "a|b`c`<img src=x onerror=alert(1)>"),
    *("two\nlines\r\x00and\x85more\u2028here", "\u202eevil\u202c", "caf\udce9"),
    *("@everyone #1 *x* _y_ ~~z~~ [l](http://e.org) https://e.org", "</code></details><script>"),
    "函数" * 60,
    "x" * 5000,
    "$a^2$ \\| {{x}} &lt; :smile: www.e.org",
)


#: Notices of codes that are known and not known, with such names in all that is text.
NOTICES = tuple(
    Notice(code, name, {"problem": name, "file": name, "names": (name,)})
    for name in HOSTILE
    for code in ("record-unreadable", "from-later")
)


@dataclass(frozen=True)
class Row:
    """One function of a comparison: seconds and calls of either side, ``None`` where a side has none."""

    name: str
    path: str
    root: str = "project"
    line: int = 10
    before: tuple[float, int] | None = None
    after: tuple[float, int] | None = None
    match: str = "exact"
    moved: bool = False
    same_source: bool | None = None


ROWS = (
    Row("solve", "numpy/linalg/_linalg.py", "site", 335, (0.0101, 40), (2.9391, 40), "rooted", True, True),
    Row(
        "TransformerBlock.forward", "model/blocks.py", "project", 88, (1.2, 400), (2.41, 400), "nearest-line"
    ),
    Row(
        "augment_batch_with_random_affine_transformations_and_colour_jitter",
        *("data/pipeline/augmentations/geometric.py", "project", 141),
        (0.8, 1600),
        (1.93, 3200),
        *("same-source", True, True),
    ),
    Row("<method 'acquire' of '_thread.lock' objects>", "", "builtin", 0, (0.5, 75), (0.2, 71)),
    Row("read_shard", "data/shards.py", "project", 52, (0.31, 25_000_000), (0.32, 25_000_000)),
    Row("tiny", "util.py", "project", 3, (3e-6, 10), (9e-6, 10)),
    Row("_pin", "data/pin.py", "project", 12, None, (0.4, 12), "new"),
    Row("<listcomp>", "data/shards.py", "project", 60, (0.2, 4000), None, "gone"),
)


def table(rows: Sequence[Row]) -> DiffTable:
    """Build the columns of `rows`, ordered as the analysis orders them: by the change in seconds."""
    n = len(rows)

    def change(row: Row) -> float:
        return abs((row.after or (0.0, 0))[0] - (row.before or (0.0, 0))[0])

    rows = sorted(rows, key=change, reverse=True)
    before, after = _side([r.before for r in rows]), _side([r.after for r in rows])
    ratio = np.full(n, math.nan)
    for i, row in enumerate(rows):
        if row.before and row.after:
            ratio[i] = (row.after[0] / row.after[1]) / (row.before[0] / row.before[1])
    return DiffTable(
        keys=tuple(FunctionKey(r.root, r.path, r.name) for r in rows),
        name=tuple(r.name for r in rows),
        file=tuple(f"/home/ann/job/{r.path}" if r.path else "~" for r in rows),
        line=tuple(r.line for r in rows),
        match=tuple(r.match for r in rows),
        baseline=before,
        candidate=after,
        per_call_ratio=ratio,
        same_source=tuple(r.same_source for r in rows),
        added_lines=np.zeros(n, np.int64),
        anomalous=np.array([r.moved for r in rows], dtype=bool),
        p_value=np.full(n, math.nan),
    )


def _side(cells: Sequence[tuple[float, int] | None]) -> SideTable:
    present = np.array([cell is not None for cell in cells], dtype=bool)
    tottime = np.array([cell[0] if cell else 0.0 for cell in cells], dtype=np.float64)
    calls = np.array([cell[1] if cell else 0 for cell in cells], dtype=np.int64)
    rank = np.zeros(len(cells), np.int64)
    order = [int(i) for i in np.argsort(-tottime, kind="stable") if present[i]]
    rank[order] = np.arange(1, len(order) + 1)
    total = float(tottime.sum()) or 1.0
    return SideTable(present, rank, calls, calls, tottime, tottime * 1.5, tottime, tottime / total)


def side(label: str, wall: float, total: float, wait: float) -> SideSummary:
    """Build the head of a side of one run."""
    return SideSummary(label, 1, (f"{label}/0.prof",), wall, total * 0.9, total, wait, "node17", "3.11.7", 3)


def account(before: float, after: float, **seconds: float) -> Account:
    """Build an account; what its buckets do not hold of the difference is in the rest."""
    added = after - before
    seconds = {"rest": added - sum(seconds.values()), **seconds}
    noise = 0.02 * before

    def bucket(name: str) -> Bucket:
        s = seconds.get(name, 0.0)
        divided = s and name in ("work", "code", "speed", "blocked")
        parts = (Part(0, "solve", 0.8 * s), Part(1, "encode", 0.2 * s)) if divided else ()
        return Bucket(name, s, s - noise, s + noise, s / added if added else math.nan, parts)

    return Account(before, after, tuple(map(bucket, BUCKETS)), basis="other-programs")


QUEUE = Evidence("main.queue", "s", 0.012, 5.31, reading="no-cpu-free", whole=(3.03, 8.67))
OTHERS = Evidence("others", "cores", 0.02, 1.75, 0.25, "other-programs")
SOLVE_QUEUED = Evidence(
    *("function.queue", "s", 0.0, 2.61),
    reading="of-all-queueing",
    subject="solve",
    whole=(0.0101, 2.9391),
    numbers={"share": 0.49},
)
TRAIN_COMMAND = ("python", "train.py", "--batch-size", "64", "--epochs", "3")


def contended() -> Diff:
    """Build a run starved by its neighbours: the full report."""
    numbers = {
        "contention.who": "main",
        "contention.itself": False,
        "contention.others": True,
        "main.wait": 0.612,
        "main.wait-before": 0.004,
    }
    evidence = (QUEUE, OTHERS, SOLVE_QUEUED)
    advice = (
        Advice("list-processes", ("ps", "-eo", "pid,user,psr,pcpu,etime,comm", "--sort=-pcpu")),
        Advice("capture-idle", TRAIN_COMMAND, cures="queue", predicted_gain_s=5.1),
    )
    starved = Finding(
        *("run-queue-wait", "contention", 0.97),
        5.1 / 6.72,
        *("queue", 5.1, evidence, advice, "external-load"),
        calibrated=True,
        numbers=numbers,
    )
    more = Finding(
        *("call-counts", "workload-change", 0.4, 0.12, "work", 0.81),
        subject="augment_batch_with_random_affine_transformations_and_colour_jitter",
        numbers={"calls.factor": 1.12},
    )
    return Diff(
        baseline=side("clean.prof", 3.21, 3.02, 0.012),
        candidate=side("slow.prof", 9.93, 8.2, 5.31),
        comparability=Comparability(
            0.82, (Notice("python-differs", "", {"baseline": "3.11.7", "candidate": "3.12.1"}),)
        ),
        verdict=Verdict(
            *("contention", "run-queue-wait", 0.97, "external-load"),
            evidence=evidence,
            advice=advice,
            numbers=numbers,
            findings=(starved, more),
        ),
        account=account(3.21, 9.93, work=0.81, speed=0.6, queue=5.1, startup=0.02),
        ranking=Ranking("tottime", 0.41, 0.36, True, 0.15),
        table=table(ROWS),
        residue=Residue(31, 12, 0.067, 0.049),
        warnings=(Notice("trailing-bytes", "", {"bytes": 8}).at(file="slow.prof"),),
    )


@cache
def quiet() -> Diff:
    """Compare plain profiles of one program, three runs a side, without any difference that matters."""

    def side(label: str, factor: float) -> RunSet:
        runs = []
        for scatter in (0.98, 1.0, 1.02):
            functions = [Fn(f"step_{i}", 10, scatter * factor / i, file="train.py") for i in range(1, 30)]
            runs.append(plain(functions))
        return one_side(*runs, label=label)

    return diffed(side("a.prof", 1.0), side("b.prof", 1.01))


def _changed(source: str, times: float, numpy: str, git: Git, **known: Any) -> RunSet:
    """Build five runs of a program of which one function has this source, and takes so many times as long."""
    runs = []
    for number, factor in enumerate((1.0, 1.01, 0.99, 1.02, 0.98)):
        functions = training(slower=factor, times={"sharpen": times}, changed={"sharpen": source})
        command = ("python", "train.py", "a b")
        run = program(functions, command=command, path=f"{source}/{number}.prof", **known)
        runs.append(replace(run, manifest=replace(run.manifest, packages={"numpy": numpy}, git=git)))
    return one_side(*runs, label=source)


@cache
def code_change() -> Diff:
    """Compare a program with one of which a function got slower with its source, on another machine."""
    before, after = (
        Git(revision="0123456789abcdef", dirty=False),
        Git(revision="fedcba9876543210", dirty=True),
    )
    variables = {"OMP_NUM_THREADS": "4", "SLURM_PROCID": "0"}
    return diffed(
        _changed("before", 1.0, "1.26.4", before),
        _changed("after", 4.0, "2.1.0", after, host="node18", environment=variables),
    )


@cache
def undecided() -> Diff:
    """Compare two plain profiles that cannot tell why one is slower."""
    found = diffed(plain(training()), plain(training(slower=2.1)))
    others = (
        Finding("one-factor", "slower-machine", 0.45, bucket="speed", numbers={"per-call": 2.1}),
        Finding("starved", "contention", 0.4, bucket="speed"),
    )
    return replace(found, verdict=replace(found.verdict, findings=others))


@cache
def unfinished() -> Diff:
    """Compare with a run that a signal ended."""
    return diffed(program(training()), program(training(60), exit_status=137))


@cache
def several_causes() -> Diff:
    """Compare with a run in which contention and a code change come together, with ranges of NVTX."""

    def inside(run: Run, took_ms: int, *more: builders.Told) -> Run:
        forward = [
            builders.Told("forward", at, at + took_ms * 10**6, thread=100)
            for at in range(0, 10 * 10**9, 10**8)
        ]
        return builders.with_main(run, ranges=builders.ranges([*forward, *more]))

    slower = training(ratio=0.8, times={"sharpen": 5.0}, changed={"sharpen": "slower"})
    load = builders.Told("load batch", 0, 2 * 10**9, thread=100, domain="data")
    return diffed(inside(program(training()), 20), inside(program(slower, others=1.9), 80, load))


@cache
def unmatched() -> Diff:
    """Compare two programs that have hardly a function in common."""
    new = [Fn(f"new_{i}", 10, 2.0 / i, callers={"main": 10}) for i in range(1, 5)]
    return diffed(plain(training()), plain([Fn("main", 1, 0.03), *new]))


#: What a run without counters says of itself.
UNJUDGED = RunVerdict(Account(0.0, 0.0, ()), None)


@cache
def alone() -> RunVerdict:
    """Build what one run says of itself: starved by other programs."""
    run = program(training(ratio=1.2), others=1.6)
    return judge_run(run, run.processes)


def hostile_verdict() -> Verdict:
    """Put hostile strings into every text that a verdict takes from profiles, commands and environments."""
    evidence: list[Evidence] = []
    advice: list[Advice] = []
    for name in HOSTILE:
        called = {"caller": name, "calls": 7}
        asked = {"threads": 4, "processes": 1, "origin": name, "variable": name}
        evidence += (
            Evidence("command", "text", name, name, reading="differs"),
            Evidence("variable", "text", name, None, reading="other-instructions", subject=name),
            Evidence("origin", "count", 1.0, 4.0, reading="per-call-of", subject=name, numbers=called),
            Evidence("pools.asked", "cores", 1.0, 4.0, 2.0, "pool", name, numbers=asked),
        )
        limits = {"OMP_NUM_THREADS": name}
        advice += (
            Advice("limit-threads", (name, name), limits, cures="queue", predicted_gain_s=1.0),
            Advice("git-log", ("git", "log", "-p", "--", name), subject=name),
            Advice("edit-code", subject=name),
            Advice("show-waiting", ("profkit", "show"), files=(name,)),
        )
    findings = tuple(
        Finding("one-function", "code-change", 0.5, subject=name, numbers={"function.part": 0.7})
        for name in HOSTILE
    )
    return Verdict(
        *("code-change", "changed-source", None),
        subject=HOSTILE[3],
        evidence=tuple(evidence),
        advice=tuple(advice),
        numbers={"account.code": 0.5},
        findings=findings,
    )


def hostile_alone() -> RunVerdict:
    """Build what one run of hostile names says of itself."""
    buckets = tuple(
        Bucket(name, 1.0, share=1 / 6, parts=tuple(Part(i, n, 0.3) for i, n in enumerate(HOSTILE)))
        for name in RUN_BUCKETS
    )
    return RunVerdict(Account(0.0, 6.0, buckets), hostile_verdict())


def hostile() -> Diff:
    """Put hostile strings everywhere a profile's or a user's text can reach."""
    rows = [
        Row(name, name, before=(1.0 + i, 5), after=(5.0 + 2 * i, 5), moved=True, match="nearest-line")
        for i, name in enumerate(HOSTILE)
    ]
    rows += [Row(name, name, after=(1.0, 5), match="new") for name in HOSTILE]
    rows += [Row(name, name, before=(1.0, 5), match="gone") for name in HOSTILE]
    bad = SideSummary(HOSTILE[0], 1, HOSTILE, 1.0, None, 1.0, None, HOSTILE[3], HOSTILE[1], 1, NOTICES)
    booked = account(1.0, 2.0, code=0.9, queue=0.05)
    parts = tuple(Part(i, name, 0.9) for i, name in enumerate(HOSTILE))
    return Diff(
        baseline=bad,
        candidate=bad,
        comparability=Comparability(0.1, NOTICES),
        verdict=hostile_verdict(),
        account=replace(booked, buckets=tuple(replace(b, parts=parts) for b in booked.buckets)),
        ranking=Ranking("tottime", math.nan, math.nan, False, math.nan),
        table=table(rows),
        residue=Residue(len(HOSTILE), len(HOSTILE), 0.1, math.nan),
        warnings=NOTICES,
        settings=tuple(Setting("variable", name, name, name) for name in HOSTILE),
    )


def profile(
    rows: Sequence[tuple[str, str, int, int, float, float]],
    *,
    traced: bool = False,
    edges: Sequence[tuple[int, int, int, float]] | None = None,
) -> Profile:
    """Build a profile from rows of file, qualified name, line, calls, self time and cumulative time."""
    made = [builders.Row(file, line, name, *rest) for file, name, line, *rest in rows]
    built = builders.profile(made, edges)
    own, whole = built.tottime, built.cumtime
    waits = {"wait": own / 2, "blocked": own / 10, "cumwait": whole / 2, "cumblocked": whole / 10}
    primitive = built.ncalls - built.ncalls // 10
    return replace(built, primitive_calls=primitive, **(waits if traced else {})).validate()


TRAIN = (
    ("/home/ann/job/train.py", "train_one_epoch", 40, 3, 0.2, 9.0),
    ("/home/ann/job/model/blocks.py", "TransformerBlock.forward", 88, 400, 2.41, 6.2),
    ("/usr/lib/python3.11/site-packages/numpy/linalg/_linalg.py", "solve", 335, 40, 2.9391, 2.95),
    ("/usr/lib/python3.11/json/decoder.py", "JSONDecoder.decode", 332, 12000, 0.31, 0.4),
    ("~", "<method 'acquire' of '_thread.lock' objects>", 0, 75, 0.2, 0.2),
)


def foreign_run() -> Run:
    """Build what a plain ``.prof`` says: one process, one thread, nothing else known."""
    return Run("train.prof", (Process(threads=(Thread(profile(TRAIN)),)),))


def sampled_run() -> Run:
    """Build a capture that was exact at first and sampled then: exact, estimated and unknown calls."""
    run = captured_run()
    columns: dict[str, Any] = {
        "calls_low": np.array([3.0, 371.0, 40.0, 11_400.0, np.nan]),
        "calls_high": np.array([3.0, 431.0, 40.0, 12_600.0, np.nan]),
        "samples": np.array([12, 180, 231, 25, 0]),
        "tottime_error": np.array([0.11, 0.3, 0.32, 0.12, 0.0]),
    }
    known = profile((*TRAIN[:4], (*TRAIN[4][:3], 0, *TRAIN[4][4:])), traced=True)
    main = run.processes[0]
    threads = (replace(main.threads[0], profile=replace(known, **columns).validate()), main.threads[1])
    tiers = Tier("exact", 0.0), Tier("sampled", 0.031)
    run = replace(run, processes=(main,), warnings=())
    return builders.with_main(run, threads=threads, tiers=tiers, effect=Effect(0.9, 0.7, 1.2))


def captured_run() -> Run:
    """Build a capture of two ranks, one of them contended and killed, with threads and open calls."""
    host = Host("node17", "Linux", "AMD EPYC 7763 64-Core Processor", 64, 4, 2.0)
    command = ("python", "train.py", "--note", "two words")
    head = "profkit.run/1", "0.1.0", ("mpirun", "-n", "2", *command), "/home/ann/job", 137
    variables, packages = {"OMP_NUM_THREADS": "8"}, {"numpy": "2.1.0"}
    manifest = Manifest(*head, "2025-06-01T12:00:00Z", 12.4, host, variables, packages)
    roots = Roots(("/usr/lib/python3.11",), ("/usr/lib/python3.11/site-packages",), ("/home/ann/job",))
    loader = Thread(profile(TRAIN[3:], traced=True), 4243, "loader", 0.4, 0.02)
    main = Thread(profile(TRAIN, traced=True), 4242, "MainThread", 5.1, 0.3)
    killed = Thread(profile(TRAIN, traced=True), 4250, "MainThread", 4.0, 5.9, None, (OpenCall(0, 9.5),))
    one = 4242, 4240, "rank", 0, command, "exited", "3.11.7", 12.1, 5.5, 0.32, 1804, 96
    two = 4250, 4240, "rank", 1, command, "killed", "3.11.7", 12.3, 4.0, 5.9, 1790, 20311
    notes = (Notice("waiting-sampled", "", {"rate": 50}),)
    ranks = Process(*one, (main, loader), roots, host), Process(*two, (killed,), roots, host, notes=notes)
    machine = Machine(64, 2.0, 12.4, 20.1, 0.0, 7.2, 0.4, 12, 124, 9.71, 17)
    ended = Notice("killed-by-signal", "SIGKILL", {"lost_s": 1.5, "cpu_s": 1.25, "pids": (4250,)})
    return Run("run.prof", ranks, manifest, machine, (ended,))


def hostile_run() -> Run:
    """Put hostile strings everywhere a run file's text can reach."""
    rows = [(name, name, 5, 20, 1.0 + i, 2.0 + i) for i, name in enumerate(HOSTILE)]
    host, texts = Host(*HOSTILE[:3]), dict.fromkeys(HOSTILE, HOSTILE[3])
    git = {"revision": HOSTILE[5], "dirty": True, "nested": [1.5, math.nan, None]}
    manifest = Manifest(*HOSTILE[:2], HOSTILE, HOSTILE[3], 1, HOSTILE[4], math.inf, host, texts, texts, git)
    threads = tuple(
        Thread(profile(rows), i, name, 1.0, 0.5, None, (OpenCall(i, 1.0),)) for i, name in enumerate(HOSTILE)
    )
    one = Process(
        1, 0, HOSTILE[0], None, HOSTILE, HOSTILE[3], HOSTILE[2], 1.0, 1.0, 0.5, 1, 1, threads, notes=NOTICES
    )
    return Run(HOSTILE[3], (one,), manifest, None, NOTICES)
