"""Readers of Chrome JSON traces (torch.profiler's Kineto, VizTracer, py-spy and others), and of speedscope's JSON.

Kineto and VizTracer record every call as a complete event; other writers may sample, so their calls are not
known, as those of speedscope's profiles (`file-format-schema.json` of its package).
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

from profkit.errors import FormatError
from profkit.formats.foreign.calls import Call, RangeRow, gpu_use, profile_from_calls, ranges_from, segments
from profkit.formats.foreign.stacks import (
    DEEPEST,
    NATIVE,
    Frame,
    Samples,
    Stack,
    ThreadKey,
    frame_of,
    run_of_threads,
)
from profkit.formats.limits import Budget
from profkit.model import Notice, Run, Thread
from profkit.model.ranges import PUSHED

_LAUNCHES = ("cuda_runtime", "cuda_driver")
#: Categories that only tracers write, for every call or range.
_RANGE = "user_annotation"
_KINETO = ("python_function", "cpu_op", _RANGE, *_LAUNCHES)
_TRACERS = {"FEE": "VizTracer", **dict.fromkeys(_KINETO, "torch.profiler")}
#: Categories of GPU work, and of other events outside the program's threads.
_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_ELSEWHERE = ("gpu_user_annotation", "Trace", "overhead")
_MICROSECOND = 1e-6

_Place: TypeAlias = tuple[int | None, int | None]


def read_chrome(path: object, data: Any, budget: Budget) -> Run:
    """Read decoded JSON; raise `FormatError`, `LimitError`, or whatever a wrong type raises."""
    events = data["traceEvents"] if isinstance(data, dict) else data
    if isinstance(data, dict) and (data.get("otherData") or {}).get("writer") == "profkit":
        raise FormatError(path, "was exported by profkit", "give the run file that it was made from")
    names: dict[_Place, str] = {}
    calls: dict[_Place, list[Call]] = defaultdict(list)
    ranges: dict[int | None, list[RangeRow]] = defaultdict(list)
    # Open calls, as indices into the thread's calls: a call that ends with its caller stays inside it.
    open_: dict[_Place, list[int]] = defaultdict(list)
    last = 0.0
    work: list[tuple[float, float]] = []
    launches: Counter[_Place] = Counter()
    named_frame = cache(frame_of)
    tool = ""
    for event in events:
        kind, category = event.get("ph"), event.get("cat")
        place = _number(event.get("pid")), _number(event.get("tid"))
        if kind == "M" and event.get("name") == "thread_name":
            names[place] = str(event["args"]["name"])
        if kind not in ("X", "B", "E") or category in _ELSEWHERE:
            continue
        begin = float(event["ts"])
        if category in _GPU:
            work.append((begin, begin + float(event["dur"])))
            continue
        end = begin + float(event["dur"]) if kind == "X" else begin
        last = max(last, end)
        if kind == "E":
            if open_[place]:
                number = open_[place].pop()
                since, _, frame = calls[place][number]
                calls[place][number] = since, begin, frame
            continue
        text = str(event.get("name"))
        tool = tool or _TRACERS.get(category, "")
        launches[place] += category in _LAUNCHES
        if category == _RANGE and kind == "X":
            times = int(begin * 1000), int(end * 1000)
            ranges[place[0]].append((*times, text, "", place[1] or 0, PUSHED))
            continue
        arguments = event.get("args")
        if isinstance(arguments, dict) and "filename" in arguments:
            frame = str(arguments["filename"]), int(arguments.get("line") or 0), text
        else:
            frame = named_frame(text)
        if kind == "B":
            open_[place].append(len(calls[place]))
            calls[place].append((begin, math.inf, frame))
        else:
            calls[place].append((begin, end, frame))
    budget.spend("NVTX ranges", sum(map(len, ranges.values())))
    calls = {
        place: [(b, min(e, last), f) for b, e, f in of] if open_[place] else of for place, of in calls.items()
    }
    if not tool:
        return _sampled(path, calls, names, budget)
    processes: dict[int | None, list[Thread]] = {}
    for place, found in calls.items():
        profile = profile_from_calls(found, _MICROSECOND)
        processes.setdefault(place[0], []).append(Thread(profile, place[1], names.get(place, "")))
    warnings = (Notice("foreign-trace", tool),)
    run = run_of_threads(path, processes, warnings, {pid: ranges_from(rows) for pid, rows in ranges.items()})
    # The thread with most launches or, without launches, most calls.
    giver = max(calls, key=lambda place: (launches[place], len(calls[place])), default=None)
    use = gpu_use(work, segments(calls[giver]), _MICROSECOND) if work and giver else None
    return replace(run, gpu=use)


def _sampled(path: object, calls: dict[_Place, list[Call]], names: dict[_Place, str], budget: Budget) -> Run:
    """Treat the time between two changes of a thread's stack as a sample."""
    samples = Samples(budget)
    for place, found in calls.items():
        thread = (*place, names.get(place, ""))
        for stack, begin, end in segments(found):
            samples.add(thread, stack, (end - begin) * _MICROSECOND)
    return samples.run(path, Notice("foreign-samples", "Chrome's trace format"), executed_lines=True)


def _number(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


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
        thread: ThreadKey = (None, None, str(profile["name"]))
        if found := _THREAD.fullmatch(thread[2]):
            base = 16 if found[2].startswith("0x") else 10
            thread = int(found[1]) if found[1] else None, int(found[2], base), found[3]
        _read_profile(samples, thread, profile, frames, unit)
    numbers = {"assumed": 1 / _UNITS["none"]} if assumed else {}
    notice = Notice("foreign-samples", exporter or "speedscope", numbers)
    return samples.run(path, notice, executed_lines=True)


def _read_profile(samples: Samples, thread: ThreadKey, profile: Any, frames: list[Frame], unit: str) -> None:
    def add(stack: Stack, weight: float) -> None:
        taken = math.ceil(weight) if unit == "none" else 1
        samples.add(thread, stack, weight * _UNITS[unit], taken)

    if profile["type"] == "sampled":
        for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
            add(tuple(_at(frames, i) for i in stack), weight)
        return
    open_: list[Frame] = []
    last = profile["startValue"]
    for event in profile["events"]:
        at, frame = event["at"], _at(frames, event["frame"])
        if open_ and at > last:
            add(tuple(open_), at - last)
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
