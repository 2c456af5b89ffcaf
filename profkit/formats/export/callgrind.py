"""Writer of Callgrind's format, for KCachegrind and QCachegrind.

Costs are wall time in nanoseconds. An unknown number of calls is 0, which viewers show as an active call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from profkit.errors import FormatError
from profkit.formats.export.stack_tree import exact_calls, not_held, place_of
from profkit.formats.export.timeline import Export
from profkit.model import Edges, Profile, Run
from profkit.model.merge import collapse
from profkit.model.surrogates import spelled_out

_HEAD = (
    "# callgrind format\nversion: 1\ncreator: profkit\n{command}"
    "positions: line\nevent: ns : Wall time (ns)\nevents: ns\n"
)


def callgrind_profile(run: Run, profile: Profile) -> Export:
    """Lay out the functions and calls of a run's profile; raise `FormatError` if no function has a time."""
    profile = collapse(profile)
    if not (profile.tottime > 0).any():
        raise FormatError(run.path, "holds no functions to write")
    left_out = list(not_held(run, calls=True))
    if profile.edges is None or not len(profile.edges):
        left_out.append("who called whom: it is not known")
    return Export(_chunks(run, profile), tuple(left_out))


def _chunks(run: Run, profile: Profile) -> Iterator[bytes]:
    command = " ".join(run.command)
    yield _HEAD.format(command=f"cmd: {_line(command)}\n" if command else "").encode()
    places = [place_of(profile, row) for row in range(len(profile))]
    same = Counter((name, file) for name, file, _ in places)
    files: dict[str, int] = {}
    written: set[tuple[str, int]] = set()

    def named(key: str, number: int, text: str) -> str:
        # A name is written once and then referred to by number. Files and functions are numbered separately.
        kind = "file" if key in ("fl", "cfi") else "function"
        if (kind, number) in written:
            return f"{key}=({number})\n"
        written.add((kind, number))
        return f"{key}=({number}) {_line(text)}\n"

    def of(row: int, file_key: str, name_key: str) -> str:
        name, file, line = places[row]
        # Viewers identify functions by name and file only.
        name = f"{name}:{line}" if same[name, file] > 1 else name
        file = file or "???"
        number = files.setdefault(file, len(files) + 1)
        return named(file_key, number, file) + named(name_key, row + 1, name)

    own = _nanoseconds(profile.tottime)
    edges = profile.edges or Edges.empty()
    counted = exact_calls(profile)
    by_caller = np.argsort(edges.caller, kind="stable")
    starts = np.searchsorted(edges.caller[by_caller], np.arange(len(places) + 1))
    inclusive = _nanoseconds(edges.cumtime)
    for row, (_, _, line) in enumerate(places):
        text = [f"\n{of(row, 'fl', 'fn')}{line} {own[row]}\n"]
        for edge in by_caller[starts[row] : starts[row + 1]].tolist():
            callee = int(edges.callee[edge])
            count = int(edges.ncalls[edge]) if counted[callee] else 0
            text.append(
                f"{of(callee, 'cfi', 'cfn')}calls={count} {places[callee][2]}\n{line} {inclusive[edge]}\n"
            )
        yield "".join(text).encode()


def _nanoseconds(seconds: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> list[int]:
    found: list[int] = np.rint(seconds * 1e9).astype(np.int64).tolist()
    return found


def _line(text: str) -> str:
    return " ".join(spelled_out(text).split())
