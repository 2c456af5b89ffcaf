"""Rules of ``inconclusive``, for sampled sides or a known cost of capture, which leave no answer."""

from __future__ import annotations

from profkit.verdict.rule import Rule, more, yes

CAPTURE_ITSELF = Rule(
    id="capture-itself",
    cause="inconclusive",
    about="capture overhead changed the walls more than the program did",
    conditions=(yes("account.capture-beyond"), more("account.capture", "part.most")),
    evidence=("wall", "capture"),
    advice=("capture-sampled",),
    numbers=("account.capture",),
)

CALLS_UNKNOWN = Rule(
    id="calls-unknown",
    cause="inconclusive",
    about="calls are estimates or not known, so more calls and a higher cost per call are both possible",
    conditions=(yes("calls.undecided"),),
    evidence=("wall", "calls-known", "calls-between"),
    advice=("capture-exact",),
    numbers=("calls.known", "calls.low", "calls.high", "calls.traced"),
)
