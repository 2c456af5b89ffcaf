"""Fixed results to render: a contended comparison, a quiet one, a hostile one, and runs to show.

Values stand here as a reader of the golden files needs them; nothing is measured or drawn by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from profkit.measure.range_stats import RangeChange, RangeKey, RangeRow
from profkit.measure.settings import Setting
from profkit.measure.tables import Comparability, DiffTable, Ranking, Residue, SideSummary, SideTable
from profkit.model import (
    FunctionKey,
    Host,
    Machine,
    Manifest,
    Notice,
    OpenCall,
    Process,
    Profile,
    Roots,
    Run,
    Thread,
)
from profkit.verdict.types import Diff, Evidence, Finding, Verdict

#: Names that try to break out of every output: escape sequences, markup of rich, Markdown and HTML, line
#: breaks, bidirectional controls, undecodable bytes, wide characters, mentions.
HOSTILE = (
    "\x1b[31mred\x1b[0m",
    "[bold]rich[/bold]",
    "a|b`c`<img src=x onerror=alert(1)>",
    "two\nlines\r\x00and\x85more\u2028here",
    "\u202eevil\u202c",
    "caf\udce9",
    "@everyone #1 *x* _y_ ~~z~~ [l](http://e.org) https://e.org",
    "</code></details><script>",
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
    reason: str = ""
    same_source: bool | None = None


ROWS = (
    Row(
        "solve",
        "numpy/linalg/_linalg.py",
        "site",
        335,
        (0.0101, 40),
        (2.9391, 40),
        "rooted",
        "per call 291×, calls unchanged",
        True,
    ),
    Row(
        "TransformerBlock.forward", "model/blocks.py", "project", 88, (1.2, 400), (2.41, 400), "nearest-line"
    ),
    Row(
        "augment_batch_with_random_affine_transformations_and_colour_jitter",
        "data/pipeline/augmentations/geometric.py",
        "project",
        141,
        (0.8, 1600),
        (1.93, 3200),
        "same-source",
        "calls doubled",
        True,
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
        anomalous=np.array([bool(r.reason) for r in rows], dtype=bool),
        reason=tuple(r.reason for r in rows),
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
    return SideTable(present, rank, calls, calls, tottime, tottime * 1.5, tottime / total)


def side(label: str, wall: float | None, total: float, *, wait: float | None, runs: int = 1) -> SideSummary:
    """Build the head of a side."""
    files = tuple(f"{label}/{i}.prof" for i in range(runs))
    cpu = None if wall is None else total * 0.9
    host = None if wall is None else "node17"
    return SideSummary(label, runs, files, wall, cpu, total, wait, host, "3.11.7", 1 if wall is None else 3)


def contended() -> Diff:
    """Build a run starved by its neighbours: the full report."""
    evidence = (
        Evidence(
            "run-queue wait of the main thread", "0.4 %", "61.2 %", "it was ready to run and had no CPU"
        ),
        Evidence(
            "CPU used by other processes", "0.02 cores", "1.75 cores", "somebody else kept the machine busy"
        ),
        Evidence("calls of the ten busiest functions", "27,141", "27,141", "the work was the same"),
    )
    advice = (
        "Run it where nothing else runs, or reserve its cores with the scheduler.",
        "taskset -c 0-3 profkit capture -o again.prof -- python train.py --batch-size 64 --epochs 3",
        "profkit diff clean.prof again.prof",
    )
    summary = (
        "The candidate waited for a CPU 61 % of the time it was ready to run; other processes used 1.75 of 2."
    )
    other = Finding("code-change", "code-change", 0.4, 0.12, "augment_batch… is called twice as often.")
    return Diff(
        baseline=side("clean.prof", 3.21, 3.02, wait=0.012),
        candidate=side("slow.prof", 9.93, 8.2, wait=5.31),
        comparability=Comparability(
            0.82, (Notice("python-differs", "", {"baseline": "3.11.7", "candidate": "3.12.1"}),)
        ),
        verdict=Verdict("contention", 0.97, summary, "external-load", evidence, advice, (other,)),
        ranking=Ranking("tottime", 0.41, 0.36, True, 0.15),
        table=table(ROWS),
        residue=Residue(31, 12, 0.067, 0.049),
        warnings=(Notice("trailing-bytes", "", {"bytes": 8}).at(file="slow.prof"),),
    )


def quiet() -> Diff:
    """Build two foreign files of the same program without any difference that matters."""
    rows = [
        Row(f"step_{i}", "train.py", line=i, before=(1.0 / i, 10), after=(1.01 / i, 10)) for i in range(1, 30)
    ]
    return Diff(
        baseline=side("a.prof", None, 3.96, wait=None),
        candidate=side("b.prof", None, 4.0, wait=None),
        comparability=Comparability(1.0, ()),
        verdict=Verdict("no-change", 0.8, "Both runs rank their functions alike, and take the same time."),
        ranking=Ranking("tottime", 0.02, 0.01, False, 0.15),
        table=table(rows),
        residue=Residue(0, 0, 0.0, 0.0),
    )


def code_change() -> Diff:
    """Build one function that got slower with its source, five runs a side, on two machines."""
    said = "rose from #2 to #1; its source differs, same calls, 4.03× per call"
    rows = [
        Row(
            "encode",
            "codec/encode.py",
            line=31,
            before=(0.9, 5000),
            after=(3.63, 5000),
            reason=said,
            same_source=False,
        ),
        *(
            Row(f"stage_{i}", "codec/stages.py", line=9 * i, before=(1.0 / i, 10), after=(1.02 / i, 10))
            for i in range(1, 9)
        ),
    ]
    evidence = (
        Evidence(
            "self time of encode", "900 ms", "3.63 s", "its source differs, and nothing else got slower"
        ),
        Evidence("run-queue wait of the main thread", "0.2 %", "0.3 %", "nobody waited for a CPU"),
    )
    advice = ("git log -p -- codec/encode.py  # what changed in encode",)
    found = table(rows)
    return replace(
        contended(),
        baseline=replace(side("before", 4.4, 3.7, wait=0.01, runs=5), command=("python", "encode.py", "a b")),
        candidate=replace(
            side("after", 7.2, 6.4, wait=0.01, runs=5),
            host="node18",
            command=("python", "encode.py", "a b"),
            environment={"OMP_NUM_THREADS": "4", "SLURM_PROCID": "0"},
        ),
        comparability=Comparability(
            0.9, (Notice("host-differs", "", {"baseline": "node17", "candidate": "node18"}),)
        ),
        verdict=Verdict(
            "code-change", 0.93, "encode got slower, and its source differs.", None, evidence, advice
        ),
        ranking=Ranking("tottime", 0.2, 0.31, True, 0.15),
        table=replace(found, p_value=np.where(found.anomalous, 0.008, 0.4)),
        residue=Residue(0, 0, 0.0, 0.0),
        warnings=(),
        settings=(
            Setting("machine", "host", "node17", "node18"),
            Setting("variable", "OMP_NUM_THREADS", "", "4"),
            Setting("package", "numpy", "1.26.4", "2.1.0"),
            Setting("source", "revision", "0123456789ab", "fedcba987654 +"),
        ),
    )


def undecided() -> Diff:
    """Build two plain profiles that cannot tell why one is slower."""
    rows = [
        Row(f"step_{i}", "train.py", line=i, before=(1.0 / i, 10), after=(2.1 / i, 10)) for i in range(1, 6)
    ]
    evidence = (Evidence("self time", "2.28 s", "4.79 s", "2.10× the baseline"),)
    advice = (
        "profkit capture -o baseline.prof -- python your_script.py",
        "profkit capture -o candidate.prof -- python your_script.py",
        "# 4 more runs per side: profkit capture --repeat 4 …",
    )
    summary = (
        "Everything takes about 2.10 times as long, but without the kernel's counters nothing tells why."
    )
    others = (
        Finding(
            "slower-machine",
            "slower-machine",
            0.45,
            math.nan,
            "Every function takes about 2.10 times as long.",
        ),
        Finding("contention", "contention", 0.4, math.nan, "Many functions lost their places at once."),
    )
    return replace(
        quiet(),
        verdict=Verdict("inconclusive", 0.5, summary, None, evidence, advice, others),
        table=table(rows),
    )


def several_causes() -> Diff:
    """Build contention and a code change together, with ranges of NVTX."""
    both = contended()
    change = Finding("code-change", "code-change", 0.9, 0.3, "solve got slower, and its source differs.")

    def row(key: RangeKey, factor: float, count: int) -> RangeRow:
        return RangeRow(key, 1, count, 0.02 * count * factor, 0.02 * factor, 0.03 * factor, None, None, 0)

    forward, load = RangeKey("forward", ""), RangeKey("load batch", "data")
    ranges = (
        RangeChange(forward, row(forward, 1.0, 100), row(forward, 4.0, 100), 4.0, 4.0, 4.0, 0.99),
        RangeChange(load, None, row(load, 1.0, 100), None, None, None, None),
    )
    verdict = replace(both.verdict, confidence=0.87, findings=(*both.verdict.findings, change))
    return replace(both, verdict=verdict, ranges=ranges)


def unmatched() -> Diff:
    """Build two programs that have hardly a function in common."""
    rows = [
        *(Row(f"old_{i}", "old.py", line=i, before=(1.0 / i, 10), match="gone") for i in range(1, 5)),
        *(Row(f"new_{i}", "new.py", line=i, after=(2.0 / i, 10), match="new") for i in range(1, 5)),
        Row("main", "app.py", line=3, before=(0.02, 1), after=(0.03, 1), match="nearest-line"),
    ]
    summary = (
        "The sides are hardly the same program: 98 % or more of either's time is in functions of its own."
    )
    return replace(
        quiet(),
        comparability=Comparability(
            0.01, (Notice("functions-of-one-side", "baseline", {"self_time": 0.98}),)
        ),
        verdict=Verdict("inconclusive", 0.5, summary),
        table=table(rows),
        residue=Residue(4, 4, 0.98, 0.99),
    )


def hostile() -> Diff:
    """Put hostile strings everywhere a profile's or a user's text can reach."""
    rows = [
        Row(name, name, before=(1.0 + i, 5), after=(5.0 + 2 * i, 5), reason=name, match="nearest-line")
        for i, name in enumerate(HOSTILE)
    ]
    rows += [Row(name, name, after=(1.0, 5), match="new") for name in HOSTILE]
    rows += [Row(name, name, before=(1.0, 5), match="gone") for name in HOSTILE]
    evidence = tuple(Evidence(name, name, name, name) for name in HOSTILE)
    findings = tuple(Finding("blocked", "blocked", 0.5, math.nan, name) for name in HOSTILE)
    bad = SideSummary(HOSTILE[0], 1, HOSTILE, 1.0, None, 1.0, None, HOSTILE[3], HOSTILE[1], 1, NOTICES)
    return Diff(
        baseline=bad,
        candidate=bad,
        comparability=Comparability(0.1, NOTICES),
        verdict=Verdict("inconclusive", 0.3, HOSTILE[3], None, evidence, HOSTILE, findings),
        ranking=Ranking("tottime", math.nan, math.nan, False, math.nan),
        table=table(rows),
        residue=Residue(len(HOSTILE), len(HOSTILE), 0.1, math.nan),
        warnings=NOTICES,
    )


def profile(rows: Sequence[tuple[str, str, int, int, float, float]], *, traced: bool = False) -> Profile:
    """Build a profile from rows of file, qualified name, line, calls, self time and cumulative time."""
    strings = tuple(dict.fromkeys(["", *(text for row in rows for text in row[:2])]))
    at = {text: i for i, text in enumerate(strings)}
    n = len(rows)
    zero = np.zeros(n, np.int32)
    tottime = np.array([row[4] for row in rows], dtype=np.float64)
    cumtime = np.array([row[5] for row in rows], dtype=np.float64)
    calls = np.array([row[3] for row in rows], dtype=np.int64)
    return Profile(
        strings=strings,
        file=np.array([at[row[0]] for row in rows], dtype=np.int32),
        line=np.array([row[2] for row in rows], dtype=np.int32),
        name=np.array([at[row[1]] for row in rows], dtype=np.int32),
        qualname=zero,
        module=zero,
        source_hash=zero,
        ncalls=calls,
        primitive_calls=calls - calls // 10,
        tottime=tottime,
        cumtime=cumtime,
        wait=tottime / 2 if traced else None,
        blocked=tottime / 10 if traced else None,
        cumwait=cumtime / 2 if traced else None,
        cumblocked=cumtime / 10 if traced else None,
    ).validate()


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


def captured_run() -> Run:
    """Build a capture of two ranks, one of them contended and killed, with threads and open calls."""
    host = Host("node17", "Linux", "AMD EPYC 7763 64-Core Processor", 64, 4, 2.0)
    manifest = Manifest(
        "profkit.run/1",
        "0.1.0",
        ("mpirun", "-n", "2", "python", "train.py", "--note", "two words"),
        "/home/ann/job",
        137,
        "2025-06-01T12:00:00Z",
        12.4,
        host,
        {"OMP_NUM_THREADS": "8"},
        {"numpy": "2.1.0"},
    )
    roots = Roots(("/usr/lib/python3.11",), ("/usr/lib/python3.11/site-packages",), ("/home/ann/job",))
    loader = Thread(profile(TRAIN[3:], traced=True), 4243, "loader", 0.4, 0.02)
    main = Thread(profile(TRAIN, traced=True), 4242, "MainThread", 5.1, 0.3)
    killed = Thread(profile(TRAIN, traced=True), 4250, "MainThread", 4.0, 5.9, None, (OpenCall(0, 9.5),))
    command = ("python", "train.py", "--note", "two words")
    ranks = (
        Process(
            4242,
            4240,
            "rank",
            0,
            command,
            "exited",
            "3.11.7",
            12.1,
            5.5,
            0.32,
            1804,
            96,
            (main, loader),
            roots,
            host,
        ),
        Process(
            4250,
            4240,
            "rank",
            1,
            command,
            "killed",
            "3.11.7",
            12.3,
            4.0,
            5.9,
            1790,
            20311,
            (killed,),
            roots,
            host,
            notes=(Notice("waiting-sampled", "", {"rate": 50}),),
        ),
    )
    machine = Machine(64, 2.0, 12.4, 20.1, 0.0, 7.2, 0.4, 12, 124, 9.71, 17)
    return Run(
        "run.prof",
        ranks,
        manifest,
        machine,
        (Notice("process-killed", "", {"lost_s": 1.5, "pids": (4250,)}),),
    )


def hostile_run() -> Run:
    """Put hostile strings everywhere a run file's text can reach."""
    rows = [(name, name, 5, 20, 1.0 + i, 2.0 + i) for i, name in enumerate(HOSTILE)]
    manifest = Manifest(
        HOSTILE[0],
        HOSTILE[1],
        HOSTILE,
        HOSTILE[3],
        1,
        HOSTILE[4],
        math.inf,
        Host(HOSTILE[0], HOSTILE[1], HOSTILE[2]),
        dict.fromkeys(HOSTILE, HOSTILE[3]),
        dict.fromkeys(HOSTILE, HOSTILE[3]),
        {"revision": HOSTILE[5], "dirty": True, "nested": [1.5, math.nan, None]},
    )
    threads = tuple(
        Thread(profile(rows), i, name, 1.0, 0.5, None, (OpenCall(i, 1.0),)) for i, name in enumerate(HOSTILE)
    )
    one = Process(
        1, 0, HOSTILE[0], None, HOSTILE, HOSTILE[3], HOSTILE[2], 1.0, 1.0, 0.5, 1, 1, threads, notes=NOTICES
    )
    return Run(HOSTILE[3], (one,), manifest, None, NOTICES)
