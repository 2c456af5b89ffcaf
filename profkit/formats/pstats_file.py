"""Reader of pstats files: ``cProfile`` of Python 2.7 to 3.15, ``profile``, yappi, the sampling profiler."""

from __future__ import annotations

import glob
import os
import shlex
import sys
from dataclasses import replace
from itertools import islice

import numpy as np

from profkit.errors import FormatError
from profkit.formats.limits import Budget, LimitError, names_of, spend_names, text_sizes
from profkit.formats.pstats_native import Dump, read_regular_dump
from profkit.formats.regular_file import NotRegularError, read_regular
from profkit.model import Notice, Process, Profile, ProfileError, Run, Thread
from profkit.model.arrays import distinct
from profkit.model.merge import collapse
from profkit.model.versions import python_of_paths

_NOT_A_PROFILE = "give a file that cProfile, pstats or profkit wrote"
_CAPTURE_AGAIN = "copy it again, or profile again"
_ZIP_MEMBER = b"PK\x03\x04"

#: From this version, cProfile sees all threads of the process in one stack (gh-116738, gh-124656).
THREADS_MIXED_SINCE = (3, 12)
#: Functions of ``threading.py`` that run only in a second thread.
_THREAD_ENTRY = ("_bootstrap", "_bootstrap_inner", "run")


#: Most directory entries searched for a name, and most that a hint lists.
_MOST_ENTRIES, _MOST_LIKE = 10_000, 5


#: Default output of a capture.
_WITHOUT_A_NAME = "run.prof"


def _where_it_is(path: str | os.PathLike[str]) -> str:
    """Return a hint where a capture's records are, if it ended without writing this file."""
    folder, name = os.path.split(os.fspath(path))
    left = glob.glob(os.path.join(glob.escape(folder), f".{glob.escape(name)}.spool-*", "launch.json"))
    if not left and name.isdecimal() and not folder:
        return f"and no capture of process {name} is running; profkit attach {name} records a program without one"
    if not left:
        return like_it(path) or "check the path"
    spool = shlex.quote(os.path.dirname(max(left, key=os.path.getmtime)))
    command = f"profkit merge {spool} -o {shlex.quote(str(path))}"
    return f"a capture is writing it, or ended without writing it; if it ended, run {command}"


def like_it(path: str | os.PathLike[str]) -> str:
    """Return a hint with similarly named files; empty if there are none."""
    folder, name = os.path.split(os.fspath(path))
    try:
        with os.scandir(folder or os.curdir) as entries:
            there = [entry.name for entry in islice(entries, _MOST_ENTRIES)]
    except OSError:
        return f"there is no directory {folder}" if folder and not os.path.exists(folder) else ""
    if glob.has_magic(name):
        there = sorted(entry for entry in there if entry.endswith(".prof") and not entry.startswith("."))
        more = ", …" if len(there) > _MOST_LIKE else ""
        return f"there are {', '.join(there[:_MOST_LIKE])}{more}" if there else ""
    from difflib import get_close_matches

    near = get_close_matches(name, there, 2)
    if not near and _WITHOUT_A_NAME in there:
        run = os.path.join(folder, _WITHOUT_A_NAME)
        return f"{run} is of a capture without -o; profkit capture -o {shlex.quote(name)} -- … sets the name"
    return f"did you mean {' or '.join(os.path.join(folder, entry) for entry in near)}?" if near else ""


def read_dump(path: str | os.PathLike[str]) -> bytes:
    """Read a file; raise `FormatError` if it is missing, not regular, empty, or unreadable."""
    try:
        data = read_regular(path, sys.maxsize)
    except FileNotFoundError:
        raise FormatError(path, "there is no such file", _where_it_is(path)) from None
    except IsADirectoryError:
        raise FormatError(path, "is a directory", "give a file in it") from None
    except NotRegularError as error:
        raise FormatError(path, str(error), "copy its data to a file first") from None
    except OSError as error:
        problem = f"cannot be opened: {error.strerror or error}"
        raise FormatError(path, problem, "check path and permissions") from None
    if not data:
        raise FormatError(path, "is empty", "was the profiled program killed before it wrote it?")
    return data


def read_pstats(path: str | os.PathLike[str], *, edges: bool = True) -> Run:
    """Read a pstats file as a run of one thread; raise only `FormatError`.

    Without `edges`, ``profile.edges`` is ``None``; with them, callers without an entry (cut, or not yet
    returned) follow as rows of zero calls and seconds. ``python`` is derived from library paths.
    """
    return parse_pstats(path, read_dump(path), edges=edges)


def parse_pstats(path: str | os.PathLike[str], data: bytes, *, edges: bool = True) -> Run:
    """Parse the bytes of a file as `read_pstats` does."""
    budget = Budget(len(data))
    dump = read_regular_dump(data, edges=edges)
    if dump is None:
        dump = _in_python(path, data, budget, edges)
    del data  # a large file need not stay
    if not len(dump.rows):
        raise FormatError(
            path, "holds no functions", "enable the profiler around the work, and profile again"
        )
    try:
        profile = dump.profile(edges=edges).validate()
        if dump.sampled:
            profile = _folded_lines(profile).validate()
        spend_names(budget, text_sizes(profile.strings), names_of(profile))
    except (ProfileError, LimitError) as error:
        raise FormatError(path, str(error), _NOT_A_PROFILE) from None
    version = python_of_paths(tuple([profile.strings[i] for i in distinct(profile.file).tolist()]))
    python = "" if version is None else ".".join(map(str, version))
    process = Process(python=python, threads=(Thread(profile),))
    return Run(os.fspath(path), (process,), warnings=_warnings(dump, profile, version))


def _in_python(path: str | os.PathLike[str], data: bytes, budget: Budget, edges: bool) -> Dump:
    """Read what the compiled reader rejects; raise `FormatError`."""
    from profkit.formats.plain_data import PlainDataError
    from profkit.formats.pstats_objects import decode_dump

    try:
        dump = decode_dump(data, budget, edges=edges)
    except LimitError as error:
        raise FormatError(path, str(error), _NOT_A_PROFILE) from None
    except PlainDataError as error:
        hint = "it was cut short: " + _CAPTURE_AGAIN if error.truncated else _NOT_A_PROFILE
        raise FormatError(path, str(error), hint) from None
    if data[len(data) - dump.trailing :][:4] == _ZIP_MEMBER:
        raise FormatError(
            path,
            "the evidence archive after its profile is damaged",
            "copy it again; pstats still opens the plain profile in it",
        )
    return dump


def _folded_lines(profile: Profile) -> Profile:
    """Sum executed lines by function, each with the lowest line seen; anonymous ones stay apart by line.

    Python 3.15's sampling profiler writes a row for each line. A sample counts a recursive function once per
    line on the stack: its cumulative time may exceed the true one by a factor of up to these lines, and is
    limited to the time of all samples.
    """
    numbers, of_row = np.unique(profile.name, return_inverse=True)
    names = [profile.strings[i] for i in numbers.tolist()]
    own = [text.rpartition(".")[2] or text for text in names]
    strings = [*profile.strings, *own]
    short = np.arange(len(profile.strings), len(strings), dtype=np.int32)
    anonymous = np.array([text.startswith("<") and text != "<module>" for text in own], np.bool_)
    of_row = of_row.reshape(-1)
    _, group = np.unique(profile.file.astype(np.int64) * len(names) + of_row, return_inverse=True)
    first = np.full(len(profile), np.iinfo(np.int32).max, np.int32)
    np.minimum.at(first, group.reshape(-1), profile.line)
    folded = collapse(
        replace(
            profile,
            strings=tuple(strings),
            name=short[of_row],
            qualname=profile.name if own != names else profile.qualname,
            line=np.where(anonymous[of_row], profile.line, first[group.reshape(-1)]),
        )
    )
    samples = max(0, int(folded.primitive_calls.sum()))
    return replace(
        folded,
        ncalls=np.maximum(np.minimum(folded.ncalls, samples), folded.primitive_calls),
        cumtime=np.maximum(np.minimum(folded.cumtime, folded.total), folded.tottime),
    )


def _warnings(dump: Dump, profile: Profile, python: tuple[int, int] | None) -> tuple[Notice, ...]:
    warnings = []
    if dump.sampled:
        warnings.append(Notice("sampled-profile"))
    elif dump.plain_callers:
        warnings.append(Notice("pure-python-profile"))
    if python is not None and python >= THREADS_MIXED_SINCE and not dump.sampled:
        ends = ("/threading.py", "\\threading.py")
        is_file = np.fromiter((text.endswith(ends) for text in profile.strings), bool, len(profile.strings))
        threading = is_file[profile.file]
        names = {profile.strings[index] for index in distinct(profile.name[threading]).tolist()}
        if not names.isdisjoint(_THREAD_ENTRY):
            warnings.append(Notice("threads-in-one-stack", "", {"python": f"{python[0]}.{python[1]}"}))
    if dump.trailing:
        warnings.append(Notice("trailing-bytes", "", {"bytes": dump.trailing}))
    return tuple(warnings)
