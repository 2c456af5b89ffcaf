"""What the rest of the agent knows of a tracer, and the numbers of code objects.

`Tracer` itself sees nothing: it is that of a process of which no functions are recorded. `native` has those that do.
"""

from __future__ import annotations

import _lsprof
import sys

from . import record_file

TYPE_CHECKING = False  # the module `typing` would cost every process of the target several milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict, List, Set

#: What the names of the agent's files begin with (see `loader`): its own functions are not the target's.
HERE = sys._getframe().f_code.co_filename.rpartition("tracer")[0]

#: Whether every thread needs, and gets, its own collector.
PER_THREAD = sys.version_info < (3, 12)

#: Whether this is a build without the GIL, of which stacks are sampled and no calls traced.
FREE_THREADED = "t" in getattr(sys, "abiflags", "")

#: The type of cProfile's collector, before the target can see ours.
Collector: Any = _lsprof.Profiler


class Tracer:
    """What traces one process; this one sees nothing."""

    #: What a record says of how it was made.
    kind = "none"

    def __init__(self) -> None:
        self.codes = Codes()

    def start(self) -> None:
        """Begin with the calling thread."""

    def threading_is_there(self, threading: Any, again: bool = False) -> None:
        """Have the threads that `threading` starts begin with our hook, up to Python 3.11.

        Called when the target has imported it, before it can start a thread: to import it for every process would
        cost those of milliseconds half of what a capture adds, and the main thread is the one that imports it.

        Parameters
        ----------
        threading
            The module, ``None`` where it was not imported.
        again
            Whether a hook that is there is replaced: a forked child has its parent's.
        """

    def pause(self) -> None:
        """The target starts a profiler of its own in this thread: make room."""

    def resume(self) -> None:
        """The target's own profiler is off."""

    def finish(self) -> None:
        """Close the open calls of the calling thread, with exact times, and stop following it."""

    def open(self, threads: Dict[int, int], warm: bool, fresh: bool, behind: int = 0) -> None:
        """Begin to trace threads in the middle of what they do.

        Parameters
        ----------
        threads
            The kernel's number of each by its ident.
        warm
            Whether what is traced is to be forgotten later: the next time with `fresh`.
        fresh
            Whether what was traced since then is forgotten now.
        behind
            Frames of the calling thread behind the agent's own that are not the target's.
        """

    def close(self) -> None:
        """Stop tracing all threads, from any of them, until `open`; open calls are closed."""

    def leave(self) -> None:
        """Stop following threads that continue after what was to be traced, from any thread; `finish` comes first."""

    def sees(self) -> bool:
        """Whether a call of this thread would be noticed at once."""
        return False

    def displaced(self) -> bool:
        """Whether something else now receives events, or nothing."""
        return False

    def read(self) -> List[Dict[str, Any]]:
        """Return one packed table per thread; see docs/format.md on records."""
        return []


class Codes:
    """Numbers code objects: by identity, since equal code in two files is two functions."""

    def __init__(self) -> None:
        self._files: Dict[str, int] = {}
        self._places: List[int] = []  # of each, the file's number and the line
        self._names: List[str] = []  # of each, the name and the qualified name
        #: By the address of a code object, or by the name of a built-in function.
        self.numbers: Dict[Any, int] = {}
        self._kept: List[Any] = []  # so that an address is not used twice
        self.hidden: Set[int] = set()

    def number(self, code: Any) -> int:
        """Return the number of a code object, or of the label of a built-in function."""
        key = code if isinstance(code, str) else id(code)
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self._kept)
            self._kept.append(code)
            if isinstance(code, str):
                self._add("~", 0, code, "")
                if " of 'profkit_tracer." in code:
                    self.hidden.add(number)
            else:
                # Plain strings: compile() keeps a subclass of `str`, and marshal takes none.
                file, name = str.__str__(code.co_filename), str.__str__(code.co_name)
                self._add(file, code.co_firstlineno, name, str.__str__(getattr(code, "co_qualname", "")))
                if file.startswith(HERE):
                    self.hidden.add(number)
        return number

    def _add(self, file: str, line: int, name: str, qualname: str) -> None:
        number = self._files.get(file)
        if number is None:
            number = self._files[file] = len(self._files)
        self._places += (number, line)
        self._names += (name, qualname)

    def packed(self) -> Dict[str, Any]:
        """Return all of them as they are in a record."""
        return record_file.pack_codes(list(self._files), self._places, self._names)


def without(functions: List[Any], taken_out: Dict[int, List[Any]]) -> List[Any]:
    """Return flat function rows less the parts that the agent itself called, without those that are nothing then."""
    if not taken_out:
        return functions
    left: List[Any] = []
    for at in range(0, len(functions), 5):
        row = functions[at : at + 5]
        part = taken_out.get(row[0])
        if part is not None:
            row[1:] = [max(0, row[1] - part[0]), max(0, row[2] - part[1])] + [
                max(0.0, have - taken) for have, taken in zip(row[3:], part[2:])
            ]
        if row[1] > 0:
            left += row
    return left


def thread_name(ident: int) -> str:
    """Name that `threading` has for a thread, without creating anything; empty where it has none."""
    module = sys.modules.get("threading")
    thread: Any = getattr(module, "_active", {}).get(ident)
    try:
        # Not by `getattr`: it would be what calls the property, and only what the agent itself calls is left out.
        return str(thread.name)
    except AttributeError:
        return ""
