"""Stacks that py-spy sampled, as profiles; stacks that changed while they were read are left out."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from profkit.formats.foreign.stacks import Frame, Stack, profile_from_stacks
from profkit.model import Process, Thread

#: A profile's name: the kernel's number of the thread, up to Python 3.10 its address.
_THREAD = re.compile(r'Thread (\d{1,10}|0x[0-9A-F]{1,16}) "(.*)"', re.DOTALL)
#: From here on, lines are negative ones, which py-spy writes without sign.
_NO_LINE = 1 << 31


@dataclass(frozen=True, slots=True)
class Stacks:
    """Samples of one process: by thread, its name and a stack per round. `failed` rounds were not read."""

    threads: Mapping[str, tuple[str, Sequence[Stack]]]
    rounds: int
    failed: int = 0


def read_stacks(path: Path, failed: int = 0) -> Stacks:
    """Return py-spy's file of a process; raise `OSError`, or `ValueError` if it is not py-spy's."""
    try:
        data = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
        frames = [
            (str(f["file"] or "~"), int(f["line"] or 0), str(f["name"])) for f in data["shared"]["frames"]
        ]
        threads: dict[str, tuple[str, Sequence[Stack]]] = {}
        for profile in data["profiles"]:
            named = _THREAD.fullmatch(profile["name"])
            if named is None:
                raise ValueError(f"a profile is called {profile['name']!r}")
            threads[named[1]] = named[2], [tuple(frames[i] for i in stack) for stack in profile["samples"]]
    except (KeyError, TypeError, IndexError, OverflowError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"not py-spy's speedscope file: {error!r}") from None
    return Stacks(threads, max((len(stacks) for _, stacks in threads.values()), default=0), failed)


def joined(parts: Sequence[Stacks]) -> Stacks:
    """Join the samples of one process from several times."""
    threads: dict[str, tuple[str, Sequence[Stack]]] = {}
    for part in parts:
        for thread, (name, stacks) in part.threads.items():
            threads[thread] = name, [*threads.get(thread, ("", ()))[1], *stacks]
    return Stacks(threads, sum(part.rounds for part in parts), sum(part.failed for part in parts))


def lost_share(stacks: Stacks) -> float:
    """Return the share of rounds that failed or gave torn stacks, of the thread with the most."""
    torn = max((len(found) - len(_whole(found)) for _, found in stacks.threads.values()), default=0)
    return (stacks.failed + torn) / max(stacks.failed + stacks.rounds, 1)


def threads_of(stacks: Stacks, seconds: float, tids: Mapping[str, int]) -> tuple[Thread, ...]:
    """Return a process's threads; whole rounds stand for lost ones. `tids` are by py-spy's thread names."""
    found: list[Thread] = []
    for thread, (name, samples) in stacks.threads.items():
        whole = _whole(samples)
        each = seconds * len(samples) / max(stacks.rounds, 1) / max(len(whole), 1)
        found.append(Thread(profile_from_stacks((stack, each, 1) for stack in whole), tids.get(thread), name))
    return tuple(found)


def _whole(stacks: Sequence[Stack]) -> list[Stack]:
    """Return whole stacks: torn ones begin with a function that others have inside, or have damaged names."""
    begins = Counter(stack[0] for stack in stacks if stack)
    within = Counter(frame for stack in stacks if stack for frame in set(stack[1:]) - {stack[0]})
    empty = len(stacks) - begins.total()
    return [
        stack
        for stack in stacks
        if (begins[stack[0]] >= within[stack[0]] if stack else 2 * empty > len(stacks))
        and all(map(_is_function, stack))
    ]


def _is_function(frame: Frame) -> bool:
    file, line, name = frame
    return file.isprintable() and name.isprintable() and bool(name) and line < _NO_LINE


def with_stacks(processes: Sequence[Process], sampled: Mapping[int, Sequence[Thread]]) -> tuple[Process, ...]:
    """Add the sampled threads to processes without functions."""
    return tuple(
        _with_threads(process, sampled[process.pid])
        if process.pid in sampled and not process.profiled and process.pid is not None
        else process
        for process in processes
    )


def _with_threads(process: Process, sampled: Sequence[Thread]) -> Process:
    left = {thread.tid: thread for thread in sampled if thread.tid is not None}
    found: list[Thread] = []
    for thread in process.threads:
        of = left.pop(thread.tid, None) if thread.tid is not None else None
        found.append(
            thread if of is None else replace(thread, name=of.name or thread.name, profile=of.profile)
        )
    found += [*left.values(), *(thread for thread in sampled if thread.tid is None)]
    return replace(process, profiled=True, threads=tuple(found))
