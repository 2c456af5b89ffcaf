"""A report as a ticket for a reader elsewhere, and the archive's README; runs must be masked already."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from profkit.identity.rooted_paths import rooted
from profkit.measure.run_settings import set_by_hand
from profkit.model import SITE, Git, Host, Process, Run
from profkit.report import units
from profkit.report.document import Bullets, Column, Document, Note, Row, Section, Table, VerdictBlock
from profkit.report.listed import Listed, Of
from profkit.report.recorded_texts import files_of, roots_of
from profkit.report.text import clean
from profkit.verdict.types import Diff

#: Sections that stay open, in this order.
_OPEN = ("account", "advice", "reproduce")


def ticket_document(document: Document, runs: Mapping[str, Run]) -> Document:
    """Return a report as a ticket; `runs` has each side's first run by side name (empty for one run)."""
    answer, *others = document.sections
    verdicts = tuple(block for block in answer.blocks if isinstance(block, VerdictBlock))
    facts = tuple(block for block in answer.blocks if not isinstance(block, VerdictBlock))
    opened = [section for role in _OPEN for section in others if section.role == role]
    folded = [replace(section, detail=True) for section in others if section.role not in _OPEN]
    overview = Section("Overview", facts, detail=bool(verdicts))
    # Without a verdict, the overview is the answer.
    head = [Section("", verdicts)] if verdicts else [overview]
    sections = [*head, *opened, *_origin(runs), *([overview] if verdicts else []), *folded]
    return replace(document, sections=tuple(section for section in sections if section.blocks))


def _origin(runs: Mapping[str, Run]) -> list[Section]:
    """Return machines, versions and packages; empty for profiles that do not record them."""
    known = {name: run for name, run in runs.items() if run.manifest is not None}
    if not known:
        return []
    facts = {name: _facts(run) for name, run in known.items()}
    labels = list(dict.fromkeys(label for each in facts.values() for label in each))
    columns = (Column("", "text"), *(Column(name or "this run", "prose") for name in known))
    rows = tuple(
        Row((label, *(each.get(label, units.UNKNOWN) for each in facts.values()))) for label in labels
    )
    sections = [Section("Machines and versions", (Table(columns, rows),))]
    listed = {name: _listed(_packages(run)) for name, run in known.items()}
    if len(set(listed.values())) == 1:
        listed = {"": next(iter(listed.values()))}
    notes = tuple(Note(f"{name}: {text}" if name else text) for name, text in listed.items() if text)
    return [*sections, Section("All packages", notes, detail=True)]


def _listed(packages: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {packages[name]}" for name in sorted(packages, key=str.casefold))


def _facts(run: Run) -> dict[str, str]:
    manifest = run.manifest
    assert manifest is not None
    main = run.processes[0] if run.processes else Process()
    packages = _packages(run)
    git = manifest.git or Git()
    revision = git.get("revision", "")
    found = {
        "machine": clean(manifest.host.name),
        "CPU": clean(manifest.host.cpu_model),
        "CPUs": _cpus(manifest.host),
        "system": clean(manifest.host.system),
        "python": clean(main.python),
        "packages that it used": _listed(_used(run, packages)),
        "profkit": clean(manifest.profkit),
        "date": _date(manifest.started),
        "revision": f"{clean(revision)[:12]}{', with local changes' if git.get('dirty') else ''}"
        if revision
        else "",
    }
    return {label: text for label, text in found.items() if text}


def _date(started: str) -> str:
    """Return ``2026-11-22 12:01 UTC``; other forms are unchanged."""
    day, sign, time = clean(started).partition("T")
    return f"{day} {time[:5]} UTC" if sign and started.endswith(("+00:00", "Z")) else clean(started)


def _cpus(host: Host) -> str:
    parts = [str(host.cpus)] if host.cpus else []
    if host.affinity and host.affinity != host.cpus:
        parts.append(f"{host.affinity} of them usable")
    if host.quota_cpus:
        parts.append(f"quota of {host.quota_cpus:g}")
    return ", ".join(parts)


def _packages(run: Run) -> dict[str, str]:
    packages = run.manifest.packages if run.manifest is not None else {}
    return {clean(name): clean(version) for name, version in packages.items()}


def _used(run: Run, packages: Mapping[str, str]) -> dict[str, str]:
    """Return the packages with a function that ran, if named like their modules."""
    roots = roots_of(run)
    modules = set()
    for file in files_of(run):
        root, inside = rooted(file, roots)
        if root == SITE:
            modules.add(re.sub(r"\..*", "", inside.partition("/")[0]).lower())
    return {name: packages[name] for name in packages if re.sub(r"[-.]+", "_", name).lower() in modules}


# The archive ------------------------------------------------------------------------------------------------

#: What the members of an archive are, by suffix, and how they are opened.
_MEMBERS: Mapping[str, tuple[str, str]] = {
    ".md": ("the text of the ticket", "any editor"),
    ".html": ("the whole report with figures", "a browser; it needs no network"),
    ".json": ("the same for scripts (docs/json.md of profkit)", "`jq`, or any program that reads JSON"),
    ".prof": (
        "a run: functions, processes, counters",
        "`profkit show FILE`; `python -m pstats FILE`, snakeviz and others show its first process",
    ),
}
_MASKED = """\
Removed from every file here: home directories, user and host names, the working directory and the directory
of the program, secrets, and everything in command lines that is not known to be harmless. They are replaced
by `~`, `host-a`, `<project>`, `<site>`, `<dir>`, `<text 8>` and the like; equal placeholders stand for equal
texts. {names}
"""
_NAMES_SHOWN = "Names of functions, NVTX ranges, threads, packages and profiled files are unchanged."
_NAMES_HIDDEN = """\
In names of functions, NVTX ranges, threads, modules and profiled files, words that are not public
are pseudonyms such as `n_7ad4e92659`; a word has the same one in every file here.\
"""
_UNMASKED = "Nothing was masked: paths, users, host names and command lines are as they were recorded.\n"


def archive_readme(members: Sequence[str], *, masked: bool, names_hidden: bool = False, version: str) -> str:
    # Several runs of a side are in a folder.
    sides = list(dict.fromkeys(member.partition("/")[0] for member in members if member.endswith(".prof")))
    again = f"profkit {'diff' if len(sides) > 1 else 'show'} {' '.join(sides)}"
    lines = ["# A profkit ticket", "", f"Made by profkit {version}.", ""]
    lines += ["| file | what it is | open it with |", "|---|---|---|"]
    for member in members:
        what, opened = _MEMBERS["." + member.rpartition(".")[2]]
        lines.append(f"| `{member}` | {what} | {opened.replace('FILE', member)} |")
    removed = _MASKED.format(names=_NAMES_HIDDEN if names_hidden else _NAMES_SHOWN)
    lines += ["", "## What was masked", "", removed if masked else _UNMASKED]
    lines += ["## Recreate the report", "", "```sh", again, "```", ""]
    return "\n".join(lines)


def setting_sections(diff: Diff, limit: int) -> list[Section]:
    settings = diff.settings
    if diff.baseline.inventory is not None and diff.candidate.inventory is not None:
        # Pools and their variables have a table of their own.
        settings = tuple(s for s in settings if s.kind not in ("variable", "pool"))
    table = Listed(settings, limit, "differences").table(
        Of("", lambda s: s.kind, "text", 1),
        Of("what", lambda s: clean(s.name)),
        Of("baseline", lambda s: clean(s.baseline) or units.UNKNOWN, "prose"),
        Of("candidate", lambda s: clean(s.candidate) or units.UNKNOWN, "prose"),
    )
    return [Section("Differences in the environment", (table,))]


def reproduce_section(diff: Diff, attachment: str) -> Section:
    """Return how to reproduce both runs, for a reader with only this report."""
    commands, notes, files = [], [], []
    for name, side in (("baseline", diff.baseline), ("candidate", diff.candidate)):
        if side.command:
            commands.append(_captured(name, side.command, side.environment, side.runs))
        else:
            notes.append(f"The {name} is a profile that does not say what was run.")
        several = name if attachment else f"'{name}-*.prof'"
        files.append(f"{name}.prof" if side.runs == 1 else several)
    if attachment:
        notes.append(_attached(attachment, "the runs of both sides"))
    return _reproduced(notes, [*commands, f"profkit diff {' '.join(files)}"])


def reproduce_run(run: Run, attachment: str) -> Section:
    manifest = run.manifest
    commands = [_captured("run", manifest.command, manifest.environment, 1)] if manifest is not None else []
    return _reproduced([_attached(attachment, "the run")], [*commands, "profkit show run.prof"])


def _captured(name: str, command: Sequence[str], environment: Mapping[str, str], runs: int) -> str:
    words = [f"{n}={shlex.quote(v)}" for n, v in set_by_hand(environment).items()]
    repeat = [f"--repeat {runs}"] if runs > 1 else []
    words += ["profkit capture", "-o", f"{name}.prof", *repeat, "--", shlex.join(command)]
    return clean(" ".join(words))


def _attached(attachment: str, what: str) -> str:
    return f"{clean(attachment)} holds {what}. Run the last command in its folder to recreate this report."


def _reproduced(notes: Sequence[str], commands: Sequence[str]) -> Section:
    blocks = (Note(" ".join(notes)), Bullets(tuple(commands), commands=True))
    return Section("How to reproduce", blocks, role="reproduce")
