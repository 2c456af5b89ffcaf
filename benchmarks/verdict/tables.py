"""The score as Markdown, for docs/verdict.md and the terminal. Layout only."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median

from benchmarks.verdict.calibrate import held_out
from benchmarks.verdict.judge import Judgement
from benchmarks.verdict.pairs import LeftOut
from benchmarks.verdict.score import Share, by_condition, calibration, confusion, figures
from profkit.verdict.types import CAUSES

ARM_TITLES = {"counters": "with counters", "plain": "two plain profiles"}
ALONE_TITLE = "one run alone"


def groups(judged: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    """Verdicts by arm and runs a side."""
    found: dict[str, list[Judgement]] = {}
    for j in judged:
        side = "one run a side" if j.runs == 1 else "five runs a side"
        title = f"{ARM_TITLES[j.arm]}, {side}" if j.arm in ARM_TITLES else ALONE_TITLE
        found.setdefault(title, []).append(j)
    order = [f"{arm}, {side} a side" for arm in ARM_TITLES.values() for side in ("one run", "five runs")]
    return {title: found[title] for title in (*order, ALONE_TITLE) if title in found}


def report(
    judged: Sequence[Judgement],
    left_out: Sequence[LeftOut],
    single: Sequence[Judgement] = (),
    single_left_out: Sequence[LeftOut] = (),
) -> str:
    """Everything that is said of a set of verdicts, and of runs alone."""
    parts = groups(judged)
    workloads = sorted({j.workload for j in judged})
    arms = len({j.arm for j in judged})
    lines = [
        (
            f"{len(workloads)} programs, {len(judged) // max(1, arms)} pairs, {len(judged)} verdicts; "
            f"{len(left_out)} more pairs were left out because what is true of them cannot be decided."
        ),
        "",
        *_table(_HEAD, [_row(title, part) for title, part in parts.items()]),
        "",
        "`inconclusive` although one bucket of the account holds four fifths of the lost time, beyond its noise: "
        + ", ".join(
            f"{title} {sum(j.cause == 'inconclusive' and bool(j.told) for j in part)} of {len(part)}"
            for title, part in parts.items()
        )
        + ".",
        "",
        "Not attributed of a loss of 1.15 times or more: "
        + ", ".join(f"{title} {_unattributed(part)}" for title, part in parts.items())
        + ".",
    ]
    for title, part in parts.items():
        without = [pair for pair in left_out if (pair.runs > 1) == (part[0].runs > 1)]
        lines += ["", f"### By condition: {title}", "", *_conditions(part, without)]
    if single:
        lines += ["", "### One run alone, as `profkit show` judges it", "", *_alone(single, single_left_out)]
    for title, part in parts.items():
        lines += ["", f"### By program: {title}", ""]
        rows = [_row(w, [j for j in part if j.workload == w]) for w in workloads]
        lines += _table(["program", *_HEAD[1:]], rows)
    for title, part in parts.items():
        lines += ["", f"### Labels and verdicts: {title}", "", *_confusion(part)]
    return "\n".join(lines) + "\n"


def confidences(judged: Sequence[Judgement]) -> str:
    """How often verdicts were right by the confidence that users see, and where their rule doubts them."""
    lines = []
    for name, of in (("as given", judged), ("learnt on the other programs", held_out(judged))):
        lines += [f"### Confidence, {name}", ""]
        rows = []
        for title, part in groups(of).items():
            rows += [
                [title, f"{low:g}–", f"{mean:.2f}", str(share.of), _part(share)]
                for low, mean, share in calibration(part)
            ]
        lines += [*_table(["", "confidence", "mean", "verdicts", "right"], rows), ""]
    lines += ["### What a rule doubts", ""]
    rows = []
    for title, part in groups(judged).items():
        for rule, doubt in sorted({(j.rule, j.doubt) for j in part if j.doubt is not None}):
            of_doubt = [j for j in part if (j.rule, j.doubt) == (rule, doubt)]
            right = Share(sum(j.outcome == "right" for j in of_doubt), len(of_doubt))
            rows.append([title, f"`{rule}`", f"{doubt:.2f}", str(right.of), _part(right)])
    lines += _table(["", "rule", "stated", "verdicts", "right"], rows)
    return "\n".join(lines) + "\n"


def _unattributed(part: Sequence[Judgement]) -> str:
    known = [j.rest for j in part if not math.isnan(j.rest)]
    return f"{median(known):.3f} in the median, {max(known):.2f} at most" if known else "–"


def _conditions(judged: Sequence[Judgement], left_out: Sequence[LeftOut]) -> list[str]:
    of, without = by_condition(judged), by_condition(left_out)
    rows = []
    for title in (*of, *(row for row in without if row not in of)):
        outcomes = Counter(j.outcome for j in of.get(title, ()))
        counts = (outcomes.total(), outcomes["right"], outcomes["inconclusive"], outcomes["wrong"])
        rows.append([title, *map(str, counts), str(len(without.get(title, ())) or "")])
    return _table(["condition", "pairs", "right", "inconclusive", "wrong", "left out"], rows)


def _alone(single: Sequence[Judgement], left_out: Sequence[LeftOut]) -> list[str]:
    f = figures(single)
    said = [j for j in single if j.cause != "inconclusive"]
    right = Share(sum(j.outcome == "right" for j in said), len(said))
    head = ["runs", "contention found", "kind right", "false alarms", "said", "of that right", "left out"]
    shares = (f.recall, f.kind, f.alarms, Share(len(said), len(single)), right)
    row = [str(len(single)), *(_part(share, counts=True) for share in shares), str(len(left_out))]
    return [*_table(head, [row]), "", *_confusion(single, alone=True)]


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


def _confusion(judged: Sequence[Judgement], *, alone: bool = False) -> list[str]:
    table = confusion(judged)
    causes = [c for c in CAUSES if any(row[c] for row in table.values())]
    rows = []
    for label in sorted(table, key=lambda name: (name != "contention", name)):
        of = [j for j in judged if j.label == label and not (alone and j.cause == "inconclusive")]
        right = Share(sum(j.outcome == "right" for j in of), len(of))
        rows.append([label, *(str(table[label][c] or "") for c in causes), _part(right)])
    if alone:
        head = ["nothing said" if cause == "inconclusive" else cause for cause in causes]
        return _table(["label", *head, "right, of what was said"], rows)
    return _table(["label", *causes, "right"], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " |"

    return [line(head), "|" + "|".join("-" * (w + 2) for w in widths) + "|", *map(line, rows)]
