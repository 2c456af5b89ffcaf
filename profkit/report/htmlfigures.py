"""Frames of a page's figures, and drawings without a script; the script finds its places by their ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from profkit.report import units
from profkit.report.figures import TimelineSide
from profkit.report.markup import element, escape
from profkit.report.waits import states_key


def _button(text: str, label: str, **values: str | bool | None) -> str:
    return element("button", text, type="button", aria_label=label, title=label, **values)


def _choice(name: str, legend: str, options: tuple[tuple[str, str], ...]) -> str:
    """Radio buttons, the first of them selected."""
    inputs = (
        element(
            "label",
            element("input", type="radio", name=name, value=value, checked=at == 0),
            element("span", text),
        )
        for at, (value, text) in enumerate(options)
    )
    return element("fieldset", element("legend", legend), *inputs, class_="choice")


def _width_by(name: str) -> str:
    return _choice(name, "Width by", (("after", "candidate"), ("before", "baseline")))


_NO_SCRIPT = (
    '<noscript><p class="note">This part is drawn by a script, which is turned off here.</p></noscript>'
)


def _scripted(*content: str) -> str:
    """What the script fills, and why it is empty without one."""
    return _NO_SCRIPT + element("div", *content, class_="scripted", hidden=True)


def _find(name: str, label: str, **values: str | bool | None) -> str:
    """A field to search names."""
    return element(
        "label",
        element("span", f"{label} "),
        element("input", type="search", id=name, autocomplete="off", spellcheck="false", **values),
    )


def calls_part(graph: Mapping[str, Any]) -> str:
    """Return the frame of the picture of callers and callees."""
    compared, left_out = graph["before"] is not None, graph["left_out"]
    side = _width_by("width") if compared else ""
    colour = "Red took more seconds in the candidate, blue less. " if compared else ""
    left = (
        f"{left_out:,} calls are left out; none of them took more than {units.seconds(graph['left_out_s'])}."
        if left_out
        else ""
    )
    made = (
        "One function stands in the middle, with those that call it above and those that it calls below: what was "
        f"measured of each pair. {colour}{left}"
    )
    controls = element(
        "div",
        _button("← Back", "Back to the function before", id="calls-back", disabled=True),
        _button("Top", "To the function that holds most time", id="calls-top"),
        _find("calls-find", "Function", list="calls-names"),
        element("datalist", id="calls-names"),
        side,
        class_="controls",
    )
    return element("p", escape(made.strip()), class_="note") + _scripted(
        controls,
        element("div", id="calls-picture", class_="calls"),
        element("p", id="calls-said", class_="note", aria_live="polite"),
        element("div", id="calls-table", class_="wide"),
    )


def stacks_section(graph: Mapping[str, Any]) -> str:
    """Return the frame of the flame graph."""
    compared = graph["before"] is not None
    parts = [
        "Each block is a function, called by the one above it; its width is the time that it took with all it called."
    ]
    if compared:
        parts.append(
            "Red blocks themselves take more in the candidate, blue ones less; grey ones are unchanged."
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
    measures = (
        ("active", "running + queued"),
        ("running", "running"),
        ("queued", "queued"),
        ("all", "all, off the CPU too"),
    )
    options = "".join(element("option", text, value=value) for value, text in measures)
    controls = element(
        "div",
        _button("Whole", "Show everything again", id="flame-whole", disabled=True),
        _find("flame-find", "Search"),
        _width_by("flame-side") if compared else "",
        element("label", element("span", "Time "), element("select", options, id="flame-measure"))
        if graph["waits"]
        else "",
        element("span", id="flame-found", class_="note", role="status"),
        class_="controls",
    )
    title = "Flame graph: what changed" if compared else "Flame graph"
    return element(
        "section",
        element("h2", title),
        element("p", escape(" ".join(parts)), class_="note"),
        _scripted(
            controls,
            element("nav", id="flame-path", aria_label="Functions around what is shown"),
            element("div", id="flame-picture", class_="flame"),
            element("div", id="flame-key", class_="key", aria_hidden="true"),
            element("p", id="flame-said", class_="said", aria_live="polite"),
        ),
        class_="card",
        id="flame",
    )


def timeline_section(sides: Sequence[TimelineSide]) -> str:
    """Return the frame of the time line."""
    states = any(side.processes for side in sides)
    parts = []
    if any(len(track.name) for side in sides for track in side.tracks):
        parts.append("NVTX ranges of each thread")
    if states:
        parts.append("what each process's threads did (100 %: all that ran or could have run, at least one)")
    if any(process.functions is not None for side in sides for process in side.processes):
        parts.append("below it the function that its first thread was longest in, on a CPU or waiting")
    if any(side.runnable is not None for side in sides):
        parts.append("the machine's runnable threads, with its CPUs as a dashed line")
    if any(side.gpu is not None for side in sides):
        parts.append("GPU utilisation")
    short = sum(track.left_out for side in sides for track in side.tracks)
    threads = sum(side.tracks_left_out for side in sides)
    processes = sum(side.processes_left_out for side in sides)
    said = "; ".join(parts) + "." if parts else ""
    said = said[:1].upper() + said[1:]
    if len(sides) > 1:
        said += " Both runs have the same scale."
    left = [
        f"{count:,} {what}"
        for count, what in (
            (short, "shorter ranges"),
            (threads, "more threads with ranges"),
            (processes, "processes that did less"),
        )
        if count
    ]
    if left:
        said += f" Not drawn: {', '.join(left)}."
    controls = element(
        "div",
        _button("+", "Zoom in", id="time-in"),
        _button("−", "Zoom out", id="time-out"),
        _button("←", "Earlier", id="time-left"),
        _button("→", "Later", id="time-right"),
        _button("All", "Whole run", id="time-all"),
        _button("Every process", "Show every process, or the busiest", id="time-every", aria_pressed="false"),
        states_key(("running", "running"), ("queued", "queued for a CPU"), ("blocked", "off the CPU"))
        if states
        else "",
        class_="controls",
    )
    return element(
        "section",
        element("h2", "Over time"),
        element("p", escape(said), class_="note"),
        _scripted(controls, element("div", id="time-picture"), element("p", id="time-said", class_="said")),
        class_="card",
        id="timeline",
    )


def functions_section(table: Mapping[str, Any], tables: str) -> str:
    """Return the frame of the table of all functions; `tables` replaces it without a script."""
    roots = sorted(set(table["roots"]))
    options = element("option", "everywhere", value="") + "".join(
        element("option", escape(root), value=root) for root in roots
    )
    moved = (
        element(
            "label",
            element("input", type="checkbox", id="table-marked"),
            element("span", "only what moved beyond the noise"),
            class_="check",
        )
        if table["marked"]
        else ""
    )
    first = ("tottime", "self time"), ("cumtime", "with callees")
    controls = element(
        "div",
        _find("table-find", "Search"),
        element("label", element("span", "in "), element("select", options, id="table-root")),
        _choice("measure", "Seconds", first if table["by"] == "tottime" else first[::-1]),
        moved,
        class_="controls",
    )
    pages = element(
        "div",
        _button("« ", "First page", id="table-first"),
        _button("‹ ", "Page before", id="table-back"),
        element("span", id="table-count", role="status"),
        _button(" ›", "Next page", id="table-next"),
        _button(" »", "Last page", id="table-last"),
        _button("More rows", "Show fifty rows", id="table-more"),
        class_="controls",
    )
    return element(
        "section",
        element("h2", f"Functions ({len(table['names']):,})"),
        element("noscript", tables),
        element(
            "div",
            controls,
            element(
                "div", id="table-rows", class_="wide", tabindex=0, role="region", aria_label="Every function"
            ),
            pages,
            class_="scripted",
            hidden=True,
        ),
        class_="card",
        id="functions",
    )
