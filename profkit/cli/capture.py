"""``profkit capture``, which runs the target and ends as it ended, and ``profkit attach`` for a running one."""

from __future__ import annotations

import gc
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profkit.capture.agent.settings import DEFAULT_OVERHEAD, rank_of
from profkit.cli.app import CONTEXT
from profkit.cli.options import POSITIVE, flag, number_option, option, output_option
from profkit.cli.progress import Progress, say_directly

if TYPE_CHECKING:
    from profkit.model import Notice, Run


def _share(ctx: click.Context, param: click.Parameter, value: str) -> float | None:
    """Parse a share above 0 and below 1, as ``5%`` or ``0.05``; ``off`` is ``None``."""
    text = value.strip()
    if text == "off":
        return None
    number, percent, rest = text.partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if rest or not 0.0 < share < 1.0:
        raise click.BadParameter(
            f"{text!r} is not a share between 0 and 100 %, such as 5%; use off for no limit", ctx, param
        )
    return share


# Everything after the first word of the target's command belongs to the target.
@click.command(context_settings={**CONTEXT, "allow_interspersed_args": False})
@output_option("Run file to write.  [default: run.prof, run-2.prof, …]")
@number_option("--repeat", "Run it N times, one run file each (repeats).", 1)
@flag("-q --quiet", "Do not print where the run was written.")
@flag("--nvtx-shim", "Let torch.cuda.nvtx work, and record it, in a PyTorch that was built without CUDA.")
@option(
    "--overhead",
    "SHARE|off",
    "Part of the time that profiling may add: above it, stacks are sampled and calls estimated.  "
    "off: as --exact.",
    callback=_share,
    default=f"{DEFAULT_OVERHEAD:.0%}",
    show_default=True,
)
@flag("--exact", "Trace every call, whatever the overhead.")
@flag("--sampled", "Sample stacks from the start, and never trace every call.")
# Options that select a part of the run; their names are the fields of `Selection`.
@option(
    "--delay delay_s", "S", "Start to capture after S seconds.", type=click.FloatRange(min=0), default=0.0
)
@option("--duration duration_s", "S", "Capture for S seconds; the command runs on.", type=POSITIVE)
@option(
    "--capture-range",
    "NAME[@DOMAIN]",
    "Capture while this NVTX range is open: the first time, or --cycles N times.",
    default="",
)
@number_option("--active", "Capture N steps.", 0, least=0)
@number_option("--wait", "Let N steps pass before that.", 0, least=0)
@number_option("--warmup", "Trace N more steps first, and discard them.", 0, least=0)
@number_option(
    "--cycles", "Capture N windows; 0 is no limit.  [default: 1 range; all cycles of steps]", least=0
)
@option(
    "--step-range",
    "NAME[@DOMAIN]",
    "The NVTX range that is one step.  [default: calls of profkit.step()]",
    default="",
)
@flag("--start-paused", "Capture only windows that the program opens (profkit.start(), window()).")
@option("--ranks", "LIST", "Capture functions of these ranks only: 0,4-7.", default="")
@flag("--counters-only", "Capture only kernel counters, no functions.")
@click.argument("command", metavar="-- COMMAND…", nargs=-1, required=True, type=click.UNPROCESSED)
def capture(
    command: tuple[str, ...],
    output: Path | None,
    repeat: int,
    quiet: bool,
    nvtx_shim: bool,
    overhead: float | None,
    exact: bool,
    sampled: bool,
    cycles: int | None,
    **selected: Any,
) -> None:
    """Run a command and record it in one run file."""
    from profkit.capture.launcher import SAMPLED, NotWrittenError
    from profkit.capture.launcher import capture as launch
    from profkit.capture.selection import Selection
    from profkit.capture.signal_forwarding import end_like

    if exact and sampled:
        raise click.UsageError("--exact and --sampled exclude each other: choose one")
    if cycles is None:
        cycles = 1 if selected["capture_range"] else 0  # as Nsight Systems, and as torch.profiler.schedule
    rank, _ = rank_of(os.environ)
    if not quiet and not rank:  # only the first rank of a job says it
        from profkit.cli.merge import say_left_behind

        say_left_behind(Path() if output is None else output.parent)
    progress = Progress("packing")
    try:
        status = launch(
            command,
            output,
            repeat=repeat,
            written=None if quiet else say_written,
            say=progress.say,
            packing=None if quiet else progress,
            nvtx_shim=nvtx_shim,
            overhead=SAMPLED if sampled else None if exact else overhead,
            selection=Selection(cycles=cycles, **selected),
        )
    except NotWrittenError as error:
        say_directly(f"error: {error}")
        status = error.status or error.exit_code
    gc.freeze()  # skips the final collection over all packed objects
    end_like(status)  # with the target's exit code, or by its signal


def say_written(path: Path, run: Run) -> None:
    count = len(run.processes)
    processes = "1 process" if count == 1 else f"{count} processes"
    wall = "" if run.wall_s is None else f", {run.wall_s:.1f} s"
    say_directly(f"wrote {path} ({processes}{wall}); see it with: profkit show {shlex.quote(str(path))}")
    say_notices(run.warnings)


def say_notices(notices: Sequence[Notice]) -> None:
    if notices:
        from profkit.report.notices import notice_text

        for notice in notices:
            say_directly(notice_text(notice))


@click.command(context_settings=CONTEXT)
@click.argument("pid", metavar="PID", type=click.IntRange(min=1))
@option(
    "--duration",
    "SECONDS",
    "Seconds to record; Ctrl-C ends it earlier.",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
)
@output_option("Run file to write.  [default: run.prof, run-2.prof, …]")
@click.option(
    "--functions",
    type=click.Choice(["auto", "trace", "sample", "none"]),
    default="auto",
    show_default=True,
    help="How functions are recorded: trace by the agent (Python 3.14 on), sample by py-spy, or not; auto: by the "
    "first that is possible.",
)
@flag("-q --quiet", "Print neither the limitations nor where the run was written.")
def attach(pid: int, duration: float, output: Path | None, functions: str, quiet: bool) -> None:
    """Record a program that is running already.

    PID is its first process; all its descendants are in the run.
    """
    from profkit.capture.attach import attach as look

    look(
        pid,
        output,
        duration_s=duration,
        functions=functions,
        begun=None if quiet else say_notices,
        written=None if quiet else say_written,
    )
