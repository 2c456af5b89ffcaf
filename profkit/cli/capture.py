"""``profkit capture``: run the target under the launcher, and end as the target ended."""

from __future__ import annotations

from pathlib import Path

import click

from profkit.cli.app import CONTEXT
from profkit.cli.options import FILE

__all__ = ["capture"]


# From the first word of the target's command on, everything is the target's.
@click.command(context_settings={**CONTEXT, "allow_interspersed_args": False})
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=FILE,
    help="Run file to write.  [default: run.prof, run-2.prof, …]",
)
@click.option(
    "--repeat",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    help="Run it N times, one file each: replicates.",
)
@click.option("-q", "--quiet", is_flag=True, help="Do not say where the run was written.")
@click.option(
    "--nvtx-shim",
    is_flag=True,
    help="Let torch.cuda.nvtx work, and record it, in a PyTorch that was built without CUDA.",
)
@click.argument("command", metavar="-- COMMAND…", nargs=-1, required=True, type=click.UNPROCESSED)
def capture(command: tuple[str, ...], output: Path | None, repeat: int, quiet: bool, nvtx_shim: bool) -> None:
    """Run a command and record it in one run file."""
    from profkit.capture.launcher import capture as launch
    from profkit.capture.signals import end_like

    # Ends as the target ended: with its exit code, or by the signal that ended it.
    end_like(launch(command, output, repeat=repeat, quiet=quiet, nvtx_shim=nvtx_shim))
