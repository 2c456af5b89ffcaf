"""Reader of the file of CPython 3.15's sampling profiler (Tachyon), format version 1.

Source: CPython's ``Modules/_remote_debugging/binary_io.h``. Lines are executed ones.
"""

from __future__ import annotations

import importlib
import struct

from profkit.errors import FormatError
from profkit.formats.foreign.stacks import NATIVE, Frame, Samples, Stack
from profkit.formats.limits import FACTOR, FLOOR, Budget
from profkit.formats.protobuf import read_varint
from profkit.model import Notice, Run

MAGICS = {b"HCAT": "<", b"TACH": ">"}
_VERSION = 1
#: Version, Python version, start, interval in microseconds, samples, threads, offsets of both tables,
#: compression.
_HEADER, _HEADER_BYTES = "I4BQQQIQQI", 64
#: Numbers of strings and frames, file size, checksum.
_FOOTER = "IIQ16x"
_REPEAT, _FULL, _SUFFIX, _POP_PUSH = range(4)
_DEEPEST = 256
#: The profiler's own file in the target, outermost in stacks.
_OWN = "_sync_coordinator.py"
_CONVERT = "convert it: python3.15 -m profiling.sampling replay --collapsed -o stacks.txt FILE"


def read_tachyon(path: object, data: bytes, budget: Budget) -> Run:
    """Read the bytes of a file; raise `FormatError`, `LimitError`, and `ValueError` and others if damaged."""
    order = MAGICS[data[:4]]
    version, major, minor, micro, _, _, interval, _, _, strings_at, frames_at, compression = (
        struct.unpack_from(order + _HEADER, data, 4)
    )
    if version != _VERSION:
        raise FormatError(path, f"has version {version} of Tachyon's format, which is not known", _CONVERT)
    footer_at = len(data) - struct.calcsize(order + _FOOTER)
    if not _HEADER_BYTES <= strings_at <= frames_at <= footer_at:
        raise ValueError("its tables lie outside of it")
    n_strings, n_frames, size = struct.unpack_from(order + _FOOTER, data, footer_at)
    if size != len(data):
        raise ValueError("it does not end where it says")
    budget.spend("strings", n_strings)
    budget.spend("functions", n_frames)
    texts, at = list[str](), strings_at
    view = memoryview(data)
    for _ in range(n_strings):
        length, at = read_varint(view[:frames_at], at)
        texts.append(data[at : at + length].decode("utf-8", "replace"))
        at += length
    frames, at = list[Frame](), frames_at
    for _ in range(n_frames):
        numbers, at = _numbers(view[:footer_at], at, 6)
        at += 1  # opcode
        line = (numbers[2] >> 1) ^ -(numbers[2] & 1)
        frames.append((texts[numbers[0]] or NATIVE, max(0, line), texts[numbers[1]]))
    body = data[_HEADER_BYTES:strings_at]
    samples = Samples(budget)
    _read_samples(samples, _decompressed(path, body) if compression else body, order, frames, interval / 1e6)
    notice = Notice("foreign-samples", "Tachyon")
    python = f"{major}.{minor}.{micro}"
    return samples.run(path, notice, executed_lines=True, python=python)


def _read_samples(samples: Samples, data: bytes, order: str, frames: list[Frame], interval_s: float) -> None:
    """Add the samples; a record has a thread, an interpreter, and the change of its stack."""
    head = struct.Struct(order + "QIB")
    stacks: dict[tuple[int, int], list[int]] = {}
    at, view = 0, memoryview(data)

    def add(thread: int, innermost_first: list[int], count: int) -> None:
        stack: Stack = tuple(frames[i] for i in reversed(innermost_first) if not frames[i][0].endswith(_OWN))
        if stack:
            samples.add((None, thread, ""), stack, count * interval_s, count)

    while at < len(data):
        thread, interpreter, kind = head.unpack_from(data, at)
        at += head.size
        last = stacks.setdefault((thread, interpreter), [])
        if kind == _REPEAT:
            count, at = read_varint(view, at)
            if count > (len(data) - at) // 2:
                raise ValueError("it repeats a sample more often than it can")
            for _ in range(count):
                _, at = read_varint(view, at)
                at += 1  # the thread's state
            add(thread, last, count)
            continue
        _, at = read_varint(view, at)
        at += 1
        kept = 0
        if kind in (_SUFFIX, _POP_PUSH):
            kept, at = read_varint(view, at)
            if kept > len(last) and kind == _SUFFIX:
                raise ValueError("it keeps more frames than there were")
            kept = kept if kind == _SUFFIX else max(0, len(last) - kept)
        elif kind != _FULL:
            raise ValueError(f"it has a record of kind {kind}")
        new, at = read_varint(view, at)
        if kept + new > _DEEPEST:
            raise ValueError("it has a stack that is too deep")
        pushed, at = _numbers(view, at, new)
        stack = stacks[thread, interpreter] = pushed + (last[len(last) - kept :] if kept else [])
        add(thread, stack, 1)


def _numbers(data: memoryview, at: int, count: int) -> tuple[list[int], int]:
    """Return some numbers and where they end."""
    found = []
    for _ in range(count):
        number, at = read_varint(data, at)
        found.append(number)
    return found, at


def _decompressed(path: object, data: bytes) -> bytes:
    """Unpack samples with Zstandard: in Python from 3.14, else of a PyPI package."""
    most = FLOOR + FACTOR * len(data)
    for name in ("compression.zstd", "backports.zstd"):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        decompressor = library.ZstdDecompressor()
        try:
            unpacked: bytes = decompressor.decompress(data, most)
        except library.ZstdError as error:
            raise ValueError(str(error)) from None
        if not decompressor.eof:
            raise ValueError("its samples are cut off, or more than a file of its size may hold")
        return unpacked
    raise FormatError(
        path,
        "is compressed with Zstandard, which this Python cannot unpack",
        "pip install backports.zstd, or record with --compression none",
    )
