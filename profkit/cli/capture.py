"""``profkit capture``: run the target under the launcher, and end as the target ended."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["capture"]


def capture(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND…", help="The target; from its first word on, all is its own."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Run file to write.  [default: run.prof, run-2.prof, …]"
        ),
    ] = None,
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", min=1, help="Run it N times, one file each: replicates.")
    ] = 1,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Do not say where the run was written.")
    ] = False,
    nvtx_shim: Annotated[
        bool,
        typer.Option(
            "--nvtx-shim",
            help="Let torch.cuda.nvtx work, and record it, in a PyTorch that was built without CUDA.",
        ),
    ] = False,
) -> None:
    """Run a command and record it in one run file."""
    from profkit.capture.launcher import capture as launch
    from profkit.capture.signals import end_like

    # Ends as the target ended: with its exit code, or by the signal that ended it.
    end_like(launch(command, output, repeat=repeat, quiet=quiet, nvtx_shim=nvtx_shim))
