"""Studies of settings in words: what is best, by how much, and what that does not show."""

from __future__ import annotations

import math

from profkit.report import units
from profkit.report.document import VerdictBlock
from profkit.study.cells import Cell, Results

__all__ = ["LACKED", "interval_text", "label_of", "study_notes", "study_verdict"]

#: What a setting's runs lacked by themselves, by cause and kind of their verdict.
LACKED = {
    ("contention", "self-oversubscription"): "CPUs, taken by itself",
    ("contention", "external-load"): "CPUs, taken by other processes",
    ("contention", "cpu-quota"): "CPUs, by its quota",
    ("contention", ""): "CPUs",
    ("data-starvation", ""): "data",
    ("blocked", ""): "what it was blocked on",
}


def label_of(study: Results, cell: Cell) -> str:
    """Return how a person reads a setting: ``workers=2 OMP_NUM_THREADS=1``."""
    return " ".join(f"{p.name}={v}" for p, v in zip(study.parameters, cell.setting, strict=True))


def interval_text(cell: Cell) -> str:
    """Return the interval of a median, empty where none is known."""
    if not math.isfinite(cell.low):
        return ""
    return f"{units.seconds(cell.low)} – {units.seconds(cell.high)}"


def study_verdict(study: Results) -> VerdictBlock:
    """Return the answer of a study."""
    if study.best is None:
        failed = sum(cell.failed for cell in study.cells)
        return VerdictBlock("No setting ended well", "", None, f"{failed} runs failed or took too long.", "bad")
    best, base = study.cells[study.best], study.cells[study.baseline]
    others = sum(cell.best for cell in study.cells) - 1
    if not math.isfinite(study.spread):
        more = "Each setting ran once: nothing is known of the noise. Repeat the runs before you rely on it."
    elif others:
        more = (
            f"{_settings(others)} cannot be told apart from it by these runs." if others > 1 else
            "One other setting cannot be told apart from it by these runs."
        )
    else:
        more = "All other settings are slower beyond the noise."
    if best is base or (base.best and math.isfinite(study.spread)):
        least = "" if best is base else f" The fastest median is that of {label_of(study, best)}."
        return VerdictBlock(
            f"No setting is faster than {label_of(study, base)} beyond the noise",
            "",
            None,
            f"It took {units.seconds(base.median)}.{least} {more}",
            "good",
        )
    gain = "" if not math.isfinite(best.speedup) else f", {units.factor(best.speedup)} faster"
    change = (
        f"{units.seconds(base.median)} with {label_of(study, base)} → {units.seconds(best.median)}."
        if math.isfinite(base.median)
        else f"It took {units.seconds(best.median)}; {label_of(study, base)} never ended well."
    )
    tone = "good" if math.isfinite(study.spread) else "unsure"
    return VerdictBlock(f"Best: {label_of(study, best)}{gain}", "", None, f"{change} {more}", tone)


def _settings(count: int) -> str:
    return f"{count} other settings"


def study_notes(study: Results) -> list[str]:
    """Return what a reader must know of the runs."""
    notes = []
    disturbed = sum(cell.disturbed for cell in study.cells)
    if disturbed:
        runs = "1 run" if disturbed == 1 else f"{disturbed} runs"
        notes.append(f"{runs} shared the CPUs with other processes each time; repeat the study on an idle machine.")
    for cell in study.cells:
        if cell.failed:
            runs = "1 run" if cell.failed == 1 else f"{cell.failed} runs"
            notes.append(f"{label_of(study, cell)}: {runs} did not end well ({cell.problem}).")
    missing = sum(not cell.times and not cell.failed for cell in study.cells)
    if missing:
        settings = "1 setting has" if missing == 1 else f"{missing} settings have"
        notes.append(f"{settings} no run yet: run the same command again to go on.")
    return notes
