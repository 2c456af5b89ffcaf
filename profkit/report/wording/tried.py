"""Advice that was tried, in words: predicted gain and measured effect."""

from __future__ import annotations

import math

from profkit.report import units
from profkit.report.document import VerdictBlock
from profkit.study.verify import Plan, Tried

#: Part of what a run took when it was recorded below which what made it slow is not there now.
_FASTER_NOW = 0.7
#: Factor between the ends of an interval from which it is not printed.
_MOST_SPAN = 100.0
#: Seconds from which an expected time is said in minutes.
_MINUTES_FROM_S = 120.0
_HEADLINES = {
    "helps": "The advice helps",
    "no-better": "No better",
    "worse": "The advice makes it slower",
    "undecided": "Not decided in the time",
}


def tried_verdict(tried: Tried, predicted_s: float) -> VerdictBlock:
    """Return the answer; `predicted_s` is the predicted gain in seconds, NaN where not known."""
    if tried.outcome == "fails":
        return VerdictBlock("With the advice it does not end well", f"{tried.problem or 'it failed'}.", "bad")
    said = "Stopped before it was decided" if tried.stopped and tried.outcome == "undecided" else None
    headline = f"{said or _HEADLINES[tried.outcome]}: {_change(tried)}"
    predicted = f"predicted {units.seconds(predicted_s)}, " if math.isfinite(predicted_s) else ""
    counts = sorted({len(tried.before_s), len(tried.after_s)})
    runs = "–".join(str(count) for count in counts)
    said = (
        f"{predicted}measured {units.seconds(tried.gain_s)} won back; medians of {runs} runs each, in turn."
    )
    tone = {"helps": "good", "worse": "bad"}.get(tried.outcome, "unsure")
    return VerdictBlock(headline, said[:1].upper() + said[1:], tone)


def _change(tried: Tried) -> str:
    before, after = units.seconds(tried.before_median_s), units.seconds(tried.after_median_s)
    ratio = tried.ratio
    # An interval that spans everything says no more than that it is not decided.
    known = math.isfinite(ratio.low) and ratio.high < _MOST_SPAN * ratio.low
    interval = f" [{ratio.low:.2f}, {ratio.high:.2f}]" if known else ""
    return f"{before} → {after}, {ratio.value:.2f}×{interval}"


def plan_line(plan: Plan) -> str:
    """Return what will be run and for how long, for printing before the first run."""
    line = f"as it was and with the advice, in turn: {plan.fewest} to {plan.most} runs"
    if plan.shortest_s > plan.limit_s:
        needed = math.ceil(plan.shortest_s)
        return f"{line}; no answer is expected before {_about(plan.shortest_s)}: --limit {needed}"
    shortest, longest = _about(plan.shortest_s), _about(plan.longest_s)
    return f"{line}, {shortest} to {longest}; Ctrl-C ends it and prints what is known"


def _about(seconds: float) -> str:
    """Return an expected time, marked as approximate."""
    return f"{seconds / 60:.0f} min" if seconds >= _MINUTES_FROM_S else f"{max(1.0, seconds):.0f} s"


def so_far(tried: Tried) -> str:
    """Return what the runs have shown after some rounds."""
    rounds = len(tried.before_s)
    return f"after {rounds} {'round' if rounds == 1 else 'rounds'}: {_change(tried)}"


def tried_notes(tried: Tried, recorded_s: float) -> list[str]:
    """Return notes on the runs; `recorded_s` is the recorded run's time in seconds."""
    notes = []
    if tried.before_median_s < _FASTER_NOW * recorded_s:
        now, then = units.seconds(tried.before_median_s), units.seconds(recorded_s)
        notes.append(
            f"As it was it takes {now} now, and took {then} when it was captured: what made it slow is not there now."
        )
    if tried.disturbed:
        runs = "1 run" if tried.disturbed == 1 else f"{tried.disturbed} runs"
        notes.append(
            f"{runs} shared the CPUs with other processes each time: repeat this on an idle machine."
        )
    return notes
