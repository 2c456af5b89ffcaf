"""Texts of a run from which masking learns: commands, hosts, files, paths; `text_mask` judges them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from profkit.identity.function_keys import infer_roots
from profkit.identity.rooted_paths import joined_roots
from profkit.model import Notice, Roots, Run


def commands_of(run: Run) -> list[tuple[str, ...]]:
    """Return every distinct command line of a run, the captured one first."""
    commands = (run.command, *(process.command for process in run.processes))
    return list(dict.fromkeys(tuple(command) for command in commands if command))


def assigned(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield every name and value that a command line assigns; a word after an option may be its value."""
    option = ""
    for word in words:
        if option and not word.startswith("--"):
            yield option, word
        name, sign, value = word.partition("=")
        if sign and len(name) <= 100:
            yield name, value
        option = word if word[:1] == "-" and not sign and len(word) <= 100 else ""
        if not word.startswith("--") and len(word) > 2 and word[:1] == "-":
            yield word[:2], word[2:]
            if word[:2] == "-u":
                yield "password", word[2:].partition(":")[2]


def host_names(run: Run) -> Iterator[str]:
    hosts = (run.host, *(process.host for process in run.processes))
    yield from (host.name for host in hosts if host is not None)
    yield from run.machines


def users_of(run: Run) -> Iterator[str]:
    """Yield the users whose processes ran beside a run."""
    for machine in (run.machine, *run.machines.values()):
        if machine is not None and machine.neighbours is not None:
            yield from (one.user for one in machine.neighbours.listed if not one.user.isdigit())


def files_of(run: Run) -> list[str]:
    """Return the distinct files of a run's functions, in the order of their tables."""
    files: dict[str, None] = {}
    for profile in run.profiles:
        files.update(dict.fromkeys(profile.strings[at] for at in np.unique(profile.file).tolist()))
    return list(files)


def paths_of(run: Run) -> list[str]:
    """Return every text of a run that may contain a path; the files of a table are one text."""
    texts = [run.path, *_texts(run.warnings)]
    if run.manifest is not None:
        texts += [run.manifest.cwd, *run.manifest.environment.values()]
    for process in run.processes:
        roots = process.roots
        texts += (*roots.stdlib, *roots.site, *roots.project)
        texts += (*_texts(process.notes), *process.environment.values())
    # One joined text is searched faster than many; a line break counts as a word's beginning.
    texts += [
        "\n".join(word for word in command if "/" in word or "\\" in word) for command in commands_of(run)
    ]
    # Homes are directories, and many files share one.
    directories = {file.rpartition("/")[0] + "/" if "/" in file else file for file in files_of(run)}
    return [*texts, "\n".join(directories)]


def _texts(notices: Iterable[Notice]) -> Iterator[str]:
    for notice in notices:
        yield notice.subject
        for value in notice.numbers.values():
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, str):
                    yield item


def roots_of(run: Run) -> Roots:
    """Return the roots of all processes of a run; project roots are inferred if none was recorded."""
    known = joined_roots(process.roots for process in run.processes)
    if known.project:
        return known
    return replace(known, project=joined_roots(map(infer_roots, run.profiles)).project)
