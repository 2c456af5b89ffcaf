"""Tried settings and advice in words: which is best, by how much, and what the runs do not show."""

from __future__ import annotations

import math

from profkit.measure.intervals import Estimate
from profkit.report import units
from profkit.report.document import VerdictBlock
from profkit.report.text import clean
from profkit.study.setting_results import Cell, Results
from profkit.study.verify import LOOKS, Plan, Tried

#: What a setting's runs lacked, by cause and kind of their verdict.
LACKED = {
    ("contention", "self-oversubscription"): "CPUs (itself)",
    ("contention", "external-load"): "CPUs (others)",
    ("contention", "cpu-quota"): "CPUs (quota)",
    ("contention", ""): "CPUs",
    ("data-starvation", ""): "data",
    ("blocked", ""): "I/O, locks or sleep",
}


def label_of(study: Results, cell: Cell) -> str:
    """Return a setting as people write it: ``workers=2 OMP_NUM_THREADS=1``."""
    return " ".join(f"{p.name}={v}" for p, v in zip(study.parameters, cell.setting, strict=True))


def figure(study: Results, value: float) -> str:
    if study.objective.seconds:
        return units.seconds(value)
    return f"{value:.4g}" if math.isfinite(value) else units.UNKNOWN


def interval_text(study: Results, cell: Cell) -> str:
    if not math.isfinite(cell.low):
        return ""
    return f"{figure(study, cell.low)} – {figure(study, cell.high)}"


def study_verdict(study: Results) -> VerdictBlock:
    if study.best is None or study.advised is None:
        return _nothing(study)
    best, base, advised = (study.cells[i] for i in (study.best, study.baseline, study.advised))
    known = math.isfinite(study.spread)
    if not known:
        more = "Each setting ran once, so the noise is not known. Repeat the runs before you rely on this."
    else:
        more = _others(sum(cell.best for cell in study.cells) - 1)
    if best is base or (base.best and known):
        if advised is not base:
            more = f"{label_of(study, advised)} takes fewer resources and cannot be told apart. {more}"
        return _no_better(study, base, best, more)
    if advised is not best:
        label = label_of(study, best)
        more = f"{label} has the best median; this takes fewer resources and cannot be told apart. {more}"
    change = (
        f"{figure(study, base.median)} with {label_of(study, base)} → {figure(study, advised.median)}."
        if math.isfinite(base.median)
        else f"It took {figure(study, advised.median)}; {label_of(study, base)} never succeeded."
    )
    gain = _times(study, advised.speedup)
    headline = f"Best: {label_of(study, advised)}" + (f", {gain}" if gain else "")
    return VerdictBlock(headline, f"{change} {more}", "good" if known else "unsure")


def confirmed_verdict(study: Results, gain: Estimate) -> VerdictBlock:
    """Return the answer after the best settings ran again; `gain` is the factor over the default."""
    if study.best is None or study.advised is None:
        return _nothing(study)
    base, advised = study.cells[study.baseline], study.cells[study.advised]
    if not (math.isfinite(base.median) and math.isfinite(study.spread)):
        return study_verdict(study)  # the default never succeeded, or the noise is not known
    runs = f"{units.counted(len(base.times), 'run')} each, in turn"
    if base.best or not gain.low > 1:
        return _no_better(study, base, study.cells[study.best], f"Median of {runs}.")
    change = f"{figure(study, base.median)} → {figure(study, advised.median)}"
    interval = f"{units.factor(gain.value)} [{gain.low:.2f}, {gain.high:.2f}]"
    return VerdictBlock(
        f"Confirmed: {label_of(study, advised)}, {_times(study, gain.value)}",
        f"{change}, {interval} against the default {label_of(study, base)}; {runs}.",
        "good",
    )


def _nothing(study: Results) -> VerdictBlock:
    failed = sum(cell.failed + cell.ended_early for cell in study.cells)
    return VerdictBlock(
        "No setting succeeded", f"{units.counted(failed, 'run')} failed or took too long.", "bad"
    )


def _no_better(study: Results, base: Cell, best: Cell, more: str) -> VerdictBlock:
    least = (
        ""
        if best is base
        else f" The best median is that of {label_of(study, best)}, {figure(study, best.median)}."
    )
    said = f"Its median is {figure(study, base.median)}.{least} {more}"
    if all(cell is base or not math.isfinite(cell.median) for cell in study.cells):
        return VerdictBlock(f"Only {label_of(study, base)} has run so far", said, "unsure")
    known = math.isfinite(study.spread)
    beyond = " beyond the noise" if known else ""
    return VerdictBlock(
        f"No setting is better than {label_of(study, base)}{beyond}", said, "good" if known else "unsure"
    )


def _others(count: int) -> str:
    if count == 0:
        return "All other settings are worse beyond the noise."
    return f"{units.counted(count, 'other setting')} cannot be told apart from the best by these runs."


def _times(study: Results, ratio: float) -> str:
    if not math.isfinite(ratio):
        return ""
    return f"{units.factor(ratio)} {'faster' if study.objective.seconds else 'better'}"


def study_notes(study: Results) -> list[str]:
    notes = []
    disturbed = sum(cell.disturbed for cell in study.cells)
    if disturbed:
        runs = units.counted(disturbed, "run")
        notes.append(
            f"{runs} shared the CPUs with other processes on every attempt; repeat the study on an idle "
            "machine."
        )
    for cell in study.cells:
        if cell.failed:
            runs = units.counted(cell.failed, "run")
            notes.append(f"{label_of(study, cell)}: {runs} failed ({clean(cell.problem)}).")
    early = [label_of(study, cell) for cell in study.cells if cell.ended_early]
    if early:
        what = units.counted(len(early), "run was", "runs were")
        notes.append(f"{what} ended early for being too slow to be the best: {'; '.join(early)}.")
    missing = sum(not (cell.times or cell.failed or cell.ended_early) for cell in study.cells)
    if missing:
        settings = units.counted(missing, "setting has", "settings have")
        notes.append(f"{settings} no run yet: run the same command again to continue.")
    return notes


#: If a run takes less than this part of its recorded time, the cause of its slowness is gone.
_FASTER_NOW = 0.7
#: Factor between an interval's ends from which it is not printed.
_MOST_SPAN = 100.0
#: Seconds from which an expected time is given in minutes.
_MINUTES_FROM_S = 120.0
_HEADLINES = {
    "helps": "The advice helps",
    "no-better": "No better",
    "worse": "The advice makes it slower",
    "undecided": "Not decided in time",
}


def tried_verdict(tried: Tried, predicted_s: float, least_s: float = 0.0) -> VerdictBlock:
    """Return the answer; `predicted_s` is the greatest predicted gain, NaN if unknown, `least_s` the least."""
    if tried.outcome == "fails":
        return VerdictBlock(
            "The run with the advice fails", f"{clean(tried.after.problem) or 'it failed'}.", "bad"
        )
    said = "Stopped before it was decided" if tried.stopped and tried.outcome == "undecided" else None
    headline = f"{said or _HEADLINES[tried.outcome]}: {_change(tried)}"
    most = units.from_to(least_s, predicted_s, "to") if least_s else f"up to {units.seconds(predicted_s)}"
    predicted = f"predicted {most}, " if math.isfinite(predicted_s) else ""
    counts = sorted({len(tried.before.times), len(tried.after.times)})
    runs = "–".join(map(str, counts)) + (" run" if counts == [1] else " runs")
    said = f"{predicted}measured {units.seconds(tried.gain_s)} saved; medians of {runs} each, in turn."
    tone = {"helps": "good", "worse": "bad"}.get(tried.outcome, "unsure")
    return VerdictBlock(headline, said[:1].upper() + said[1:], tone)


def _change(tried: Tried) -> str:
    before, after = units.seconds(tried.before.median), units.seconds(tried.after.median)
    ratio = tried.ratio
    known = math.isfinite(ratio.low) and ratio.high < _MOST_SPAN * ratio.low
    interval = f" [{ratio.low:.2f}, {ratio.high:.2f}]" if known else ""
    return f"{before} → {after}, {ratio.value:.2f}×{interval}"


def plan_line(plan: Plan) -> str:
    """Return what will be run and for how long, to print before the first run."""
    line = f"as it was and with the advice, in turn: {2 * LOOKS[0]} to {2 * LOOKS[-1]} runs"
    if plan.shortest_s > plan.limit_s:
        needed = math.ceil(plan.shortest_s)
        return f"{line}; an answer needs at least {_about(plan.shortest_s)}: use --limit {needed}"
    shortest, longest = _about(plan.shortest_s), _about(plan.longest_s)
    return f"{line}, {shortest} to {longest}; Ctrl-C ends it and prints what is known"


def _about(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= _MINUTES_FROM_S else f"{max(1.0, seconds):.0f} s"


def so_far(tried: Tried) -> str:
    return f"after {units.counted(len(tried.before.times), 'round')}: {_change(tried)}"


def tried_notes(tried: Tried, recorded_s: float) -> list[str]:
    notes = []
    if tried.before.median < _FASTER_NOW * recorded_s:
        now, then = units.seconds(tried.before.median), units.seconds(recorded_s)
        notes.append(
            f"Without the advice it takes {now} now, but took {then} when captured: the cause is gone."
        )
    if tried.disturbed:
        runs = units.counted(tried.disturbed, "run")
        notes.append(f"{runs} shared the CPUs with other processes: repeat this on an idle machine.")
    return notes
