"""How many threads and processes would start here, with reports."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from profkit.api.reported import Studied
from profkit.capture.cpu_limits import read_limits
from profkit.capture.interpreter import find_python, read_interpreter
from profkit.errors import UsageError
from profkit.formats.load import load_run
from profkit.report.doctordoc import DoctorReport
from profkit.study.doctor import Diagnosis, diagnose
from profkit.study.doctor_load import Load, load_of
from profkit.study.launch import LAUNCHERS
from profkit.study.trials import run_once


def doctor(
    command: Sequence[str] = (),
    *,
    python: str | os.PathLike[str] | None = None,
    ranks: int | None = None,
    workers: int | None = None,
    threads: int | None = None,
    seconds: float = 10.0,
    launcher: str | None = None,
) -> Studied[Diagnosis]:
    """Return how many threads and processes would start here, and whether that is too much.

    A `command` is captured for some `seconds` and ended; its output is not shown. `python` is the interpreter whose
    libraries count; by default the command's, if it is a Python, then the active virtual environment's, then the
    first on the path. `ranks` on this machine, `workers` per rank and `threads` per process are a plan. `launcher`:
    ``slurm``, ``mpirun``, ``torchrun`` or ``all``, whose launch lines are printed; by default the user's. Raises
    `UsageError` if the launcher is unknown, or the interpreter or the command cannot be run.
    """
    if launcher not in (None, "all", *LAUNCHERS):
        raise UsageError(f"use {', '.join(LAUNCHERS)} or all", "launcher", launcher)
    if command and shutil.which(command[0]) is None:
        raise UsageError(f"{command[0]}: no such command; nothing was run")
    chosen = os.fspath(python) if python is not None else find_python(command, os.environ)
    interpreter = None if chosen is None else read_interpreter(chosen)
    load, problem = _tried(command, seconds) if command else (None, "")
    diagnosis = diagnose(
        read_limits(os.environ),
        interpreter,
        os.environ,
        ranks=ranks,
        workers=workers,
        threads=threads,
        load=load,
        command=command,
        launcher=launcher,
    )
    return Studied(diagnosis, DoctorReport(diagnosis, tuple(command), problem))


def diagnosed(
    command: Sequence[str], environ: Mapping[str, str], *, run_file: Path | None, workers: int | None
) -> Diagnosis:
    """Diagnose a command from a captured run (raises `FormatError`), or from its Python and `workers`."""
    limits = read_limits(environ)
    if run_file is not None:
        load = load_of(load_run(run_file, edges=False))
        return diagnose(limits, None, environ, load=load, command=command)
    chosen = find_python(command, environ)
    interpreter = None if chosen is None else read_interpreter(chosen)
    return diagnose(limits, interpreter, environ, workers=workers, command=command)


def _tried(command: Sequence[str], seconds: float) -> tuple[Load, str]:
    """Run a command for a while; return its load, and a sentence if it failed by itself."""
    with tempfile.TemporaryDirectory(prefix="profkit-doctor-") as folder:
        run_file = Path(folder, "run.prof")
        ended = run_once(command, os.environ, log=Path(folder, "log"), run_file=run_file, timeout_s=seconds)
        if not run_file.exists():
            said = ended.last_line or "no record was written; if this machine is very busy, try again"
            raise UsageError(f"{command[0]}: could not be watched: {said}")
        load = load_of(load_run(run_file, edges=False))
    if not ended.exit_status:
        return load, ""
    said = f": {ended.last_line}" if ended.last_line else ""
    return load, f"It ended by itself with exit status {ended.exit_status}{said}"
