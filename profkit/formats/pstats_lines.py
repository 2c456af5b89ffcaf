"""Sums by function of executed lines, which Python 3.15's sampling profiler writes as rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from profkit.model import Profile
from profkit.model.merge import collapse


def fold_lines(profile: Profile) -> Profile:
    """Sum executed lines by function, each with the lowest line seen; anonymous ones stay apart by line.

    A sample counts a recursive function once per line on the stack: its cumulative time may exceed the true
    one by a factor of up to these lines, and is limited to the time of all samples.
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
