"""Rules of ``no-change``: one capture on both sides, nothing beyond noise, or no loss in every repeat."""

from __future__ import annotations

from profkit.verdict.rule import Rule, less, no, yes

#: Neither side queued much more than the other; otherwise something changed, whatever the totals say.
_QUEUE_ALIKE = (
    (yes("pair.plain"),),
    (less("main.wait-growth", "wait.much"), less("main.wait-fell", "wait.much")),
)
_NUMBERS = ("time.slowdown", "time.walls", "main.wait", "main.wait-before", "both.lacked-cpus")

IDENTICAL = Rule(
    id="identical",
    cause="no-change",
    about="both sides are the same capture, byte for byte",
    conditions=(yes("pair.identical"),),
    confidence=0.99,
    evidence=("self-time",),
)

WITHIN_NOISE = Rule(
    id="within-noise",
    cause="no-change",
    about="no function, order of functions or total moved beyond the noise",
    conditions=(
        yes("functions"),
        no("time.lost"),
        no("calls.differ"),
        no("order.any"),
        less("time.over-drift", "time.drift-or-own"),
        less("time.under-drift", "time.drift-or-own"),
    ),
    alternatives=(
        _QUEUE_ALIKE,
        # Without counters, only a smaller slow-down counts as none.
        ((yes("pair.counters"),), (less("time.slowdown", "time.sure-of-none"),)),
    ),
    doubts=(((yes("pair.plain"),), 0.6),),
    strength="no-change.strength",
    evidence=("distance", "wall"),
    advice=("capture-both", "more-runs-if-far"),
    numbers=(*_NUMBERS, "pair.counters"),
)

SAME_TOTAL = Rule(
    id="same-total",
    cause="no-change",
    about="functions moved, but no time was lost: some gained what others lost",
    requires=("pair.counters",),
    conditions=(
        yes("functions"),
        no("time.lost"),
        no("calls.differ"),
        yes("order.any"),
        less("time.slowdown", "time.noticed"),
        less("time.speedup", "time.slower"),
        less("pair.residue", "programs.residue"),
    ),
    alternatives=(_QUEUE_ALIKE,),
    confidence=0.8,
    evidence=("wall", "elsewhere"),
    numbers=_NUMBERS,
)

NOTHING_BEYOND = Rule(
    id="nothing-beyond",
    cause="no-change",
    about="neither a bucket of the account nor the total is beyond its noise",
    requires=("pair.counters",),
    unless=("within-noise", "same-total", "less-time"),
    conditions=(
        yes("functions"),
        no("time.lost"),
        yes("account.within-noise"),
        less("time.over-drift", "time.drift-or-own"),
        less("time.under-drift", "time.drift-or-own"),
        less("pair.residue", "programs.residue"),
    ),
    confidence=0.8,
    strength="no-change.strength",
    evidence=("wall", "main-wait", "elsewhere"),
    numbers=_NUMBERS,
)
