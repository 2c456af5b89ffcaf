"""Frames of a page's figures: headings, controls, what a picture is made of, and what can be drawn without a script.

A step of the HTML renderer. The script finds its places by their ids; what each picture shows is written here.
"""

from __future__ import annotations

from profkit.report import units
from profkit.report.figures import CallGraph, FunctionTable, Multiples, Panel, Timeline
from profkit.report.markup import element, escape

__all__ = ["calls_section", "functions_section", "multiples_section", "timeline_section"]


def _button(text: str, label: str, **values: str | bool | None) -> str:
    return element("button", text, type="button", aria_label=label, title=label, **values)


def _choice(name: str, legend: str, options: tuple[tuple[str, str], ...]) -> str:
    """Radio buttons of which the first is chosen."""
    inputs = (
        element(
            "label",
            element("input", type="radio", name=name, value=value, checked=at == 0),
            element("span", text),
        )
        for at, (value, text) in enumerate(options)
    )
    return element("fieldset", element("legend", legend), *inputs, class_="choice")


_NO_SCRIPT = (
    '<noscript><p class="note">This part is drawn by a script, which is turned off here.</p></noscript>'
)


def calls_section(graph: CallGraph, *, compared: bool) -> str:
    """Frame the picture of callers and callees."""
    side = _choice("width", "Width by", (("after", "candidate"), ("before", "baseline"))) if compared else ""
    colour = "Red took more seconds in the candidate, blue less. " if compared else ""
    left = (
        f" {graph.left_out:,} calls are left out; none of them took more than {units.seconds(graph.left_out_s)}."
        if graph.left_out
        else ""
    )
    made = (
        "A profile holds sums for pairs of caller and callee, and no paths. So one function stands in the middle, "
        "with those that call it above and those that it calls below: these widths are what was measured. Whatever "
        "stands further away is apportioned, as if a call cost the same whoever made it, and hatched. "
        f"{colour}↻ is a function that is drawn already.{left}"
    )
    controls = element(
        "div",
        _button("← Back", "Back to the function before", id="calls-back", disabled=True),
        _button("Top", "To the function that holds most time", id="calls-top"),
        element(
            "label",
            element("span", "Function "),
            element(
                "input",
                type="search",
                id="calls-find",
                list="calls-names",
                autocomplete="off",
                spellcheck="false",
            ),
            element("datalist", id="calls-names"),
        ),
        side,
        element(
            "label",
            element("input", type="checkbox", id="calls-deep", checked=True),
            element("span", "further away, apportioned"),
            class_="check",
        ),
        class_="controls",
    )
    body = (
        element("div", id="calls-picture", class_="calls"),
        element("p", id="calls-said", class_="note", aria_live="polite"),
        element(
            "details",
            element("summary", "The same as a table"),
            element("div", id="calls-table", class_="wide"),
        ),
    )
    return element(
        "section",
        element("h2", "Who calls whom"),
        element("p", escape(made), class_="note"),
        _NO_SCRIPT,
        element("div", controls, *body, class_="scripted", hidden=True),
        class_="card",
        id="calls",
    )


def timeline_section(timeline: Timeline) -> str:
    """Frame the time line."""
    ranges = any(len(track.name) for side in timeline.sides for track in side.tracks)
    parts = ["NVTX ranges of each thread"] if ranges else []
    if any(track.queued is not None for side in timeline.sides for track in side.tracks):
        parts.append(f"how much of the time {'it' if ranges else 'each thread'} queued for a CPU")
    if any(side.runnable is not None for side in timeline.sides):
        parts.append("the machine's runnable threads, with its CPUs as a dashed line")
    if any(side.gpu is not None for side in timeline.sides):
        parts.append("GPU utilisation")
    short = sum(track.left_out for side in timeline.sides for track in side.tracks)
    threads = sum(side.tracks_left_out for side in timeline.sides)
    said = "; ".join(parts) + "." if parts else ""
    said = said[:1].upper() + said[1:]
    if len(timeline.sides) > 1:
        said += " Both runs have the same scale."
    if short:
        said += f" {short:,} shorter ranges are not drawn."
    if threads:
        said += f" {threads:,} threads that queued less are not drawn."
    controls = element(
        "div",
        _button("+", "Zoom in", id="time-in"),
        _button("−", "Zoom out", id="time-out"),
        _button("←", "Earlier", id="time-left"),
        _button("→", "Later", id="time-right"),
        _button("All", "Whole run", id="time-all"),
        element("span", "Drag over the picture to zoom; arrows, + and − work too.", class_="note"),
        class_="controls",
    )
    return element(
        "section",
        element("h2", "Over time"),
        element("p", escape(said), class_="note"),
        _NO_SCRIPT,
        element("div", controls, element("div", id="time-picture"), class_="scripted", hidden=True),
        class_="card",
        id="timeline",
    )


def functions_section(table: FunctionTable) -> str:
    """Frame the table of every function."""
    roots = sorted(set(table.roots))
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
        if table.marked.any()
        else ""
    )
    first = ("tottime", "self time"), ("cumtime", "with callees")
    controls = element(
        "div",
        element(
            "label",
            element("span", "Search "),
            element("input", type="search", id="table-find", autocomplete="off", spellcheck="false"),
        ),
        element("label", element("span", "in "), element("select", options, id="table-root")),
        _choice("measure", "Seconds", first if table.by == "tottime" else first[::-1]),
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
        class_="controls",
    )
    return element(
        "section",
        element("h2", f"Every function ({len(table):,})"),
        _NO_SCRIPT,
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


def multiples_section(multiples: Multiples) -> str:
    """Draw each process: wall, CPU and queueing as three bars of one scale."""
    panels = [panel for _, side in multiples.sides for panel in side]
    most = max((value or 0.0 for p in panels for value in (p.wall_s, p.cpu_s, p.queue_s)), default=0.0) or 1.0
    sides = []
    for (label, shown), left_out in zip(multiples.sides, multiples.left_out, strict=True):
        if label:
            sides.append(element("h3", escape(label)))
        sides.append(
            element("ul", *(_panel(panel, most, "h4" if label else "h3") for panel in shown), class_="panels")
        )
        if left_out:
            sides.append(
                element("p", f"{left_out:,} processes that queued less are not shown.", class_="note")
            )
    marked = (
        "A red frame: queued for more than 15 % of its active time." if any(p.marked for p in panels) else ""
    )
    said = f"Bars of one scale; the longest is {units.seconds(most)}. CPU and queueing sum over threads. {marked}"
    return element(
        "section",
        element("h2", "Process by process"),
        element("p", said.strip(), class_="note"),
        *sides,
        class_="card",
    )


def _panel(panel: Panel, most: float, heading: str) -> str:
    rows = []
    for name, kind, value in (
        ("wall", "wall", panel.wall_s),
        ("CPU", "cpu", panel.cpu_s),
        ("queued", "queue", panel.queue_s),
    ):
        width = 0.0 if value is None else 100 * value / most
        bar = element(
            "svg",
            element("rect", width=f"{max(width, 0.5):.1f}%", height="100%", rx=1.5) if value else "",
            class_=f"bar {kind}",
            aria_hidden="true",
        )
        rows.append(
            element("div", element("dt", name), element("dd", bar, element("span", units.seconds(value))))
        )
    return element(
        "li",
        element(heading, escape(panel.label)),
        element("dl", *rows),
        class_="marked" if panel.marked else None,
    )
