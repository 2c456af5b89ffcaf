"""`Document` → one HTML file that needs no network, no second file and, to be read, no script.

A Content Security Policy allows its style and script by hash, and no request, whatever a function is called.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from string import Template
from typing import Any

from profkit.report import units
from profkit.report.document import Bullets, Document, Facts, Note, Section, VerdictBlock, Waterfall
from profkit.report.drawing import slopegraph
from profkit.report.figures import Slopes, TimelineSide
from profkit.report.htmlblocks import block_markup, evidence_markup
from profkit.report.markup import assets, element, escape
from profkit.report.pictures import page_json
from profkit.report.waits import states_key, waits_section

_STYLES = ("colours", "page", "waterfall", "slopes", "heat", "trend", "figures", "flame")
_SCRIPTS = ("format", "model", "table", "calls", "flame", "timeline", "page")


def render(document: Document) -> str:
    style = assets(*(f"{name}.css" for name in _STYLES))
    # The script's parts share one scope.
    parts = assets(*(f"{name}.js" for name in _SCRIPTS))
    script = f'(() => {{\n"use strict";\n{parts}}})();\n'
    verdict = document.first(VerdictBlock)
    title = document.title if verdict is None else f"{verdict.named} · {document.title}"
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = _frame("head", policy=escape(policy), title=escape(title), style=style)
    body = _frame(
        "body",
        title=escape(document.title),
        content="".join((*_answer(document), *_pictures(document), *_folded(document))),
        data=page_json(document.figures),
        script=script,
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _of_role(document: Document, role: str) -> list[Section]:
    return [section for section in document.sections[1:] if section.role == role]


def _cards(sections: Iterable[Section]) -> list[str]:
    return [_section(section, _blocks(section)) for section in sections]


def _blocks(section: Section) -> str:
    return "".join(map(block_markup, section.blocks))


def _answer(document: Document) -> Iterator[str]:
    """Yield the top of the page: the verdict, the account beside the advice, and the evidence."""
    if document.first(VerdictBlock) is None:
        yield element("h1", escape(document.title), class_="plain")
    for section in document.sections[:1]:
        yield '<section class="first">' + _blocks(section) + "</section>"
    account, advice = _cards(_of_role(document, "account")), _cards(_of_role(document, "advice"))
    if _drawn(document):
        advice += _cards(filter(_is_said, _of_role(document, "")))
    beside = bool(advice) and any(
        isinstance(block, Waterfall) for section in _of_role(document, "account") for block in section.blocks
    )
    if beside:
        yield element("div", *account, element("div", *advice), class_="pair account")
    else:
        yield from account
    for section in _of_role(document, "trust"):
        score, *rest = section.blocks
        about = f"{section.title}: {score.text}" if isinstance(score, Note) else section.title
        yield _fold(about, "".join(map(block_markup, rest)))
    for section in _of_role(document, "evidence"):
        yield _section(section, evidence_markup(section.blocks))
    if not beside:
        yield from advice


def _pictures(document: Document) -> Iterator[str]:
    """Yield the figures and function tables; for studies, which draw no functions, all other sections."""
    figures = document.figures
    for section in _of_role(document, "iterations"):
        yield _section(section, _said_first(section, "In each iteration"))
    if figures.waits:
        yield waits_section(figures.waits)
    if figures.timeline:
        yield timeline_section(figures.timeline)
    if figures.stacks is not None:
        yield stacks_section(figures.stacks)
    moved = _cards(_of_role(document, "moved"))
    if figures.slopes is not None:
        moved = [_slopes(figures.slopes), element("div", *moved)]
    yield element("div", *moved, class_="pair") if moved else ""
    tables = _of_role(document, "functions")
    if figures.functions is not None:
        # The script replaces these tables by one of all functions.
        yield functions_section(
            figures.functions,
            "".join(element("h3", escape(section.title)) + _blocks(section) for section in tables),
        )
    else:
        yield from _cards(tables)
    if not _drawn(document):
        for section in _of_role(document, ""):
            content = _blocks(section)
            yield _fold(section.title, content) if section.detail else _section(section, content)


def _folded(document: Document) -> Iterator[str]:
    """Yield details to look up: who calls whom, machines and settings, how to reproduce."""
    calls = document.figures.calls
    if calls is not None:
        yield _fold("Who calls whom", calls_part(calls), "calls")
    if _drawn(document):
        for section in _of_role(document, ""):
            if not _is_said(section):
                yield _fold(section.title, _blocks(section))
    for section in _of_role(document, "reproduce"):
        yield _fold(section.title, _blocks(section))


def _said_first(section: Section, tables: str) -> str:
    """Return sentences and facts, with the tables folded below."""
    rest = [block for block in section.blocks if not isinstance(block, (Facts, Note))]
    notes = [block for block in section.blocks if isinstance(block, Note) and not block.tone]
    folded = [*rest, *notes]
    first = "".join(block_markup(block) for block in section.blocks if block not in folded)
    return first + element("details", element("summary", escape(tables)), *map(block_markup, folded))


def _drawn(document: Document) -> bool:
    """Return whether functions are drawn: true for a run or comparison, false for a study."""
    return document.figures.functions is not None


def _is_said(section: Section) -> bool:
    return not section.detail and all(isinstance(block, (Bullets, Note)) for block in section.blocks)


def _fold(title: str, content: str, name: str | None = None) -> str:
    summary = element("summary", element("h2", escape(title)))
    return element("details", summary, content, class_="card", id=name)


def _section(section: Section, content: str) -> str:
    heading = element("h2", escape(section.title))
    return element("section", heading, content, class_=f"card {section.role}".strip())


def _slopes(slopes: Slopes) -> str:
    what = "self time" if slopes.by == "tottime" else "cumulative time"
    more = f" {slopes.hidden:,} more moved; the table below marks them." if slopes.hidden else ""
    said = (
        "Functions that moved beyond the noise are named: red took more seconds, blue fewer; a thicker line "
        f"changed more. Functions that wait are left out.{more}"
    )
    label = f"Ranks of functions by {what}, baseline against candidate"
    picture = slopegraph(slopes).picture("slopes", label)
    caption = f"Rank by {what}, most at the top, on a logarithmic scale. {said}"
    figure = element("figure", picture, element("figcaption", escape(caption)))
    return element("section", element("h2", "How the ranking moved"), figure, class_="card")


@cache
def _frames() -> Mapping[str, Template]:
    parts = (part.splitlines() for part in assets("frames.html").split("\n\n"))
    return {name.strip("<!-> "): Template("".join(map(str.strip, lines))) for name, *lines in parts}


def _frame(frame: str, /, **parts: str) -> str:
    """Fill a frame with parts that are markup already."""
    return _frames()[frame].substitute(parts, no_script=_frames()["no-script"].template)


def _choice(name: str, legend: str, first: tuple[str, str], second: tuple[str, str]) -> str:
    """Return two radio buttons, the first one selected."""
    texts = dict(zip(("first", "first_text", "second", "second_text"), (*first, *second), strict=True))
    return _frame("choice", name=name, legend=legend, **texts)


def _width_by(name: str) -> str:
    return _choice(name, "Width by", ("after", "candidate"), ("before", "baseline"))


def calls_part(graph: Mapping[str, Any]) -> str:
    compared, left_out = graph["before"] is not None, graph["left_out"]
    said = (
        "One function stands in the middle, with its callers above it and its callees below, and the values "
        "measured for each pair."
    )
    if compared:
        said += " Red took more seconds in the candidate, blue less."
    if left_out:
        most = units.seconds(graph["left_out_s"])
        said += f" {units.counted(left_out, 'call is', 'calls are')} left out; none of them took more than {most}."
    return _frame("calls", said=escape(said), side=_width_by("width") if compared else "")


def stacks_section(graph: Mapping[str, Any]) -> str:
    compared, waits = graph["before"] is not None, graph["waits"]
    reconstructed = (
        "Stacks are reconstructed from pairs of caller and callee, as if a function divided its time in the "
        "same way whoever called it."
    )
    sentences = {
        "Each block is a function, called by the one above it; its width is its time including all callees.": True,
        "Red blocks have more self time in the candidate, blue ones less; grey ones are unchanged.": compared,
        "Times are per iteration.": graph["after"]["iterations"] is not None,
        "The line at the bottom of a block: how much of it was queued for a CPU, and off the CPU.": waits,
        reconstructed: not graph["measured"],
    }
    return _frame(
        "stacks",
        title="Flame graph: what changed" if compared else "Flame graph",
        said=escape(" ".join(sentence for sentence, there in sentences.items() if there)),
        side=_width_by("flame-side") if compared else "",
        measure=_frame("stack-measure") if waits else "",
    )


def timeline_section(sides: Sequence[TimelineSide]) -> str:
    states = any(side.processes for side in sides)
    functions = any(process.functions is not None for side in sides for process in side.processes)
    machine = any(side.runnable is not None for side in sides)
    drawn = {
        "NVTX ranges of each thread": any(len(track.name) for side in sides for track in side.tracks),
        "what each process's threads did (100 %: all running or runnable, at least one)": states,
        "below it, the function in which its first thread was longest, on a CPU or waiting": functions,
        "the machine's runnable threads, with its CPUs as a dashed line": machine,
        "GPU utilisation": any(side.gpu is not None for side in sides),
    }
    said = "; ".join(what for what, there in drawn.items() if there)
    said = f"{said[:1].upper()}{said[1:]}." if said else ""
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
