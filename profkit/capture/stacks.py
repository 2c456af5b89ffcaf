"""Stacks that py-spy has sampled, as profiles: the functions of processes that cannot be traced."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from profkit.model import Edges, Process, Profile, Thread

__all__ = ["RATE_HZ", "Sampling", "read_stacks", "sampler_command", "with_stacks"]

#: Samples of each thread a second. One takes a process some 0.3 ms, in which it stands still.
RATE_HZ = 100
#: Seconds for py-spy to write what it has, once it is asked to.
_PATIENCE_S = 30.0
#: What a profile of its file is called.
_THREAD = re.compile(r'Process (\d{1,10})(?: Thread (\d{1,10}) "(.*)")?', re.DOTALL)


def sampler_command() -> str | None:
    """Return where py-spy is: beside this interpreter, else on the path; ``None`` where it is not installed."""
    return shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")


class Sampling:
    """py-spy at work on a process and its children, until `finish`.

    Parameters
    ----------
    command
        py-spy.
    pid
        The process.
    output
        The file that it writes.
    """

    def __init__(self, command: str, pid: int, output: Path) -> None:
        self._output = output
        words = [
            "record",
            "--pid",
            str(pid),
            "--rate",
            str(RATE_HZ),
            "--format",
            "speedscope",
            "--output",
            str(output),
        ]
        words += ["--subprocesses", "--threads", "--idle", "--function", "--full-filenames"]
        # A session of its own: Ctrl-C is the launcher's, which then asks it to end.
        self._process = subprocess.Popen(
            [command, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def finish(self) -> str:
        """Have it write its file; return what went wrong, in its words, empty where nothing did."""
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGINT)
        try:
            _, said = self._process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return f"nothing within {_PATIENCE_S:g} s"
        if self._output.is_file() and self._output.stat().st_size:
            return ""
        lines = [line for line in said.splitlines() if line.strip() and not line.startswith("py-spy>")]
        return (
            lines[0].removeprefix("Error: ").strip() if lines else f"it ended with {self._process.returncode}"
        )


def read_stacks(path: Path) -> dict[int, dict[int | None, tuple[str, Profile]]]:
    """Return what py-spy has written: by process and thread, the thread's name and its profile.

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        It is not what py-spy writes.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
        frames = [
            (str(f["file"] or "~"), int(f["line"] or 0), str(f["name"])) for f in data["shared"]["frames"]
        ]
        found: dict[int, dict[int | None, tuple[str, Profile]]] = {}
        for profile in data["profiles"]:
            named = _THREAD.fullmatch(profile["name"])
            if named is None:
                raise ValueError(f"a profile is called {profile['name']!r}")
            tid = int(named[2]) if named[2] else None
            made = _profile(frames, profile["samples"], profile["weights"])
            found.setdefault(int(named[1]), {})[tid] = named[3] or "", made
    except (KeyError, TypeError, IndexError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"not py-spy's speedscope file: {error!r}") from None
    return found


def _profile(
    frames: Sequence[tuple[str, int, str]], samples: Sequence[Sequence[int]], weights: Sequence[float]
) -> Profile:
    """Sum the samples of one thread by function and by caller and callee; stacks begin with the outermost."""
    counts: dict[int, list[float]] = {}
    pairs: dict[tuple[int, int], list[float]] = {}
    for stack, weight in zip(samples, weights, strict=True):
        seconds = float(weight)
        seen: set[int] = set()
        linked: set[tuple[int, int]] = set()
        for depth, frame in enumerate(stack):
            row = counts.setdefault(frame, [0, 0, 0.0, 0.0])
            if frame not in seen:
                row[1] += 1
                row[3] += seconds
            seen.add(frame)
            link = (stack[depth - 1], frame)
            if depth and link not in linked:
                linked.add(link)
                pair = pairs.setdefault(link, [0, 0.0, 0.0])
                pair[0] += 1
                pair[2] += seconds
        if stack:
            counts[stack[-1]][0] += 1
            counts[stack[-1]][2] += seconds
            if len(stack) > 1:
                pairs[stack[-2], stack[-1]][1] += seconds
    strings: dict[str, int] = {"": 0}

    def texts(values: Sequence[str]) -> np.ndarray[Any, np.dtype[np.int32]]:
        return np.array([strings.setdefault(value, len(strings)) for value in values], np.int32)

    used = [frames[frame] for frame in counts]
    place = {frame: row for row, frame in enumerate(counts)}
    n = len(used)
    file, qualname = texts([key[0] for key in used]), texts([key[2] for key in used])
    name = texts([key[2].rpartition(".")[2] or key[2] for key in used])
    numbers = list(counts.values())
    links = list(pairs.items())
    calls = np.array([number[0] for _, number in links], np.int64)
    return Profile(
        tuple(strings),
        file,
        np.array([key[1] for key in used], np.int32),
        name,
        qualname,
        np.zeros(n, np.int32),
        np.zeros(n, np.int32),
        np.array([row[1] for row in numbers], np.int64),
        np.array([row[0] for row in numbers], np.int64),
        np.array([row[2] for row in numbers], np.float64),
        np.array([row[3] for row in numbers], np.float64),
        edges=Edges(
            np.array([place[link[0]] for link, _ in links], np.int32),
            np.array([place[link[1]] for link, _ in links], np.int32),
            calls,
            calls,
            np.array([number[1] for _, number in links], np.float64),
            np.array([number[2] for _, number in links], np.float64),
        ),
    ).validate()


def with_stacks(
    processes: Sequence[Process], stacks: Mapping[int, Mapping[int | None, tuple[str, Profile]]]
) -> tuple[Process, ...]:
    """Give processes without functions those that were sampled of them."""
    return tuple(
        _sampled(process, stacks[process.pid])
        if process.pid in stacks and not process.profiled and process.pid is not None
        else process
        for process in processes
    )


def _sampled(process: Process, threads: Mapping[int | None, tuple[str, Profile]]) -> Process:
    left = dict(threads)
    found: list[Thread] = []
    for thread in process.threads:
        if thread.tid in left and thread.tid is not None:
            name, profile = left.pop(thread.tid)
            found.append(replace(thread, name=name or thread.name, profile=profile))
        else:
            found.append(thread)
    found += [Thread(profile, tid, name) for tid, (name, profile) in left.items()]
    return replace(process, profiled=True, threads=tuple(found))
