"""`Diff` → `Document`: what a comparison's report says, in order."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from profkit.compare.result_types import SideTable
from profkit.measure import noise
from profkit.report import units
from profkit.report.document import Block, Bullets, Cell, Document, Note, Pair, Row, Section, Table, laid_out
from profkit.report.estimates import side_calls
from profkit.report.functions import seconds_by, waits_only, working
from profkit.report.imports import import_change_sections
from profkit.report.inventory_sections import pool_differences
from profkit.report.iterations import change_sections as iteration_sections
from profkit.report.lines import line_sections
from profkit.report.listed import Listed, Of, cut_note
from profkit.report.machine import neighbour_sections
from profkit.report.notices import notice_texts
from profkit.report.range_sections import change_sections as range_sections
from profkit.report.text import clean
from profkit.report.ticketdoc import reproduce_section, setting_sections
from profkit.report.wording.accounts import waterfall
from profkit.report.wording.advice import advice_blocks
from profkit.report.wording.evidence import evidence_table
from profkit.report.wording.explain import explain_sections
from profkit.report.wording.functions import (
    SMALL_SHARE,
    WAITING_NOTE,
    display_name,
    location,
    match_text,
    moved_text,
)
from profkit.report.wording.verdicts import comparison_block, finding_text
from profkit.verdict.readings import READINGS
from profkit.verdict.rules import RULES, RULES_OF_ESTIMATES
from profkit.verdict.types import Diff, Finding, Verdict

#: Functions that get a sentence.
MOST_SENTENCES = 10


def diff_document(diff: Diff, limit: int = 50, attachment: str = "", *, explain: bool = False) -> Document:
    """Return a comparison's document; a `limit` of 0 lists all functions, even below `SMALL_SHARE`.

    `attachment` names the file with the runs; `explain` lists every condition of every rule.
    """
    verdict = diff.verdict
    rules = (*RULES, *RULES_OF_ESTIMATES)
    return laid_out(
        "profkit diff",
        Section("", (comparison_block(diff), _sides(diff))),
        *_account(diff),
        Section("Evidence", _evidence(diff, limit), role="evidence"),
        *line_sections(diff.lines),
        *neighbour_sections(diff.candidate.neighbours, diff.baseline.neighbours),
        *pool_differences(diff.baseline.inventory, diff.candidate.inventory),
        *import_change_sections(diff, limit),
        Section("What moved beyond the noise", (_story(diff, limit),), role="moved"),
        *_moved(diff, limit),
        *_one_sided(diff, limit),
        *iteration_sections(diff.iterations),
        *range_sections(diff.ranges, limit),
        Section("How far the two sides can be compared", _warnings(diff), role="trust"),
        Section("Files left out", (_skipped(diff),)),
        Section(
            "What it might be" if verdict.cause == "inconclusive" else "Also found",
            (Bullets(tuple(map(finding_text, _others(verdict)))),),
        ),
        *setting_sections(diff, limit),
        *(explain_sections(rules, READINGS, verdict.checks, verdict.findings) if explain else ()),
        Section("What to do next", advice_blocks(verdict.advice), role="advice"),
        reproduce_section(diff, attachment),
    )


def _sides(diff: Diff) -> Table:
    sides = (("baseline", diff.baseline), ("candidate", diff.candidate))
    walls = any(side.wall_s is not None for _, side in sides)
    table = Listed(sides).table(
        Of("", lambda row: row[0]),
        Of("wall", lambda row: row[1].wall_s, "seconds", there=walls),
        Of("CPU", lambda row: row[1].cpu_s, "seconds", 1),
        Of("CPU queue", lambda row: row[1].run_queue_wait_s, "seconds", 2),
        Of("self time", lambda row: row[1].total_s, "seconds", 3),
        Of("runs", lambda row: row[1].runs, "count", 4),
        Of("processes", lambda row: row[1].processes, "count", 6),
        Of("python", lambda row: clean(row[1].python or ""), "text", 7),
        Of("host", lambda row: clean(row[1].host or ""), "text", 5),
        Of("from", lambda row: clean(row[1].label), "path", 8),
    )
    before, after = (row.cells for row in table.rows)
    ratios = [
        _ratio(a, b) if column.kind == "seconds" else ""
        for column, a, b in zip(table.columns, before, after, strict=True)
    ]
    return replace(table, rows=(*table.rows, Row(("ratio", *ratios[1:]))))


def _ratio(before: Cell, after: Cell) -> str:
    if not isinstance(before, int | float) or not isinstance(after, int | float) or not before:
        return ""
    return units.factor(after / before)


def _account(diff: Diff) -> list[Section]:
    """Return where the wall difference went; empty for one capture on both sides, or shares of one total."""
    if diff.verdict.rule == "identical" or diff.table.by_share:
        return []
    title = "Where the added time went" if diff.account.added_s >= 0 else "Where the saved time went"
    return [Section(title, (waterfall(diff.account),), role="account")]


def _evidence(diff: Diff, limit: int) -> tuple[Block, ...]:
    """Return the verdict's evidence, the slow-down's interval, and how far the order of functions moved."""
    blocks: list[Block] = [evidence_table(diff.verdict.evidence, limit)]
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
                f"{units.share(ranking.total_variation)} of the self time is in different functions, {apart} "
                f"the noise ({units.share(noise.TV_P99)})."
            )
        )
    return tuple(blocks)


def _story(diff: Diff, limit: int) -> Bullets:
    """Return a sentence for each function that moved beyond the noise, without waits by design."""
    table = diff.table
    rows = working(table, table.anomalous & table.baseline.present & table.candidate.present)
    shown = rows[: min(limit or MOST_SENTENCES, MOST_SENTENCES)].tolist()
    said = [f"{display_name(table.name[i])} {moved_text(table, i)}." for i in shown]
    if len(shown) < len(rows):
        said.append(f"And {len(rows) - len(shown):,} more, marked ● below.")
    return Bullets(tuple(said))


def _moved(diff: Diff, limit: int) -> list[Section]:
    """Return the functions of both sides: working ones, then those that wait by design."""
    table, by = diff.table, diff.ranking.by
    both = table.baseline.present & table.candidate.present
    shares = np.maximum(table.baseline.share, table.candidate.share)
    # Filter early: there may be 100,000 functions.
    chosen = np.flatnonzero(both & (table.anomalous | (shares >= SMALL_SHARE)) if limit else both)
    waits = np.array([waits_only(table, i) for i in chosen.tolist()], np.bool_)
    changed = "self time" if by == "tottime" else "cumtime"
    title = f"Functions whose {changed} changed most"
    small = int(both.sum()) - len(chosen)
    left = units.counted(small, "function is", "functions are")
    note = f"{left} not listed: below {units.share(SMALL_SHARE)} of the {changed} on both sides."
    none = "Nothing but waiting" if len(chosen) else "No function that both sides have"
    said = Note(f"{none} took noticeable time." if waits.all() else "")
    working = _moved_table(diff, chosen[~waits], limit, note if small else "")
    waiting = _moved_table(diff, chosen[waits], limit, WAITING_NOTE)
    return [
        Section(title, (said, working), role="functions"),
        Section("Waiting", (waiting,), detail=True, role="functions"),
    ]


def _moved_table(diff: Diff, rows_of: npt.NDArray[np.intp], limit: int, about: str) -> Table:
    table = diff.table
    before, after = table.baseline, table.candidate
    was, now = seconds_by(before, diff.ranking.by), seconds_by(after, diff.ranking.by)
    calls = not table.by_share
    listed = Listed(rows_of.tolist(), limit, "functions")
    marked = table.anomalous.tolist()

    def tone(i: int) -> str:
        return ("bad" if now[i] > was[i] else "good") if marked[i] else ""

    return listed.table(
        Of("slope", lambda i: Pair(int(before.rank[i]), int(after.rank[i])), "rank"),
        Of("function", lambda i: display_name(table.name[i]), "name"),
        Of("baseline", lambda i: float(was[i]), "seconds"),
        Of("candidate", lambda i: float(now[i]), "seconds"),
        Of("share", lambda i: Pair(float(before.share[i]), float(after.share[i])), "share", 1),
        Of("per call", lambda i: float(table.per_call_ratio[i]) if calls else None, "factor", 2),
        Of("change", lambda i: Pair(float(was[i]), float(now[i])), "change", 7),
        Of(
            "calls",
            lambda i: Pair(side_calls(table, before, i), side_calls(table, after, i)) if calls else None,
            "count",
            4,
            folds=True,
        ),
        Of("where", lambda i: location(table.keys[i], table.file[i], table.line[i]), "path", 5, folds=True),
        Of("matched by", lambda i: match_text(table.match[i]), "text", 6, folds=True),
        Of("share now", lambda i: float(after.share[i]), "bar", 3),
        notes=(
            listed.cut,
            about,
            "● moved beyond the noise." if any(marked[i] for i in listed.shown) else "",
        ),
        marked=lambda i: marked[i],
        tone=tone,
    )


def _one_sided(diff: Diff, limit: int) -> list[Section]:
    """Return the functions that only one side has: the residue of the alignment."""
    table, residue = diff.table, diff.residue
    sections: list[Section] = []
    small: list[str] = []
    for title, name, side, count, share in (
        ("New functions", "candidate", table.candidate, residue.candidate_only, residue.candidate_only_share),
        ("Functions gone", "baseline", table.baseline, residue.baseline_only, residue.baseline_only_share),
    ):
        found = units.counted(count, "function")
        text = f"{found} found only in the {name}, with {units.share(share)} of its self time."
        if count:
            rows = _one_side(diff, side, name, text, limit)
            if rows.rows:
                sections.append(Section(title, (rows,), detail=True, role="functions"))
            else:
                small.append(text)
    if small:
        none = "None of these took noticeable time."
        note = Note(f"{' '.join(small)} {none}")
        sections.append(Section("Functions of one side", (note,), detail=True, role="functions"))
    return sections


def _one_side(diff: Diff, side: SideTable, name: str, text: str, limit: int) -> Table:
    table, seconds = diff.table, seconds_by(side, diff.ranking.by)
    only = side.present & table.one_sided
    shown = np.flatnonzero(only & (side.share >= SMALL_SHARE) if limit else only)[: limit or None].tolist()
    return Listed(shown).table(
        Of("rank", lambda i: int(side.rank[i]), "rank"),
        Of("function", lambda i: display_name(table.name[i]), "name"),
        Of(name, lambda i: float(seconds[i]), "seconds"),
        Of("share", lambda i: float(side.share[i]), "share", 1),
        Of("calls", lambda i: side_calls(table, side, i), "count", 2),
        Of("where", lambda i: location(table.keys[i], table.file[i], table.line[i]), "path", 3),
        notes=(text, cut_note(len(shown), int(only.sum()))),
    )


def _warnings(diff: Diff) -> tuple[Block, ...]:
    warnings = notice_texts((*diff.comparability.warnings, *diff.warnings))
    if not warnings:
        return ()
    lowered = "Different machines, Pythons or failures" if diff.verdict.doubts else "None of this"
    said = f"{lowered} lowered the confidence, which was calibrated on pairs of one command on one machine."
    sure = () if diff.verdict.confidence is None else (Note(said),)
    return (*sure, Bullets(tuple(warnings)))


def _skipped(diff: Diff) -> Bullets:
    sides = (("baseline", diff.baseline), ("candidate", diff.candidate))
    return Bullets(tuple(f"{name}: {text}" for name, side in sides for text in notice_texts(side.skipped)))


def _others(verdict: Verdict) -> list[Finding]:
    named = (verdict.cause, verdict.kind)
    return [finding for finding in verdict.findings if (finding.cause, finding.kind) != named]
