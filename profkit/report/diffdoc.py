"""`Diff` → `Document`: the facts of a comparison in order; computes no statistics and knows no layout."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from profkit.measure import noise
from profkit.measure.movement import is_wait
from profkit.measure.tables import DiffTable, SideSummary, SideTable
from profkit.report import units
from profkit.report.document import (
    Block,
    Bullets,
    Cell,
    Column,
    Document,
    Note,
    Pair,
    Row,
    Section,
    Table,
)
from profkit.report.estimates import side_calls
from profkit.report.evidence_rows import evidence_row
from profkit.report.inventory_sections import pool_differences
from profkit.report.lines import line_sections
from profkit.report.neighbours import neighbour_sections
from profkit.report.notices import notice_text
from profkit.report.surroundings import reproduce_section, setting_sections
from profkit.report.text import clean
from profkit.report.wording import (
    SMALL_SHARE,
    WAITING_NOTE,
    advice_blocks,
    comparison_block,
    cut_note,
    display_name,
    explain_sections,
    finding_text,
    location,
    moved_text,
    waterfall,
)
from profkit.verdict.readings import READINGS
from profkit.verdict.rules import RULES, RULES_OF_ESTIMATES
from profkit.verdict.types import Diff, Verdict

#: Functions that get a sentence; the others are in the table.
MOST_SENTENCES = 10
#: Rungs on which a match needs no explanation.
_PLAIN_MATCHES = frozenset({"exact", "rooted"})


def diff_document(diff: Diff, limit: int = 50, attachment: str = "", *, explain: bool = False) -> Document:
    """Return a comparison's document.

    `limit` is the most rows of any list of functions; 0 lists all, also those below `SMALL_SHARE`.
    `attachment` is the file with the runs, empty without one. `explain` lists every condition of every rule,
    before the advice.
    """
    sections = [
        Section("", (comparison_block(diff), _sides(diff))),
        *_account(diff),
        *_evidence(diff),
        *line_sections(diff.lines),
        *neighbour_sections(diff.candidate.neighbours, diff.baseline.neighbours),
        *pool_differences(diff.baseline.inventory, diff.candidate.inventory),
        *_story(diff, limit),
        *_moved(diff, limit),
        *_one_sided(diff, limit),
        *_ranges(diff, limit),
        *_trust(diff),
        *_other_findings(diff.verdict),
        *setting_sections(diff, limit),
        *_explained(diff, explain),
        *_advice(diff),
        reproduce_section(diff, attachment),
    ]
    return Document("profkit diff", tuple(sections))


def _ranges(diff: Diff, limit: int) -> tuple[Section, ...]:
    """NVTX ranges and iterations, if any; most comparisons need not import the modules for them."""
    if not diff.ranges and diff.iterations == (None, None):
        return ()
    from profkit.report.iterations import change_sections as iteration_sections
    from profkit.report.range_sections import change_sections

    return (*iteration_sections(diff.iterations), *change_sections(diff.ranges, limit))


def _sides(diff: Diff) -> Table:
    columns = (
        Column("", "text"),
        Column("wall", "seconds"),
        Column("CPU", "seconds", 1),
        Column("CPU queue", "seconds", 2),
        Column("self time", "seconds", 3),
        Column("runs", "count", 4),
        Column("processes", "count", 6),
        Column("python", "text", 7),
        Column("host", "text", 5),
        Column("from", "path", 8),
    )
    before, after = diff.baseline, diff.candidate
    ratio = Row(
        (
            "ratio",
            *(
                _ratio(getattr(before, field), getattr(after, field))
                for field in ("wall_s", "cpu_s", "run_queue_wait_s", "total_s")
            ),
            *("",) * 5,
        )
    )
    rows = (_side_row("baseline", before), _side_row("candidate", after), ratio)
    # A column that neither side can fill says nothing; the ratio row would only repeat that.
    return Table(columns, rows).only(
        i for i in range(len(columns)) if i == 0 or any(row.cells[i] not in (None, "") for row in rows[:2])
    )


def _side_row(name: str, side: SideSummary) -> Row:
    return Row(
        (
            name,
            side.wall_s,
            side.cpu_s,
            side.run_queue_wait_s,
            side.total_s,
            side.runs,
            side.processes,
            clean(side.python or ""),
            clean(side.host or ""),
            clean(side.label),
        )
    )


def _ratio(before: float | None, after: float | None) -> str:
    if not before or after is None:
        return ""
    return units.factor(after / before)


def _account(diff: Diff) -> list[Section]:
    """Where the difference of the walls went; empty for one capture on both sides or shares of one total."""
    if diff.verdict.rule == "identical" or diff.table.by_share:
        return []
    title = "Where the added time went" if diff.account.added_s >= 0 else "Where the saved time went"
    return [Section(title, (waterfall(diff.account),), role="account")]


def _evidence(diff: Diff) -> list[Section]:
    """What the verdict rests on, and how far the order of functions moved."""
    blocks: list[Block] = []
    if diff.verdict.evidence:
        columns = (
            Column("what was measured", "text"),
            Column("baseline", "text"),
            Column("candidate", "text"),
            Column("what it says", "prose"),
        )
        blocks.append(Table(columns, tuple(map(evidence_row, diff.verdict.evidence))))
    slow = diff.slowdown
    if math.isfinite(slow.low):
        tested = "" if math.isnan(slow.p_value) else f"; p = {slow.p_value:.2g}, permutation test"
        blocks.append(
            Note(
                f"The candidate takes {units.factor(slow.value)} the baseline's time, {units.factor(slow.low)} to "
                f"{units.factor(slow.high)} over the repeats (95 % bootstrap interval{tested})."
            )
        )
    ranking = diff.ranking
    if math.isfinite(ranking.rbo):
        if ranking.reordered:
            reading = "beyond what repeats of one program show"
        elif ranking.rbo > ranking.noise_floor:
            reading = "only functions of nearly equal time changed places"
        else:
            reading = "within the noise"
        low, high = ranking.rbo_interval
        spread = "" if math.isnan(low) else f", {low:.2f} to {high:.2f} over the repeats"
        apart = "beyond" if ranking.total_variation > noise.TV_P99 else "within"
        blocks.append(
            Note(
                f"Order of functions by {ranking.by}: {reading} (rank-biased overlap distance "
                f"{ranking.rbo:.2f}{spread}, noise floor {ranking.noise_floor:.2f}). "
                f"{units.share(ranking.total_variation)} of the self time sits in other functions, {apart} the "
                f"noise ({units.share(noise.TV_P99)})."
            )
        )
    return [Section("Evidence", tuple(blocks), role="evidence")] if blocks else []


def _measure(side: SideTable, by: str) -> npt.NDArray[np.float64]:
    """What functions are ranked by: cumtime, or active self time."""
    return side.cumtime if by == "cumtime" else side.active


def _waits(table: DiffTable, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    return np.array([is_wait(table.name[i], table.keys[i].root) for i in rows.tolist()], np.bool_)


def _story(diff: Diff, limit: int) -> list[Section]:
    """One sentence for each function that moved beyond the noise, waits left out."""
    table = diff.table
    rows = np.flatnonzero(table.anomalous & table.baseline.present & table.candidate.present)
    rows = rows[~_waits(table, rows)]
    if not len(rows):
        return []
    shown = rows[: min(limit or MOST_SENTENCES, MOST_SENTENCES)].tolist()
    said = [f"{display_name(table.name[i])} {clean(moved_text(table, i))}." for i in shown]
    if len(shown) < len(rows):
        said.append(f"And {len(rows) - len(shown):,} more, marked ● below.")
    return [Section("What moved beyond the noise", (Bullets(tuple(said)),), role="moved")]


def _moved(diff: Diff, limit: int) -> list[Section]:
    """The functions of both sides: those that work, then those that wait by design."""
    table, by = diff.table, diff.ranking.by
    both = table.baseline.present & table.candidate.present
    shares = np.maximum(table.baseline.share, table.candidate.share)
    # Functions that get no row are skipped at once: there may be a hundred thousand of them.
    chosen = np.flatnonzero(both & (table.anomalous | (shares >= SMALL_SHARE)) if limit else both)
    waits = _waits(table, chosen)
    changed = "self time" if by == "tottime" else "cumtime"
    title = f"Functions whose {changed} changed most"
    small = int(both.sum()) - len(chosen)
    note = f"{small:,} below {units.share(SMALL_SHARE)} of the {changed} on both sides are not listed."
    if waits.all():
        none = "Nothing but waiting" if len(chosen) else "No function of either side has a partner that"
        blocks: tuple[Block, ...] = (Note(f"{none} took noticeable time."),)
    else:
        blocks = (_moved_table(diff, chosen[~waits], limit, note if small else ""),)
    sections = [Section(title, blocks, role="functions")]
    if waits.any():
        waiting = _moved_table(diff, chosen[waits], limit, WAITING_NOTE)
        sections.append(Section("Waiting", (waiting,), detail=True, role="functions"))
    return sections


def _moved_table(diff: Diff, rows_of: npt.NDArray[np.intp], limit: int, about: str) -> Table:
    """A table of functions of both sides, greatest change in seconds first."""
    table, by = diff.table, diff.ranking.by
    shown = rows_of[:limit] if limit else rows_of
    columns = (
        Column("slope", "rank"),
        Column("function", "name"),
        Column("baseline", "seconds"),
        Column("candidate", "seconds"),
        Column("share", "share", 1),
        Column("per call", "factor", 2),
        Column("change", "change", 7),
        Column("calls", "count", 4, folds=True),
        Column("where", "path", 5, folds=True),
        Column("matched by", "text", 6, folds=True),
        Column("share now", "bar", 3),
    )
    rows = tuple(_moved_row(table, int(index), by) for index in shown)
    notes = [cut_note(len(shown), len(rows_of), "functions"), about]
    if any(row.marked for row in rows):
        notes.append("● moved beyond the noise.")
    return Table(columns, rows, " ".join(note for note in notes if note)).without_empty()


def _moved_row(table: DiffTable, index: int, by: str) -> Row:
    before, after = table.baseline, table.candidate
    seconds = Pair(float(_measure(before, by)[index]), float(_measure(after, by)[index]))
    match = table.match[index]
    marked = bool(table.anomalous[index])
    cells: tuple[Cell, ...] = (
        Pair(int(before.rank[index]), int(after.rank[index])),
        display_name(table.name[index]),
        seconds.before,
        seconds.after,
        Pair(float(before.share[index]), float(after.share[index])),
        None if table.by_share else float(table.per_call_ratio[index]),
        seconds,
        None if table.by_share else Pair(side_calls(table, before, index), side_calls(table, after, index)),
        location(table.keys[index], table.file[index], table.line[index]),
        "" if match in _PLAIN_MATCHES else match,
        float(after.share[index]),
    )
    worse = (seconds.after or 0.0) > (seconds.before or 0.0)
    return Row(cells, marked, ("bad" if worse else "good") if marked else "")


def _one_sided(diff: Diff, limit: int) -> list[Section]:
    """What only one side has: residue of the alignment, never dropped silently."""
    sections = []
    residue = diff.residue
    table = diff.table
    for title, side, count, total in (
        ("New functions", table.candidate, residue.candidate_only, residue.candidate_only_share),
        ("Functions gone", table.baseline, residue.baseline_only, residue.baseline_only_share),
    ):
        if not count:
            continue
        name = "candidate" if side is table.candidate else "baseline"
        text = f"{count:,} found only in the {name}, with {units.share(total)} of its self time."
        rows, left = _one_sided_rows(table, side, side.present & table.one_sided, diff.ranking.by, limit)
        if not rows:
            sections.append(
                Section(
                    title,
                    (Note(f"{text} {'It took no' if count == 1 else 'None of them took'} noticeable time."),),
                    detail=True,
                    role="functions",
                )
            )
            continue
        columns = (
            Column("rank", "rank"),
            Column("function", "name"),
            Column(name, "seconds"),
            Column("share", "share", 1),
            Column("calls", "count", 2),
            Column("where", "path", 3),
        )
        note = f"{text} {left}".strip()
        sections.append(
            Section(title, (Table(columns, rows, note).without_empty(),), detail=True, role="functions")
        )
    return sections


def _one_sided_rows(
    table: DiffTable, side: SideTable, only: npt.NDArray[np.bool_], by: str, limit: int
) -> tuple[tuple[Row, ...], str]:
    chosen = np.flatnonzero(only & (side.share >= SMALL_SHARE) if limit else only)
    shown = chosen[:limit] if limit else chosen
    rows = tuple(
        Row(
            (
                int(side.rank[i]),
                display_name(table.name[i]),
                float(_measure(side, by)[i]),
                float(side.share[i]),
                side_calls(table, side, i),
                location(table.keys[i], table.file[i], table.line[i]),
            )
        )
        for i in map(int, shown)
    )
    return rows, cut_note(len(shown), int(only.sum()))


def _trust(diff: Diff) -> list[Section]:
    """What a reader must know before trusting the numbers."""
    sections = []
    warnings = [clean(notice_text(w)) for w in (*diff.comparability.warnings, *diff.warnings)]
    if warnings:
        title = "How far the two sides can be compared"
        sections.append(Section(title, (*_how_sure(diff), Bullets(tuple(warnings))), role="trust"))
    skipped = [
        f"{name}: {clean(notice_text(notice))}"
        for name, side in (("baseline", diff.baseline), ("candidate", diff.candidate))
        for notice in side.skipped
    ]
    if skipped:
        sections.append(Section("Files left out", (Bullets(tuple(skipped)),)))
    return sections


def _how_sure(diff: Diff) -> tuple[Note, ...]:
    """Whether these differences lowered the verdict's confidence, where it has one."""
    if diff.verdict.confidence is None:
        return ()
    lowered = "Machines, Pythons or failures" if diff.verdict.doubts else "Nothing of this"
    said = (
        f"{lowered} lowered the confidence of the verdict, measured on pairs of one command on one machine."
    )
    return (Note(said),)


def _other_findings(verdict: Verdict) -> list[Section]:
    others = [
        finding
        for finding in verdict.findings
        if (finding.cause, finding.kind) != (verdict.cause, verdict.kind)
    ]
    if not others:
        return []
    title = "What it might be" if verdict.cause == "inconclusive" else "What also holds"
    return [Section(title, (Bullets(tuple(map(finding_text, others))),))]


def _explained(diff: Diff, wanted: bool) -> list[Section]:
    if not wanted:
        return []
    verdict = diff.verdict
    return explain_sections((*RULES, *RULES_OF_ESTIMATES), READINGS, verdict.checks, verdict.findings)


def _advice(diff: Diff) -> list[Section]:
    if not diff.verdict.advice:
        return []
    return [Section("What to do next", advice_blocks(diff.verdict.advice), role="advice")]
