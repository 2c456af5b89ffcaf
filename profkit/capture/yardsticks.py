"""How fast the machine is: fixed work of a tenth of a millisecond, before, beside and after a run.

It tells a slower machine from a program with more to do. CPU seconds are compared, so a busy machine shows
only if its CPUs or memory are slower.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import time
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

#: When a piece was done: before the target, beside it on a free CPU, or after its end.
When: TypeAlias = Literal["before", "beside", "after"]

#: Part of one core beside a target: little and often, since shared CPUs are slow for tenths of seconds.
SHARE = 0.001
#: Pieces of each yardstick before and after.
_PIECES = 9
#: Most pieces of a yardstick; beyond, every second one is dropped.
_MOST_PIECES = 4096


class Yardsticks:
    def __init__(self) -> None:
        self._works: list[tuple[str, Callable[[], float]]] = []
        with contextlib.suppress(ImportError, MemoryError):  # it was not built, or cannot be loaded
            module = importlib.import_module("profkit.capture.native.lib._yardsticks")
            self._works += [(name, functools.partial(module.piece, i)) for i, name in enumerate(module.NAMES)]
        python = f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}"
        self._works.append((f"bytecode {python}", _bytecode))
        self._pieces: dict[str, dict[When, list[float]]] = {}
        self._next = 0

    def read_all(self, when: When) -> None:
        """Do several pieces of each yardstick, a millisecond of each."""
        for name, work in self._works:
            self._read(name, work, when, _PIECES)

    def read_next(self) -> None:
        """Do one piece of the next yardstick beside a target."""
        name, work = self._works[self._next % len(self._works)]
        self._next += 1
        self._read(name, work, "beside", 1)

    def _read(self, name: str, work: Callable[[], float], when: When, pieces: int) -> None:
        work()  # wakes the CPU and fills its caches
        seconds = self._pieces.setdefault(name, {}).setdefault(when, [])
        seconds += [work() for _ in range(pieces)]
        if len(seconds) > _MOST_PIECES:
            del seconds[1::2]

    def as_facts(self) -> list[dict[str, Any]]:
        """Return the fields of `profkit.model.Yardstick`, whose class needs numpy."""
        return [
            {
                "name": name,
                **{
                    f"{when}_s": _median(of[when]) if when in of else None
                    for when in ("before", "beside", "after")
                },
                "scatter": _scatter(of),
                "pieces": sum(map(len, of.values())),
            }
            for name, of in self._pieces.items()
        ]


def _bytecode() -> float:
    """Do the piece in Python, whose byte code and cost differ between versions."""
    begin = time.thread_time()
    x = 0
    for i in range(1500):
        x = (x * 31 + i) & 0xFFFF
    return time.thread_time() - begin


def _median(values: list[float]) -> float:
    # The module `statistics` takes 10 ms to import.
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _scatter(pieces: dict[When, list[float]]) -> float:
    """Return the interquartile range of all pieces over their median."""
    ordered = sorted(value for of in pieces.values() for value in of)
    middle = _median(ordered)
    return (ordered[(3 * len(ordered)) // 4] - ordered[len(ordered) // 4]) / middle if middle > 0 else 0.0
