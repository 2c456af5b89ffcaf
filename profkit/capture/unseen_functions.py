"""Finds functions of the program that samples missed: a later comparison asks whether their source changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from profkit.capture.program_files import program_files
from profkit.capture.source_cache import Sources
from profkit.model import Process, Thread
from profkit.model.definitions import Definition, name_digest

#: Most functions of a run that are listed; a larger program is listed in part.
MOST = 5_000


def with_definitions(processes: Sequence[Process], sources: Sources) -> list[Process]:
    """Return processes that list, in the first sampled thread of a file, what this file defines and no thread has."""
    sampled = [any(tier.kind == "sampled" for tier in process.tiers) for process in processes]
    if not any(sampled):
        return list(processes)
    known = {code for process in processes for thread in process.threads for code in _functions(thread)}
    done: set[str] = set()
    left = MOST

    def listed(process: Process, thread: Thread) -> Thread:
        nonlocal left
        found: list[Definition] = []
        for path, row in program_files(process, (thread,)):
            if path in done:
                continue
            done.add(path)
            found += [
                Definition(row, name_digest(qualname), digest)
                for qualname, digest in sources.definitions(path).items()
                if (path, qualname) not in known
            ]
        found = found[:left]
        left -= len(found)
        return replace(thread, definitions=tuple(found)) if found else thread

    return [
        replace(process, threads=tuple(listed(process, thread) for thread in process.threads))
        if is_sampled
        else process
        for process, is_sampled in zip(processes, sampled, strict=True)
    ]


def _functions(thread: Thread) -> set[tuple[str, str]]:
    """Return file and qualified name, or name, of the functions of a thread."""
    profile = thread.profile
    columns = (profile.file, np.where(profile.qualname > 0, profile.qualname, profile.name))
    pairs = np.unique(np.stack(columns, axis=1), axis=0) if len(profile) else np.zeros((0, 2), np.int64)
    return {(profile.strings[file], profile.strings[name]) for file, name in pairs.tolist()}
