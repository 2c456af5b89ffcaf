"""Where the tokens of a marshal dump start: a lock-step walk over the file with numpy; first stage of
reading.

One walker per block of the file starts at the block's first byte, usually in the middle of a token. All
advance together and fall into step with the true chain of tokens after a few of them. Then the true chain is
followed into each block until it meets a position that the block's walker visited. From there both are the
same, because the next position depends on the position only, so the result is exactly the chain from byte 0.

Only token lengths are known here; `pstats_columns` knows what the tokens mean.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.intp]

#: Bytes behind the end of the stream that the walk may look at; they have to be there, with any value.
PADDING = 16
#: Strings with a four-byte size are followed up to this many bytes. A longer one, which no function or file
#: name is, counts as one byte: reading it is left to the general decoder. Without a bound, one misread
#: size would carry a walker that is not in step yet out of its block.
LONGEST_STRING = 4096

#: Bytes per block are this many times the root of the file's size: a block costs Python time and a step of
#: the walk a few numpy calls. Flat between 1 and 4 for files of 60 kB to 14 MB (2-core VM).
_BLOCK_FACTOR = 2
_SMALLEST_BLOCK = 512
#: Steps between two looks at which walkers have reached the end of their block.
_ROUND = 64

_FIXED = {"i": 5, "I": 9, "g": 9, "r": 5, "R": 5, ")": 2, "(": 5, "{": 1, "0": 1, "N": 1, "T": 1, "F": 1}
_SHORT = "zZ"
_LONG = "aAuts"
_FLAG_REF = 0x80


def _step_table() -> npt.NDArray[np.uint16]:
    """Return a token's length by its first two bytes (little-endian word); 0 if four size bytes decide."""
    by_code = np.ones(256, np.uint16)
    # [second byte, type code]. Small numbers: the table has to stay in the cache beside what is walked.
    table = np.empty((256, 256), np.uint16)
    for flag in (0, _FLAG_REF):
        for code, length in _FIXED.items():
            by_code[ord(code) | flag] = length
        for code in _LONG:
            by_code[ord(code) | flag] = 0
    table[:] = by_code
    for flag in (0, _FLAG_REF):
        for code in _SHORT:
            table[:, ord(code) | flag] = 2 + np.arange(256, dtype=np.uint16)
    return table.ravel()


_STEP = _step_table()


def token_starts(padded: Bytes) -> Positions:
    """Return the ascending starts of all tokens on the chain from byte 0 of a uint8 stream, padded by
    `PADDING` bytes.

    A byte that is no type code of plain data, or starts a string longer than `LONGEST_STRING`, counts as a
    token of one byte. The caller must check the type codes: positions are valid only up to the first such
    byte.
    """
    size = len(padded) - PADDING
    if size <= 0:
        return np.zeros(0, np.intp)
    marks = bytearray(size)
    block = max(_SMALLEST_BLOCK, _BLOCK_FACTOR * math.isqrt(size))
    starts = np.arange(0, size, block, dtype=np.intp)
    ends = np.minimum(starts + block, size)
    exits = _walk(padded, starts, ends, np.frombuffer(marks, np.uint8))
    _stitch(padded, marks, ends.tolist(), exits.tolist())
    return np.flatnonzero(np.frombuffer(marks, np.bool_))


def _steps(
    words: npt.NDArray[np.uint16], sizes: npt.NDArray[np.uint32], at: Positions
) -> npt.NDArray[np.uint16]:
    step = _STEP.take(words.take(at))
    if np.count_nonzero(step) < len(step):
        (which,) = np.nonzero(step == 0)
        length = sizes[at[which]].astype(np.intp)
        step[which] = np.where(length <= LONGEST_STRING, length + 5, 1)
    return step


def _walk(padded: Bytes, starts: Positions, ends: Positions, marks: Bytes) -> Positions:
    """Walk all blocks at once, mark the visited positions, and return where each walker leaves its block."""
    # Overlapping views: the number that starts at each byte, and at each byte's right neighbour. The first is read at
    # every step, and a copy of it faster than the view.
    words: npt.NDArray[np.uint16] = np.ndarray((len(padded) - 2,), "<u2", padded.data, 0, (1,)).copy()
    sizes: npt.NDArray[np.uint32] = np.ndarray((len(padded) - 5,), "<u4", padded.data, 1, (1,))
    exits = np.empty_like(starts)
    walker = np.arange(len(starts))
    at, end = starts.copy(), ends
    while len(at):
        for _ in range(_ROUND):
            marks[at] = 1
            ahead = at + _steps(words, sizes, at)
            # A walker at its block's last token stays there, and marks it again.
            np.copyto(at, ahead, where=ahead < end)
        marks[at] = 1
        ahead = at + _steps(words, sizes, at)
        done = ahead >= end
        exits[walker[done]] = ahead[done]
        going = ~done
        walker, at, end = walker[going], at[going], end[going]
    return exits


def _stitch(padded: Bytes, marks: bytearray, ends: list[int], exits: list[int]) -> None:
    """Keep only the marks of the true chain."""
    data = padded.data
    step = _STEP.tolist()
    at = start = 0
    for end, leave in zip(ends, exits, strict=True):
        own = []
        while at < end and not marks[at]:
            own.append(at)
            length = step[data[at] | data[at + 1] << 8]
            if not length:
                length = int.from_bytes(data[at + 1 : at + 5], "little")
                length = length + 5 if length <= LONGEST_STRING else 1
            at += length
        kept_from = min(at, end)
        marks[start:kept_from] = bytes(kept_from - start)
        for position in own:
            marks[position] = 1
        if at < end:
            at = leave
        start = end
