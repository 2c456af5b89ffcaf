"""The score as Markdown, for docs/verdict.md and the terminal. Layout only."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.verdict.alone import Alone, counts
from benchmarks.verdict.calibrate import held_out
from benchmarks.verdict.judge import Judgement
from benchmarks.verdict.score import Share, calibration, confusion, figures
from profkit.verdict.types import CAUSES

__all__ = ["groups", "report"]

ARM_TITLES = {"counters": "with counters", "plain": "two plain profiles"}


def groups(judged: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    """Verdicts by arm and runs a side."""
    found: dict[str, list[Judgement]] = {}
    for j in judged:
        side = "one run a side" if j.runs == 1 else "five runs a side"
        found.setdefault(f"{ARM_TITLES[j.arm]}, {side}", []).append(j)
    return dict(
        sorted(found.items(), key=lambda item: (item[0].startswith("two"), item[0].endswith("five runs")))
    )


def report(judged: Sequence[Judgement], left_out: int, single: Sequence[Alone] = ()) -> str:
    """Everything that is said of a set of verdicts, and of runs alone."""
    parts = groups(judged)
    workloads = sorted({j.workload for j in judged})
    lines = [
        (
            f"{len(workloads)} programs, {len(judged)} verdicts; {left_out} pairs were left out because what is true "
            "of them cannot be told."
        ),
        "",
        *_table(_HEAD, [_row(title, part) for title, part in parts.items()]),
    ]
    if single:
        lines += ["", "### One run alone, as `profkit show` judges it", "", *_alone(single)]
    for title, part in parts.items():
        lines += ["", f"### By program: {title}", ""]
        rows = [_row(w, [j for j in part if j.workload == w]) for w in workloads]
        lines += _table(["program", *_HEAD[1:]], rows)
    for title, part in parts.items():
        lines += ["", f"### Labels and verdicts: {title}", "", *_confusion(part)]
    for name, of in (("as given", judged), ("learnt on the other programs", held_out(judged))):
        lines += ["", f"### Confidence, {name}", ""]
        rows = []
        for title, part in groups(of).items():
            rows += [
                [title, f"{low:g}–", f"{mean:.2f}", str(share.of), _part(share)]
                for low, mean, share in calibration(part)
            ]
        lines += _table(["", "confidence", "mean", "verdicts", "right"], rows)
    return "\n".join(lines) + "\n"


def _alone(single: Sequence[Alone]) -> list[str]:
    table = counts(single)
    causes = [c for c in CAUSES if any(row[c] for row in table.values())]
    rows = [
        [label, *(str(row[c] or "") for c in causes), str(row[""] or "")]
        for label, row in sorted(table.items())
    ]
    return _table(["label", *causes, "nothing"], rows)


_HEAD = [
    "",
    "pairs",
    "contention found",
    "kind right",
    "false alarms",
    "other right",
    "wrong",
    "inconclusive",
]


def _row(title: str, judged: Sequence[Judgement]) -> list[str]:
    f = figures(judged)
    shares = (f.recall, f.kind, f.alarms, f.other, f.wrong, f.inconclusive)
    return [title, str(f.pairs), *(_part(s, counts=True) for s in shares)]


def _part(share: Share, *, counts: bool = False) -> str:
    if not share.of:
        return "–"
    text = f"{share.part:.3f}"
    return f"{text} ({share.hits}/{share.of})" if counts else text


def _confusion(judged: Sequence[Judgement]) -> list[str]:
    table = confusion(judged)
    causes = [c for c in CAUSES if any(row[c] for row in table.values())]
    rows = []
    for label in sorted(table, key=lambda name: (name != "contention", name)):
        of = [j for j in judged if j.label == label]
        right = Share(sum(j.outcome == "right" for j in of), len(of))
        rows.append([label, *(str(table[label][c] or "") for c in causes), _part(right)])
    return _table(["label", *causes, "right"], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " |"

    return [line(head), "|" + "|".join("-" * (w + 2) for w in widths) + "|", *map(line, rows)]
