"""The rule of ``environment``: a setting for debugging makes the same code slower."""

from __future__ import annotations

from profkit.verdict.rule import Rule, less, more, yes

SLOWING_SETTINGS = Rule(
    id="slowing-settings",
    cause="environment",
    about=(
        "a variable or an option of the interpreter, for debugging mostly, is known to make programs slower; only "
        "the candidate has it, and most of the lost time is more calls, or cost per call"
    ),
    bucket="speed",
    part="account.calls-and-cost",
    conditions=(
        yes("settings.slow"),
        less("pair.residue", "programs.residue"),
        more("time.slowdown", "time.slower"),
        more("account.calls-and-cost", "part.most"),
    ),
    confidence=0.95,
    evidence=("slowing-settings", "wall"),
    advice=("same-settings",),
    numbers=("settings.named", "time.slowdown"),
)
