"""Options of ``profkit capture`` that choose a part of the run: a window, some ranks, counters alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from profkit.capture.selection import Selection

_Command = TypeVar("_Command", bound=Callable[..., Any])


_SECONDS = click.FloatRange(min=0)
_COUNT = click.IntRange(min=0)

_OPTIONS = (
    click.option(
        "--delay", metavar="S", type=_SECONDS, default=0.0, help="Capture from S seconds after the start on."
    ),
    click.option(
        "--duration",
        metavar="S",
        type=click.FloatRange(min=0, min_open=True),
        help="Capture for S seconds; the command runs on.",
    ),
    click.option(
        "--capture-range",
        metavar="NAME[@DOMAIN]",
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
        help="The NVTX range that is one step.  [default: calls of profkit.step()]",
    ),
    click.option(
        "--start-paused",
        is_flag=True,
        help="Capture what the program opens with profkit.start() or window().",
    ),
    click.option("--ranks", metavar="LIST", help="Capture functions of these ranks only: 0,4-7."),
    click.option(
        "--counters-only",
        is_flag=True,
        help="Capture no functions: what the kernel counts, and nothing else.",
    ),
)


def window_options(command: _Command) -> _Command:
    """Add them to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def selection_of(selected: Mapping[str, Any]) -> Selection:
    """Return what the values of `window_options` choose."""
    from profkit.capture.selection import Selection

    cycles = selected["cycles"]
    if cycles is None:
        cycles = 1 if selected["capture_range"] else 0  # as Nsight Systems, and as torch.profiler.schedule
    return Selection(
        delay_s=selected["delay"],
        duration_s=selected["duration"],
        capture_range=selected["capture_range"] or "",
        active=selected["active"],
        wait=selected["wait"],
        warmup=selected["warmup"],
        step_range=selected["step_range"] or "",
        cycles=cycles,
        start_paused=selected["start_paused"],
        ranks=selected["ranks"] or "",
        counters_only=selected["counters_only"],
    )
