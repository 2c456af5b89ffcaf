"""Time of a function by line; the lines of a native function are those that call it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profkit.identity.lookup_columns import Keys
from profkit.measure.selected_processes import Selected
from profkit.model import FunctionKey, Profile
from profkit.model.arrays import Index

#: Fewest samples of a function from which its lines are known.
FEWEST_SAMPLES = 10
#: Most lines kept of a function, and the least part of its time that each has.
MOST, LEAST_SHARE = 3, 0.05


@dataclass(frozen=True, slots=True)
class SeenLine:
    """One line of a function that begins at line `first` of its file; strings are empty where unknown.

    `text` is read only if the file still has the source that ran and is not private.
    """

    key: FunctionKey
    name: str
    file: str
    first: int
    source_hash: str
    line: int
    seconds: float
    samples: int
    share: float
    text: str = ""

    @property
    def place(self) -> tuple[FunctionKey, str, int]:
        """Identifies a line of the same source, wherever in its file that is."""
        return self.key, self.source_hash, self.line - self.first


@dataclass(frozen=True, slots=True)
class FunctionLines:
    """The lines of one function, most time first; those of a run without a baseline are the candidate's."""

    name: str
    baseline: tuple[SeenLine, ...]
    candidate: tuple[SeenLine, ...]

    def before(self, line: SeenLine) -> SeenLine | None:
        """Return the baseline's line for a line of the candidate; ``None`` where the source differs."""
        return next((one for one in self.baseline if line.source_hash and one.place == line.place), None)


def seen_lines(
    runs: Sequence[Selected],
    places: Sequence[Index],
    profile: Profile,
    keys: Keys,
    row: int,
) -> tuple[SeenLine, ...]:
    """Return the lines of a function, most time first; `places` maps each run's rows to rows of `profile`."""
    native = profile.strings[int(profile.file[row])] == "~"
    found: dict[tuple[int, int], tuple[float, int]] = {}
    for run, place in zip(runs, places, strict=True):
        for _, thread, of_thread in run.threads:
            row_of = place[of_thread].tolist() if thread.lines else []
            for line in thread.lines or ():
                within = row_of[line.within]
                if (row_of[line.function] if native else within) == row:
                    seconds, samples = found.get((within, line.line), (0.0, 0))
                    found[within, line.line] = seconds + line.seconds, samples + line.samples
    if sum(samples for _, samples in found.values()) < FEWEST_SAMPLES:
        return ()
    whole = sum(seconds for seconds, _ in found.values())
    order = sorted(found, key=lambda at: (-found[at][0], at))
    strings = profile.strings
    return tuple(
        SeenLine(
            keys[within],
            strings[int(profile.name[within])],
            strings[int(profile.file[within])],
            int(profile.line[within]),
            strings[int(profile.source_hash[within])],
            line,
            *found[within, line],
            share=found[within, line][0] / whole,
        )
        for within, line in order[:MOST]
        if found[within, line][0] >= LEAST_SHARE * whole
    )
