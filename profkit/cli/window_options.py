"""Options of ``profkit capture`` that choose a part of the run: a window, some ranks, counters alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from profkit.cli.options import options

if TYPE_CHECKING:
    from profkit.capture.selection import Selection

_SECONDS = click.FloatRange(min=0)
_COUNT = click.IntRange(min=0)

#: Add them to a command; their names are the fields of `Selection`.
window_options = options(
    click.option(
        "--delay",
        "delay_s",
        metavar="S",
        type=_SECONDS,
        default=0.0,
        help="Capture from S seconds after the start on.",
    ),
    click.option(
        "--duration",
        "duration_s",
        metavar="S",
        type=click.FloatRange(min=0, min_open=True),
        help="Capture for S seconds; the command runs on.",
    ),
    click.option(
        "--capture-range",
        metavar="NAME[@DOMAIN]",
        default="",
        help="Capture while this NVTX range is open: the first time, or --cycles N times.",
    ),
    click.option("--active", metavar="N", type=_COUNT, default=0, help="Capture N steps."),
    click.option("--wait", metavar="N", type=_COUNT, default=0, help="Let N steps pass before them."),
    click.option(
        "--warmup", metavar="N", type=_COUNT, default=0, help="Trace N more before them, and throw that away."
    ),
    click.option(
        "--cycles",
        metavar="N",
        type=_COUNT,
        help="Capture N windows; 0 is no limit.  [default: 1 range; all cycles of steps]",
    ),
    click.option(
        "--step-range",
        metavar="NAME[@DOMAIN]",
        default="",
        help="The NVTX range that is one step.  [default: calls of profkit.step()]",
    ),
    click.option(
        "--start-paused",
        is_flag=True,
        help="Capture what the program opens with profkit.start() or window().",
    ),
    click.option("--ranks", metavar="LIST", default="", help="Capture functions of these ranks only: 0,4-7."),
    click.option(
        "--counters-only",
        is_flag=True,
        help="Capture no functions: what the kernel counts, and nothing else.",
    ),
)


def selection_of(cycles: int | None, **selected: Any) -> Selection:
    """Return what the values of `window_options` choose."""
    from profkit.capture.selection import Selection

    if cycles is None:
        cycles = 1 if selected["capture_range"] else 0  # as Nsight Systems, and as torch.profiler.schedule
    return Selection(cycles=cycles, **selected)
