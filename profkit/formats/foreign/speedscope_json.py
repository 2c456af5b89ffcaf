"""Reader of speedscope's JSON (`file-format-schema.json` of its package).

Evented profiles may come from tracers or samplers, so calls are not known.
"""

from __future__ import annotations

import re
from typing import Any

from profkit.errors import FormatError
from profkit.formats.foreign.stacks import DEEPEST, NATIVE, Frame, Samples, ThreadKey
from profkit.formats.limits import Budget
from profkit.model import Notice, Run

#: Seconds per unit; ``none`` counts samples, of which py-spy takes 100 per second by default.
_UNITS = {"seconds": 1.0, "milliseconds": 1e-3, "microseconds": 1e-6, "nanoseconds": 1e-9, "none": 0.01}
_THREAD = re.compile(r'(?:Process (\d{1,12}) )?Thread (\d{1,15}|0x[0-9A-Fa-f]{1,16}) "(.*)"', re.DOTALL)


def read_speedscope(path: object, data: Any, budget: Budget) -> Run:
    """Read decoded JSON; raise `FormatError`, `LimitError`, or whatever a wrong type raises."""
    exporter = str(data.get("exporter") or "").partition("@")[0]
    if exporter == "profkit":
        raise FormatError(path, "was exported by profkit", "give the run file that it was made from")
    frames = [
        (str(f.get("file") or NATIVE), int(f.get("line") or 0), str(f["name"]))
        for f in data["shared"]["frames"]
    ]
    samples, assumed = Samples(budget), False
    for profile in data["profiles"]:
        unit = profile["unit"]
        if unit not in _UNITS:
            raise FormatError(path, f"counts {unit}, not time", "record time")
        assumed |= unit == "none"
        name = str(profile["name"])
        found = _THREAD.fullmatch(name)
        number = found[2] if found else ""
        thread: ThreadKey = (
            (int(found[1]) if found[1] else None, int(number, 16 if number[:2] == "0x" else 10), found[3])
            if found
            else (None, None, name)
        )
        _read_profile(samples, thread, profile, frames, _UNITS[unit])
    numbers = {"assumed": 1 / _UNITS["none"]} if assumed else {}
    notice = Notice("foreign-samples", exporter or "speedscope", numbers)
    return samples.run(path, notice, executed_lines=True)


def _read_profile(
    samples: Samples, thread: ThreadKey, profile: Any, frames: list[Frame], unit: float
) -> None:
    if profile["type"] == "sampled":
        for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
            samples.add(thread, tuple(_at(frames, i) for i in stack), weight * unit)
        return
    open_: list[Frame] = []
    last = profile["startValue"]
    for event in profile["events"]:
        at, frame = event["at"], _at(frames, event["frame"])
        if open_ and at > last:
            samples.add(thread, tuple(open_), (at - last) * unit)
        last = at
        if event["type"] == "O":
            open_.append(frame)
            if len(open_) > DEEPEST:
                raise ValueError(f"its calls nest deeper than {DEEPEST:,}")
        elif open_.pop() != frame:
            raise ValueError("closes another frame than the innermost")


def _at(frames: list[Frame], i: int) -> Frame:
    if i < 0:
        raise ValueError("names a frame that is not there")
    return frames[i]
