"""What a comparison's remote reader needs: differences around the program, and how to reproduce it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from profkit.measure.run_settings import set_by_hand
from profkit.model import Run
from profkit.report import units
from profkit.report.document import Block, Bullets, Note, Section
from profkit.report.listed import Listed, Of
from profkit.report.text import clean
from profkit.verdict.types import Diff


def setting_sections(diff: Diff, limit: int) -> list[Section]:
    """Return what differs around the program."""
    settings = diff.settings
    if diff.baseline.inventory is not None and diff.candidate.inventory is not None:
        # They are in a table of their own.
        settings = tuple(s for s in settings if s.kind not in ("variable", "pool"))
    if not settings:
        return []
    listed = Listed(settings, limit, "differences")
    table = listed.table(
        Of("", lambda s: s.kind, "text", 1),
        Of("what", lambda s: clean(s.name)),
        Of("baseline", lambda s: clean(s.baseline) or units.UNKNOWN, "prose"),
        Of("candidate", lambda s: clean(s.candidate) or units.UNKNOWN, "prose"),
        notes=(listed.cut,),
    )
    return [Section("What is different around the program", (table,))]


def reproduce_section(diff: Diff, attachment: str) -> Section:
    """Return how to reproduce both runs, for a reader with only this report."""
    commands = []
    notes = []
    for name, side in (("baseline", diff.baseline), ("candidate", diff.candidate)):
        if not side.command:
            notes.append(f"The {name} is a profile that does not say what was run.")
            continue
        commands.append(_captured(name, side.command, side.environment, side.runs))
    if attachment:
        notes.append(_attached(attachment, "the runs of both sides"))
    commands.append(again(diff.baseline.runs, diff.candidate.runs, packed=bool(attachment)))
    return _reproduced(notes, commands)


def reproduce_run(run: Run, attachment: str) -> Section:
    """Return how to reproduce one run, and where it is."""
    manifest = run.manifest
    commands = [_captured("run", manifest.command, manifest.environment, 1)] if manifest is not None else []
    return _reproduced([_attached(attachment, "the run")], [*commands, again()])


def again(*runs: int, packed: bool = True) -> str:
    """Return the command that makes a report again; `runs` counts each side's, empty for one run.

    `packed`: runs are stored as in an archive, with replicates in a folder.
    """
    if not runs:
        return "profkit show run.prof"
    sides = []
    for name, count in zip(("baseline", "candidate"), runs, strict=True):
        several = name if packed else f"'{name}-*.prof'"
        sides.append(f"{name}.prof" if count == 1 else several)
    return f"profkit diff {' '.join(sides)}"


def _captured(name: str, command: Sequence[str], environment: Mapping[str, str], runs: int) -> str:
    """Return the command that captures a run as `name`."""
    words = [f"{n}={shlex.quote(v)}" for n, v in set_by_hand(environment).items()]
    repeat = [f"--repeat {runs}"] if runs > 1 else []
    words += ["profkit capture", "-o", f"{name}.prof", *repeat, "--", shlex.join(command)]
    return clean(" ".join(words))


def _attached(attachment: str, what: str) -> str:
    return f"{clean(attachment)} holds {what}; in the folder in it, the last command makes this report again."


def _reproduced(notes: Sequence[str], commands: Sequence[str]) -> Section:
    blocks: list[Block] = [Note(" ".join(notes))] if notes else []
    return Section("How to reproduce", (*blocks, Bullets(tuple(commands), commands=True)), role="reproduce")
