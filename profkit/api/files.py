"""Write reports to files: completely or not at all, and never over an input."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from profkit.errors import UsageError
from profkit.formats.atomic import replacing


def write_file(chunks: Iterable[bytes], output: Path) -> None:
    """Write a file completely or not at all, as its content is made; raises `UsageError` if that fails.

    A device or a pipe is written to directly; a closed reader is not an error.
    """
    if output.is_dir():
        raise UsageError("is a directory, name a file", "output", output)
    try:
        if output.exists() and not output.is_file():
            with contextlib.suppress(BrokenPipeError), open(output, "wb") as stream:
                stream.writelines(chunks)
        else:
            with replacing(output) as file:
                file.writelines(chunks)
    except OSError as error:
        raise UsageError(f"cannot be written there, {error.strerror}", "output", output) from error


def keep_inputs(inputs: Iterable[str], *outputs: Path | None) -> None:
    """Raise `UsageError` if an output is an input under any name: a profile cannot be recreated.

    `inputs` is not iterated unless an output exists.
    """
    existing = [output for output in outputs if output is not None and output.is_file()]
    for path in inputs if existing else ():
        for output in existing:
            with contextlib.suppress(OSError):
                if os.path.samefile(output, path):
                    raise UsageError("is a profile that is read here, name another file", "output", output)
