"""Writer of the Firefox Profiler's (profiler.firefox.com) processed profile format, version 48.

Samples are calling contexts, weighted by milliseconds; their order is not one in time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from profkit.errors import FormatError
from profkit.formats.export.stack_tree import OFF_CPU, QUEUED, contexts_of, not_held, place_of
from profkit.formats.export.timeline import Export, process_label
from profkit.model import Process, Run, Thread
from profkit.model.paths import preorder
from profkit.model.surrogates import spelled_out

#: The profiler upgrades older files from this version on (docs-developer/CHANGELOG-formats.md).
_VERSION, _GECKO_VERSION = 48, 30
#: Category of a frame, by the frame above the function.
_CATEGORIES = {
    "": ("On a CPU", "yellow"),
    QUEUED: ("Queued for a CPU", "red"),
    OFF_CPU: ("Off the CPU", "blue"),
}
_OTHER = ("Other", "grey")


def firefox_profile(runs: Sequence[Run]) -> Export:
    """Lay out the functions of all threads of all runs in one file; raise `FormatError` if a run has none."""
    labels = [os.path.basename(run.path) for run in runs]
    if len(set(labels)) < len(labels):
        labels = [run.path for run in runs]
    if len(set(labels)) < len(labels):  # paths are masked
        labels = [f"{label} ({number})" for number, label in enumerate(labels, 1)]
    found: list[tuple[str, str, Process, Thread]] = []
    left_out: dict[str, None] = {}
    taken: set[str] = set()
    for number, (label, run) in enumerate(zip(labels, runs, strict=True), 1):
        before = len(found)
        for place, process in enumerate(run.processes, 1):
            # Viewers identify processes by pid, and several runs may share pids.
            pid = str(process.pid or place)
            pid = f"{pid}-{number}-{place}" if pid in taken else pid
            taken.add(pid)
            name = f"{label}: {process_label(process)}" if len(runs) > 1 else process_label(process)
            threads = [t for t in process.threads if (t.profile.tottime > 0).any()]
            found += [(name, pid, process, thread) for thread in threads]
        if len(found) == before:
            raise FormatError(run.path, "holds no functions to write")
        of = f"{label}: " if len(runs) > 1 else ""
        left_out |= dict.fromkeys(of + sentence for sentence in not_held(run, stacks=True, waiting=True))
    return Export(_chunks(runs, labels, found), tuple(left_out))


def _chunks(
    runs: Sequence[Run], labels: Sequence[str], found: list[tuple[str, str, Process, Thread]]
) -> Iterator[bytes]:
    manifest = runs[0].manifest
    meta = {
        "categories": [
            {"name": name, "color": color, "subcategories": ["Other"]}
            for name, color in (*_CATEGORIES.values(), _OTHER)
        ],
        "interval": 1,
        "preprocessedProfileVersion": _VERSION,
        "version": _GECKO_VERSION,
        "processType": 0,
        "product": spelled_out(" and ".join(labels)),
        "importedFrom": "profkit",
        "stackwalk": 1,
        "debug": False,
        "symbolicated": True,
        "startTime": 1e3 * (manifest.clocks.get("time", 0.0) if manifest is not None else 0.0),
        "extensions": _empty("id name baseURL"),
        "markerSchema": [],
        "usesOnlyOneStackType": True,
        "doesNotUseFrameImplementation": True,
        "sourceCodeIsNotOnSearchfox": True,
    }
    yield f'{{"meta":{_json(meta)},"libs":[],"pages":[],"counters":[],"profilerOverhead":[],"threads":['.encode()
    for number, (name, pid, process, thread) in enumerate(found):
        written = _thread(name, pid, process, thread, number)
        yield (",\n" if number else "").encode() + _json(written).encode()
    yield b"]}\n"


def _empty(columns: str) -> dict[str, Any]:
    return {"length": 0, **{name: [] for name in columns.split()}}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _thread(name: str, pid: str, process: Process, thread: Thread, number: int) -> dict[str, Any]:
    profile, contexts = thread.profile, contexts_of(thread)
    texts: dict[str, int] = {}
    functions: dict[tuple[str, str, int, int], int] = {}

    def text(value: str) -> int:
        return texts.setdefault(spelled_out(value), len(texts))

    def function(place: tuple[str, str, int], category: int) -> int:
        return functions.setdefault((*place, category), len(functions))

    prefix: list[int | None] = []
    frame: list[int] = []
    stack: list[int | None] = []
    times: list[float] = []
    weights: list[float] = []
    at, place = 0.0, dict[int, int]()
    for row in preorder(contexts.parent.tolist(), range(len(contexts))):  # neighbours share callers
        of, parent = int(contexts.function[row]), int(contexts.parent[row])
        place[row] = len(prefix)
        prefix.append(place[parent] if parent >= 0 else None)
        frame.append(function(place_of(profile, of), 0))
        for above, seconds in contexts.parts(row):
            which = place[row]
            if above:
                which = len(prefix)
                prefix.append(place[row])
                frame.append(function((above, "", 0), list(_CATEGORIES).index(above)))
            stack.append(which)
            times.append(at)
            weights.append(seconds * 1e3)
            at += seconds * 1e3
    n = len(functions)
    category = [which for *_, which in functions]
    none, zero = [None] * n, [0] * n
    func_table = {
        "length": n,
        "name": [text(name) for name, *_ in functions],
        **dict.fromkeys(("isJS", "relevantForJS"), [False] * n),
        "resource": [-1] * n,
        "fileName": [text(file) if file else None for _, file, *_ in functions],
        "lineNumber": [line or None for _, _, line, _ in functions],
        "columnNumber": none,
    }
    frame_table = {
        "length": n,
        "address": [-1] * n,
        "category": category,
        "func": list(range(n)),
        **dict.fromkeys(("inlineDepth", "subcategory", "innerWindowID"), zero),
        **dict.fromkeys(("nativeSymbol", "implementation", "line", "column"), none),
    }
    return {
        "processType": "default",
        "processName": spelled_out(name),
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "name": spelled_out(thread.name or "thread"),
        "isMainThread": bool(process.threads) and thread is process.threads[0],
        "pid": pid,
        "tid": thread.tid if thread.tid is not None else number,
        "samples": {
            "length": len(stack),
            "stack": stack,
            "time": times,
            "weight": weights,
            "weightType": "tracing-ms",
        },
        "markers": _empty("data name startTime endTime phase category"),
        "stackTable": {
            "length": len(prefix),
            "prefix": prefix,
            "frame": frame,
            "category": [category[i] for i in frame],
            "subcategory": [0] * len(frame),
        },
        "frameTable": frame_table,
        "funcTable": func_table,
        "resourceTable": _empty("lib name host type"),
        "nativeSymbols": _empty("libIndex address name functionSize"),
        "stringArray": list(texts),
    }
