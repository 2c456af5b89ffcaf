"""Rules of ``environment``: a setting for debugging makes the same code slower, or a library runs other code."""

from __future__ import annotations

from profkit.verdict.rule import Rule, less, more, no, yes

SLOWING_SETTINGS = Rule(
    id="slowing-settings",
    cause="environment",
    about=(
        "a variable or an option of the interpreter, for debugging mostly, or a tool that runs the program is known "
        "to make programs slower; only the candidate has it, and most of the lost time is CPU time, or waiting for "
        "the interpreter's lock"
    ),
    bucket="speed",
    part="account.slowed",
    conditions=(
        yes("settings.slow"),
        less("pair.residue", "programs.residue"),
        more("time.slowdown", "time.slower"),
        more("account.slowed", "part.most"),
    ),
    confidence=0.95,
    evidence=("slowing-settings", "wall"),
    advice=("same-settings",),
    numbers=("settings.named", "time.slowdown"),
)

OTHER_LIBRARY_CODE = Rule(
    id="other-library-code",
    cause="environment",
    about=(
        "most of the added time is in modules of libraries that the baseline did not run, although the program and "
        "its command are the same: a compiled part is missing, or settings or inputs select another implementation"
    ),
    bucket="speed",
    part="library.new",
    unless=("changed-source", "throttling", "run-queue-wait"),
    conditions=(
        less("pair.residue", "programs.residue"),
        no("pair.python-differs"),
        no("command.differs"),
        more("time.slowdown", "time.slower"),
        more("library.new", "part.most"),
    ),
    confidence=0.85,
    evidence=("library", "wall"),
    advice=("compare-libraries",),
    numbers=("library.named", "library.new"),
)
