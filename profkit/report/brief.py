"""The answer on one screen (30 lines of 80 columns), which a terminal shows unless ``--full`` is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, takewhile
from typing import TypeAlias

import numpy as np

from profkit.compare.result_types import DiffTable
from profkit.measure import noise
from profkit.measure.import_table import imports_of
from profkit.model import Run
from profkit.report import units
from profkit.report.document import (
    Block,
    Bullets,
    Document,
    Facts,
    Note,
    Pair,
    Section,
    Table,
    Waterfall,
    laid_out,
)
from profkit.report.functions import FunctionRow, Ranked, ranked_run, seconds_by, share_of, waits_only
from profkit.report.imports import import_change_line, import_line
from profkit.report.lines import line_sections
from profkit.report.listed import Listed, Of
from profkit.report.machine import gpu_sections
from profkit.report.notices import notice_text
from profkit.report.text import clean
from profkit.report.wording.accounts import WAITED_FOR, waterfall
from profkit.report.wording.advice import advice_blocks
from profkit.report.wording.evidence import EvidenceTexts, evidence_texts
from profkit.report.wording.explain import brief_explanation
from profkit.report.wording.functions import display_name, location
from profkit.report.wording.verdicts import comparison_block, run_block
from profkit.verdict.account import Account
from profkit.verdict.alone import READINGS_ALONE
from profkit.verdict.readings import READINGS
from profkit.verdict.rules import RULES, RULES_ALONE, RULES_OF_ESTIMATES
from profkit.verdict.types import Diff, Evidence, RunVerdict, Verdict

_Part: TypeAlias = "Block | Section"
#: Most lines of each part.
FUNCTIONS = 5
FUNCTIONS_ABOVE_LINES = 3
EVIDENCE = 3
ADVICE = 4
WARNINGS = 2
#: Part of the account's greatest step below which a step gets no line.
LEAST_STEP = 0.05
#: Part of the greatest time, or change, below which a function gets no line.
LEAST_PART = 0.01
#: Comparability score below which the reader is warned before the answer.
HARDLY_COMPARABLE = 0.5
#: Kinds of advice that always get a line.
_LAST = ("not-the-code", "verify")
_FACTS = ("command", "time", "GPU", "functions", "capture", "exit status")


def brief_diff(diff: Diff, *, explain: bool = False) -> Document:
    """Return a comparison's answer; `explain` shows only the rules that hold and what others lack."""
    verdict = diff.verdict
    head = Section("", (replace(comparison_block(diff), cause=""), *_doubts(diff)))
    if explain:
        rules = (*RULES, *RULES_OF_ESTIMATES)
        return _screen(head, *brief_explanation(rules, READINGS, verdict.checks, verdict.findings))
    if verdict.rule == "unfinished":  # whatever differs besides may be due to that
        return _screen(head, _advice(verdict))
    parts: list[_Part] = [head]
    if verdict.rule != "identical" and not diff.table.by_share:
        parts.append(_steps(diff.account))
    parts.append(_evidence(verdict.evidence, alone=False))
    if verdict.cause != "no-change":
        lines, imports = line_sections(diff.lines, brief=True), import_change_line(diff)
        parts += [_changed(diff, _room(lines or imports)), *lines, Note(imports)]
    return _screen(*parts, _advice(verdict))


def brief_run(run: Run, judged: RunVerdict, by: str = "tottime", *, explain: bool = False) -> Document:
    """Return one run's answer, for the processes in `run`; `by` is ``tottime`` or ``cumtime``."""
    from profkit.report.showdoc import run_facts, run_warnings

    functions = ranked_run(run, by)
    verdict = judged.verdict
    answer = (replace(block, cause="") for block in run_block(judged))
    facts = tuple(item for item in run_facts(run, functions) if item[0] in _FACTS)
    parts: list[_Part] = [Section("", (*answer, Facts(facts)))]
    if explain:
        findings = () if verdict is None else verdict.findings
        return _screen(*parts, *brief_explanation(RULES_ALONE, READINGS_ALONE, judged.checks, findings))
    if not judged.account.merged and judged.account.candidate_s > 0:
        parts.append(_steps(judged.account))
    every = run_warnings(run)
    left = len(every) - WARNINGS
    more = (f"and {units.counted(left, 'more warning')}",) if left > 0 else ()
    parts += [
        _evidence(() if verdict is None else verdict.evidence, alone=True),
        Bullets((*every[:WARNINGS], *more)),
    ]
    # Lines explain self time and waits, not a lack of CPUs.
    waited = verdict is not None and verdict.cause in _WAITING
    lines = line_sections(judged.lines if verdict is None or waited else None, brief=True)
    table = _off_the_cpu(judged.account, None, _room(lines)) if waited else Table((), ())
    return _screen(
        *parts,
        *gpu_sections(run.gpu, FUNCTIONS_ABOVE_LINES),
        table if table.rows else _ranked(functions, by, _room(lines)),
        *lines,
        Note(import_line(imports_of(run, run.processes))),
        _advice(verdict),
    )


#: Notices about the comparison that report no loss of data.
_NOTHING_LOST = frozenset(("native-functions-folded",))

#: Causes that mean waiting off the CPU.
_WAITING = frozenset(("blocked", "data-starvation", "interpreter-lock"))
_OFF = ("blocked", "gil", "loading", "imbalance")


def _screen(*parts: _Part) -> Document:
    sections = (part if isinstance(part, Section) else Section("", (part,)) for part in parts)
    return replace(laid_out("", *sections), brief=True)


def _room(below: Sequence[object]) -> int:
    """Return how many functions fit above the lines of one, or a line about imports."""
    return FUNCTIONS_ABOVE_LINES if below else FUNCTIONS


def _steps(account: Account) -> Waterfall:
    whole = waterfall(account)
    greatest = max((abs(step.seconds) for step in whole.steps), default=0.0)
    kept = tuple(step for step in whole.steps if abs(step.seconds) >= LEAST_STEP * greatest)
    return replace(whole, steps=kept, note="")


def _doubts(diff: Diff) -> tuple[Note, ...]:
    """Return what to know before trusting the answer: lost data, and sides that hardly compare."""
    found, notes = diff.comparability, []
    lost = [clean(notice_text(notice)) for notice in diff.warnings if notice.code not in _NOTHING_LOST]
    if lost:
        more = f" And {len(lost) - 1} more: see --full." if len(lost) > 1 else ""
        notes.append(Note(f"{lost[0]}.{more}", "unsure"))
    if found.score < HARDLY_COMPARABLE and found.warnings:
        ways = units.counted(len(found.warnings), "way")
        notes.append(Note(f"The sides differ in {ways}: see --full.", "unsure"))
    return tuple(notes)


def _evidence(evidence: Sequence[Evidence], *, alone: bool) -> Table:
    def said(texts: EvidenceTexts) -> str:
        if alone or not texts.baseline or texts.baseline == texts.candidate:
            return texts.candidate or texts.says
        return f"{texts.baseline} → {texts.candidate}"

    return Listed(map(evidence_texts, evidence[:EVIDENCE])).table(
        Of("evidence", lambda texts: texts.signal), Of("", said, "prose")
    )


def _off_the_cpu(account: Account, table: DiffTable | None, most: int) -> Table:
    """Return the functions in which the critical path was off the CPU, or longer than before."""
    lost, what, names = dict[int, float](), dict[int, str](), dict[int, str]()
    for bucket in (bucket for bucket in account.buckets if bucket.name in _OFF):
        for part in bucket.parts:
            if part.row < 0 or part.kind != "function":
                continue
            if part.seconds > lost.get(part.row, 0.0):
                what[part.row] = WAITED_FOR.get("gil" if bucket.name == "gil" else part.what, "")
            lost[part.row] = lost.get(part.row, 0.0) + part.seconds
            names[part.row] = part.name
    order = sorted(lost, key=lambda row: -lost[row])[:most]
    least = max(noise.MIN_SECONDS, LEAST_PART * max(lost.values(), default=0.0))

    def where(row: int) -> str:
        return "" if table is None else location(table.keys[row], table.file[row], table.line[row])

    return Listed(row for row in order if lost[row] >= least).table(
        Of("function", lambda row: display_name(names[row]), "name"),
        Of("off the CPU", lambda row: lost[row], "seconds", there=table is None),
        Of("off the CPU", lambda row: Pair(0.0, lost[row]), "change", there=table is not None),
        Of("waiting for", lambda row: what[row], "text", 1),
        Of("where", where, "path", 3),
    )


def _changed(diff: Diff, most: int) -> Table:
    """Return the functions that changed most; where waiting is the cause, those that waited longer."""
    off_cpu = diff.verdict.cause in _WAITING and diff.verdict.rule != "reading"
    if off_cpu and (found := _off_the_cpu(diff.account, diff.table, most)).rows:
        return found
    table, by = diff.table, diff.ranking.by
    before, after = seconds_by(table.baseline, by), seconds_by(table.candidate, by)
    change = after - before
    least = max(noise.MIN_SECONDS, LEAST_PART * float(np.abs(change).max(initial=0.0)))
    order = takewhile(lambda i: abs(change[i]) >= least, np.argsort(-np.abs(change), kind="stable").tolist())
    working = (i for i in order if not waits_only(table, i))
    side, own = table.candidate, by == "tottime"
    title = "self time" if own else "cumtime"
    was, now = table.baseline.share, side.share
    waited, whole = (side.wait, side.tottime) if own else (side.cumwait, side.cumtime)
    return Listed(islice(working, most)).table(
        Of("function", lambda i: display_name(table.name[i]), "name"),
        Of(title, lambda i: Pair(float(before[i]), float(after[i])), "change"),
        Of("per call", lambda i: float(table.per_call_ratio[i]), "factor", 1, there=not table.by_share),
        Of("share", lambda i: Pair(float(was[i]), float(now[i])), "share", 1, there=table.by_share),
        Of("queued", lambda i: None if waited is None else _queued(waited[i], whole[i]), "share", 2),
        Of("where", lambda i: location(table.keys[i], table.file[i], table.line[i]), "path", 3),
        tone=lambda i: "bad" if table.anomalous[i] and change[i] > 0 else "",
    )


def _queued(wait: float, whole: float) -> float | None:
    """Return the part of a function's self time, or of its cumtime, that was queued for a CPU."""
    return min(1.0, float(wait / whole)) if whole > 0 else None


def _ranked(functions: Ranked, by: str, most: int) -> Table:
    """Return the most costly functions, without waits by design."""
    shown: list[FunctionRow] = []
    least = noise.MIN_SECONDS
    for row in functions.rows():
        if row.waits:
            continue
        seconds = row.cumtime if by == "cumtime" else row.active
        if len(shown) == most or seconds < least:
            break
        least = max(least, LEAST_PART * seconds)
        shown.append(row)

    def queued(row: FunctionRow) -> float | None:
        waited, whole = (row.cumwait, row.cumtime) if by == "cumtime" else (row.wait, row.tottime)
        return None if waited is None else _queued(waited, whole)

    return Listed(shown).table(
        Of("function", lambda row: display_name(row.name), "name"),
        Of("active", lambda row: row.active, "seconds", there=by == "tottime"),
        Of("cumtime", lambda row: row.cumtime, "seconds", there=by == "cumtime"),
        Of("share", share_of(functions, by), "share", 1),
        Of("queued", queued, "share", 2),
        Of("where", lambda row: location(row.key, row.file, row.line), "path", 3),
    )


def _advice(verdict: Verdict | None) -> _Part:
    if verdict is None or not verdict.advice:
        return Note("--full prints the whole report.")
    title = "What to do next (--full prints the whole report)"
    # `verify` stands last; `not-the-code` always has a line.
    last = [advice for advice in verdict.advice if advice.kind in _LAST]
    first = [advice for advice in verdict.advice if advice.kind not in _LAST]
    return Section(title, advice_blocks((*first[: ADVICE - len(last)], *last)), role="advice")
