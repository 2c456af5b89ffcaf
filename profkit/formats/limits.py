"""How much a file may hold, in proportion to its size.

Compressed data may claim a thousand times its size. So content is weighed before it is allocated, by the peak
memory of the costliest command, measured with files of one kind of content (``tests/hostile_files.py``). This
is nearly always ``diff --ticket``, which holds two runs, their masked copies and the new archives; half of
the peak counts for a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.model import Profile
from profkit.model.arrays import Ints

#: Bytes of memory that any file may take. Two sides of this size, and 60 MB for the interpreter and numpy,
#: stay below the 500 MB that a command may need for the smallest files.
FLOOR = 200_000_000
#: Bytes of memory per byte of the file. Columns of measured numbers compress to a half or a fifth, and the weights
#: of things that come together add up to three times what they need: 20,000 short processes weigh 41 per byte of
#: their file, and need 13.
FACTOR = 40

#: Bytes of memory per item, by its name in messages.
WEIGHTS: Mapping[str, int] = {
    "functions": 650,
    "caller–callee sums": 300,
    "NVTX ranges": 120,
    "range contexts": 300,
    "functions inside ranges": 150,
    "calling contexts": 150,
    "samples of threads": 120,
    "readings of the machine": 40,
    # A string, and its entry in a dictionary.
    "strings": 100,
    # In the string table.
    "bytes of strings": 12,
    # Names and paths, per reference from a row: once in a trace, once in its joined copy.
    "bytes of names": 2,
    # Decoding, values and writing take 7, or 9 in a run of 20,000 processes; masking 20 MB of text takes seconds.
    "bytes of JSON": 10,
    "values of JSON": 80,
    # Each is masked by rules for words, and compared with the other side's.
    "words, variables and packages": 600,
    "notices": 2_000,
    # In a pstats dump that is read object by object.
    "objects of pstats data": 64,
    "dictionaries of pstats data": 192,
}


class LimitError(ValueError):
    """A file holds more of something than its size allows; the message names it."""


class Budget:
    """The memory that a file of `file_size` bytes may still take."""

    def __init__(self, file_size: int) -> None:
        self._file_size = file_size
        self._left = FLOOR + FACTOR * file_size

    def spend(self, what: str, count: int) -> None:
        """Subtract the weight of `count` things, before their memory is allocated; raise `LimitError`."""
        self._left -= WEIGHTS[what] * count
        if self._left < 0:
            raise LimitError(
                f"holds {count:,} {what}, which is more than a file of {self._file_size:,} bytes may hold"
            )


def json_weight(text: bytes) -> int:
    """Return the most values that a JSON text can have, by its separators."""
    return sum(map(text.count, (b"{", b"[", b",")))


def names_of(profile: Profile) -> list[npt.NDArray[Any]]:
    """Return the name columns of a viewer's format: of each function, and of each caller."""
    found: list[npt.NDArray[Any]] = [profile.file, profile.name, profile.qualname]
    if profile.edges is not None:
        found += [profile.file[profile.edges.caller], profile.name[profile.edges.caller]]
    return found


def text_sizes(strings: Sequence[str]) -> Ints:
    return np.fromiter(map(len, strings), np.int64, len(strings))


def spend_names(budget: Budget, sizes: Ints, columns: Iterable[npt.NDArray[Any]]) -> None:
    """Weigh the texts that checked columns refer to, as viewers' formats repeat them; raise `LimitError`."""
    budget.spend("bytes of names", sum(int(sizes[column].sum()) for column in columns))
