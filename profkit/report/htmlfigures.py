"""Frames of a page's figures, from ``assets/frames.html``; the script finds its elements by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from string import Template
from typing import Any

from profkit.report import units
from profkit.report.figures import TimelineSide
from profkit.report.markup import assets, element, escape
from profkit.report.waits import states_key

_NO_SCRIPT = (
    '<noscript><p class="note">This part is drawn by a script, which is turned off here.</p></noscript>'
)


@cache
def _frames() -> Mapping[str, Template]:
    parts = (part.splitlines() for part in assets("frames.html").split("\n\n"))
    return {name.strip("<!-> "): Template("".join(map(str.strip, lines))) for name, *lines in parts}


def _frame(frame: str, /, **parts: str) -> str:
    """Fill a frame with parts that are markup already."""
    return _frames()[frame].substitute(parts, no_script=_NO_SCRIPT)


def _choice(name: str, legend: str, first: tuple[str, str], second: tuple[str, str]) -> str:
    """Return two radio buttons, the first one selected."""
    texts = dict(zip(("first", "first_text", "second", "second_text"), (*first, *second), strict=True))
    return _frame("choice", name=name, legend=legend, **texts)


def _width_by(name: str) -> str:
    return _choice(name, "Width by", ("after", "candidate"), ("before", "baseline"))


def calls_part(graph: Mapping[str, Any]) -> str:
    compared, left_out = graph["before"] is not None, graph["left_out"]
    side = _width_by("width") if compared else ""
    colour = "Red took more seconds in the candidate, blue less. " if compared else ""
    left = (
        f"{left_out:,} calls are left out; none of them took more than {units.seconds(graph['left_out_s'])}."
        if left_out
        else ""
    )
    made = (
        "One function stands in the middle, with its callers above it and its callees below, and the values "
        f"measured for each pair. {colour}{left}"
    )
    return _frame("calls", said=escape(made.strip()), side=side)


def stacks_section(graph: Mapping[str, Any]) -> str:
    compared = graph["before"] is not None
    parts = [
        "Each block is a function, called by the one above it; its width is its time including all callees."
    ]
    if compared:
        parts.append(
            "Red blocks have more self time in the candidate, blue ones less; grey ones are unchanged."
        )
    if graph["after"]["iterations"] is not None:
        parts.append("Times are per iteration.")
    if graph["waits"]:
        parts.append(
            "The line at the bottom of a block: how much of it was queued for a CPU, and off the CPU."
        )
    if not graph["measured"]:
        parts.append(
            "Stacks are reconstructed from pairs of caller and callee, as if a function divided its time in the "
            "same way whoever called it."
        )
    return _frame(
        "stacks",
        title="Flame graph: what changed" if compared else "Flame graph",
        said=escape(" ".join(parts)),
        side=_width_by("flame-side") if compared else "",
        measure=_frame("stack-measure") if graph["waits"] else "",
    )


def timeline_section(sides: Sequence[TimelineSide]) -> str:
    states = any(side.processes for side in sides)
    parts = []
    if any(len(track.name) for side in sides for track in side.tracks):
        parts.append("NVTX ranges of each thread")
    if states:
        parts.append("what each process's threads did (100 %: all running or runnable, at least one)")
    if any(process.functions is not None for side in sides for process in side.processes):
        parts.append("below it, the function in which its first thread was longest, on a CPU or waiting")
    if any(side.runnable is not None for side in sides):
        parts.append("the machine's runnable threads, with its CPUs as a dashed line")
    if any(side.gpu is not None for side in sides):
        parts.append("GPU utilisation")
    said = "; ".join(parts) + "." if parts else ""
    said = said[:1].upper() + said[1:]
    if len(sides) > 1:
        said += " Both runs have the same scale."
    counts = {
        "shorter ranges": sum(track.left_out for side in sides for track in side.tracks),
        "more threads with ranges": sum(side.tracks_left_out for side in sides),
        "processes that did less": sum(side.processes_left_out for side in sides),
    }
    left = [f"{count:,} {what}" for what, count in counts.items() if count]
    if left:
        said += f" Not drawn: {', '.join(left)}."
    kinds = ("running", "running"), ("queued", "queued for a CPU"), ("blocked", "off the CPU")
    return _frame("timeline", said=escape(said), key=states_key(*kinds) if states else "")


def functions_section(table: Mapping[str, Any], tables: str) -> str:
    """Return the frame of the table of all functions; `tables` replaces it without a script."""
    roots = (element("option", escape(root), value=root) for root in sorted(set(table["roots"])))
    measures = ("tottime", "self time"), ("cumtime", "with callees")
    return _frame(
        "functions",
        count=f"{len(table['names']):,}",
        tables=tables,
        roots="".join(roots),
        measure=_choice("measure", "Seconds", *(measures if table["by"] == "tottime" else measures[::-1])),
        marked=_frame("marked") if table["marked"] else "",
    )
