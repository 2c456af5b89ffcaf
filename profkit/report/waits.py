"""Who waits for whom, one picture per side: boxes for groups of processes, arrows for their waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from profkit.measure.group_waits import GroupName, Lane, WaitGroup, group_waits
from profkit.model import Process, Run
from profkit.report import units
from profkit.report.markup import Drawing, element, escape, number, svg_text
from profkit.report.text import clean

#: Most processes of a side that are drawn singly.
MOST_LANES = 64
#: Shares of the wall (0 to 1) from which waiting gets an arrow, and from which the late rank is named.
LEAST_ARROW, LEAST_SAID = 0.01, 0.05

#: Sizes in the drawing's units: its width, a box's height, and the gap for two arrows.
_WIDTH, _BOX, _GAP = 470.0, 52.0, 62.0
_PARTS = (
    ("running", "running", ("running_s",)),
    ("queued", "queued for a CPU", ("queued_s",)),
    ("waiting", "waiting for each other", ("others_s", "peers_s")),
    ("blocked", "off the CPU otherwise", ("rest_s",)),
)
#: Names of a group: of one process, of several, and as seen by the other group.
_NAMES: dict[GroupName, tuple[str, str, str]] = {
    "main": ("main", "main processes", "main"),
    "ranks": ("rank", "ranks", "their rank"),
    "workers": ("worker", "workers", "workers"),
    "children": ("child process", "child processes", "child processes"),
}


#: Groups of processes of each side, by its label.
_Sides = tuple[tuple[str, tuple[WaitGroup, ...]], ...]


def waits(sides: Sequence[tuple[str, Run]]) -> _Sides:
    """Return one run per side; empty if no side has two processes with counters."""
    found = tuple((label, group_waits(run)) for label, run in sides)
    several = any(sum(len(group.lanes) for group in groups) > 1 for _, groups in found)
    return tuple((label, groups) for label, groups in found if groups) if several else ()


def label_of(process: Process) -> str:
    if process.rank is not None:
        rank = f"rank {process.rank}"
        return rank if process.role in ("rank", "main") else f"{clean(process.role)} of {rank}"
    return f"{clean(process.role)} {process.pid}" if process.pid is not None else clean(process.role)


def states_key(*states: tuple[str, str]) -> str:
    items = (element("li", element("i", class_=kind), text) for kind, text in states)
    return element("ul", *items, class_="states", aria_hidden="true")


def waits_section(figure: _Sides) -> str:
    def each(drawn: Callable[[Sequence[WaitGroup]], str]) -> str:
        sides = (
            element("div", element("h3", escape(label)) if label else "", drawn(groups))
            for label, groups in figure
        )
        return element("div", *sides, class_="waits")

    count = max(sum(len(group.lanes) for group in groups) for _, groups in figure)
    said = (
        "The first thread of each process, over its life; for several processes, the mean. An arrow points "
        "to what is waited for; a wider arrow is a longer wait."
    )
    return element(
        "section",
        element("h2", "Who waits for whom"),
        element("p", said, class_="note"),
        each(_picture),
        states_key(*((kind, text) for kind, text, _ in _PARTS)),
        element("details", element("summary", f"Each of {count:,} processes"), each(_every)),
        class_="card",
        id="waits",
    )


def _name(group: WaitGroup) -> str:
    one, several, _ = _NAMES[group.name]
    return one if len(group.lanes) == 1 else f"{len(group.lanes):,} {several}"


def _share(group: WaitGroup, part: str) -> float:
    wall = group.mean("wall_s")
    return group.mean(part) / wall if wall > 0 else 0.0


def _picture(groups: Sequence[WaitGroup]) -> str:
    first, y, parts, said = groups[0], 1.0, [], []
    for group in groups:
        parts.append(_box(group, y))
        y += _BOX
        if group.name == "ranks":
            text = _for_ranks(group)
            said.append(text)
            parts += [_loop(y - _BOX, _share(group, "peers_s")), svg_text(text, 12, y + 18)]
            y += 26
        for other in groups[1:] if group is first else ():
            down, up = _waits(first, other), _waits(other, first)
            said += [down, up]
            parts += [_arrow(30, y, _share(first, "others_s"), down=True), svg_text(down, 50, y + 24)]
            parts += [
                _arrow(_WIDTH - 60, y, _share(other, "others_s"), down=False),
                svg_text(up, _WIDTH - 80, y + 48, "end"),
            ]
            y += _GAP
    return Drawing("".join(parts), y + 1, _WIDTH).picture("picture", "; ".join(said) or _name(first))


def _box(group: WaitGroup, y: float) -> str:
    ran, queued = (units.share(_share(group, part)) for part in ("running_s", "queued_s"))
    return element(
        "g",
        element("rect", x=1, y=y, width=_WIDTH - 32, height=_BOX, rx=7, class_="box"),
        svg_text(_name(group), 12, y + 21, "who"),
        svg_text(f"ran {ran}, queued {queued}", _WIDTH - 42, y + 20, "minor end"),
        *_bar(
            [(kind, sum(_share(group, part) for part in of)) for kind, _, of in _PARTS],
            12,
            y + 31,
            _WIDTH - 54,
        ),
    )


def _bar(shares: Sequence[tuple[str, float]], x: float, y: float, width: float) -> list[str]:
    bars = []
    for kind, share in shares:
        bars.append(element("rect", x=x, y=y, width=width * share, height=11, class_=kind))
        x += width * share
    return bars


def _arrow(x: float, y: float, share: float, *, down: bool) -> str:
    if share < LEAST_ARROW:
        return ""
    half, top, bottom = 1.0 + 6.0 * share, y + 5, y + _GAP - 5
    start, neck, end = (top, bottom - 12, bottom) if down else (bottom, top + 12, top)
    points = (
        (-half, start),
        (half, start),
        (half, neck),
        (half + 5, neck),
        (0.0, end),
        (-half - 5, neck),
        (-half, neck),
    )
    path = "L".join(f"{number(x + dx)} {number(at)}" for dx, at in points)
    return element("path", d=f"M{path}z", class_="arrow")


def _loop(y: float, share: float) -> str:
    """Draw an arrow from the ranks to themselves."""
    if share < LEAST_ARROW:
        return ""
    x = _WIDTH - 30
    path = f"M{number(x)} {number(y + 12)}c26 0 26 26 8 26"
    head = f"M{number(x + 2)} {number(y + 38)}l9 -6v12z"
    return element("path", d=path, class_="loop", stroke_width=2 + 6 * share) + element(
        "path", d=head, class_="arrow"
    )


def _waits(one: WaitGroup, other: WaitGroup) -> str:
    """Return how long a group waits for the other: ``16 workers wait 8.4 s each (65 %) for main``."""
    share = _share(one, "others_s")
    if share < LEAST_ARROW:
        return f"{_name(one)} hardly {_verb(one)} for {_whom(one, other)}"
    each = " each" if len(one.lanes) > 1 else ""
    seconds = units.seconds(one.mean("others_s"))
    return f"{_name(one)} {_verb(one)} {seconds}{each} ({units.share(share)}) for {_whom(one, other)}"


def _verb(group: WaitGroup) -> str:
    return "waits" if len(group.lanes) == 1 else "wait"


def _whom(one: WaitGroup, other: WaitGroup) -> str:
    if other.name in ("main", "ranks"):
        return _NAMES[other.name][2]
    return f"its {_NAMES[other.name][2]}" if len(one.lanes) == 1 else f"their {_NAMES[other.name][2]}"


def _for_ranks(group: WaitGroup) -> str:
    """Return how long ranks wait for each other, or for the one that waits much less."""
    share = _share(group, "peers_s")
    if share < LEAST_ARROW:
        return "No time went into calls that wait for other ranks."
    least = min(group.lanes, key=lambda lane: lane.peers_s)
    late = share >= LEAST_SAID and least.peers_s <= group.mean("peers_s") / 2
    rest = WaitGroup(group.name, tuple(lane for lane in group.lanes if lane is not least)) if late else group
    one = len(rest.lanes) == 1
    who = label_of(rest.lanes[0].process) if one else _name(rest)
    took = f"{units.seconds(rest.mean('peers_s'))}{'' if one else ' each'} ({units.share(_share(rest, 'peers_s'))})"
    whom = label_of(least.process) if late else "each other"
    return f"{who} {_verb(rest)} {took} for {whom}"


def _every(groups: Sequence[WaitGroup]) -> str:
    lanes = [lane for group in groups for lane in group.lanes]
    longest = max(lane.wall_s for lane in lanes) or 1.0
    queued = sorted((lane.queued_s for lane in lanes), reverse=True)
    shown = [lane for lane in lanes if lane.queued_s >= queued[:MOST_LANES][-1]][:MOST_LANES]
    rows = (_lane(lane, longest) for lane in shown)
    left = len(lanes) - len(shown)
    more = element("p", f"{left:,} that queued less are not shown.", class_="note") if left else ""
    return element("ul", *rows, class_="lanes") + more


def _lane(lane: Lane, longest: float) -> str:
    seconds = [(kind, text, sum(getattr(lane, part) for part in of)) for kind, text, of in _PARTS]
    said = ", ".join(f"{text} {units.seconds(took)}" for _, text, took in seconds)
    bars = _bar([(kind, took / longest) for kind, _, took in seconds], 0, 0, 100)
    bar = element(
        "svg",
        element("title", escape(said)),
        *bars,
        viewBox="0 0 100 11",
        preserveAspectRatio="none",
        role="img",
        aria_label=said,
        class_="bar",
    )
    return element(
        "li",
        element("span", escape(label_of(lane.process))),
        bar,
        element("span", units.seconds(lane.wall_s)),
    )
