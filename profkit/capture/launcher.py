"""``profkit capture``: start the target with the agent in its environment, wait for it, write the run file.

The target keeps the terminal, the three standard streams, its signals and its exit status; profkit only adds
variables to its environment. While it runs, the launcher sleeps and its sampler looks now and then. The spool
directory lies beside the output, so that ranks on other hosts reach it through a shared file system and a killed
launcher leaves it to be merged.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profkit.capture.agent import process_facts, settings
from profkit.capture.provenance import git_state, job
from profkit.errors import ProfkitError, UsageError
from profkit.formats.atomic import replacing

if TYPE_CHECKING:  # numpy, which starting a target does not need
    from profkit.model import Run

__all__ = ["CommandNotFoundError", "capture", "check_output"]


class CommandNotFoundError(ProfkitError):
    """The target cannot be started; the exit code is the shell's."""

    def __init__(self, command: str, error: OSError) -> None:
        self.exit_code = 127 if isinstance(error, FileNotFoundError) else 126
        super().__init__(f"{command}: {error.strerror or error}")


def capture(
    command: Sequence[str],
    output: Path | None = None,
    *,
    repeat: int = 1,
    written: Callable[[Path, Run], None] | None = None,
    nvtx_shim: bool = False,
) -> int:
    """Run `command`, `repeat` times, and write one run file each time.

    Parameters
    ----------
    command
        Program and arguments.
    repeat
        How many times; with more than one the number is put before the suffix.
    output
        Where to write; ``None`` picks ``run.prof``, or ``run-2.prof`` and so on where that exists. In a rank of
        a job (``mpirun -n 4 profkit capture …``) the rank is put before the suffix.
    written
        Called with each run file and what is in it, when it has been written.
    nvtx_shim
        Record ``torch.cuda.nvtx`` where PyTorch was built without CUDA, instead of letting it raise.

    Returns
    -------
    int
        The last target's status: its exit code, or ``-N`` when signal N ended it.

    Raises
    ------
    UsageError
        The output cannot be written there.
    CommandNotFoundError
        There is no such command.
    """
    status = 0
    environ = dict(os.environ)  # as it is now: packing will change the launcher's own
    for number in range(1, repeat + 1):
        path = _output_path(output, number if repeat > 1 else None)
        status, run = _capture_once(list(command), path, environ, nvtx_shim)
        if written is not None:
            written(path, run)
        if status < 0:
            break  # it was stopped; the repetitions too
    return status


def _output_path(output: Path | None, number: int | None) -> Path:
    rank, size = settings.rank_of(os.environ)
    marks = []
    if rank is not None and (size or 1) > 1:
        marks.append(f"rank{rank}")
    path = output or Path("run.prof")
    if number is not None:
        marks.append(str(number))
    if marks:
        path = path.with_name("-".join([path.stem, *marks]) + (path.suffix or ".prof"))
    if output is None:
        free, count = path, 1
        # A spool beside it belongs to a capture that runs, or to one that was killed and may be merged yet.
        while free.exists() or any(path.parent.glob(f"{_spool_prefix(free)}*")):
            count += 1
            free = path.with_name(f"{path.stem}-{count}{path.suffix}")
        path = free
    check_output(path)
    return path


def check_output(path: Path) -> None:
    """Refuse what no run file can be written to.

    Raises
    ------
    UsageError
        It is a directory, a device or a pipe.
    """
    if path.is_dir():
        raise UsageError("is a directory; name the file to write", parameter="output", value=path)
    if path.exists() and not path.is_file():
        # The file is renamed into its place: that would remove a device, such as /dev/null.
        raise UsageError("is not a regular file; name the file to write", parameter="output", value=path)


def _spool_prefix(path: Path) -> str:
    return f".{path.name}.spool-"


def _capture_once(
    command: list[str], path: Path, environ: Mapping[str, str], nvtx_shim: bool
) -> tuple[int, Run]:
    try:
        spool = Path(tempfile.mkdtemp(prefix=_spool_prefix(path), dir=path.parent)).absolute()
    except OSError as error:
        raise UsageError(
            f"cannot write there ({error.strerror}); choose another place", parameter="output", value=path
        ) from None
    keep = False
    try:
        status = _run_target(command, spool, environ, nvtx_shim)
        keep = True  # from here on the spool holds what cannot be had again
        run = _pack(spool, path, status)
        keep = False
    finally:
        if not keep:
            shutil.rmtree(spool, ignore_errors=True)
    return status, run


def _pack(spool: Path, path: Path, status: int) -> Run:
    from profkit.capture.packer import pack_spool
    from profkit.formats.runfile import write_run

    if not spool.is_dir():
        raise ProfkitError(
            f"{path}: nothing to write: the command (which ended with status {status}) removed {spool}, where "
            "profkit kept its records; choose another place with -o"
        )
    try:
        run = pack_spool(spool, wait_for_stragglers=True)
        write_run(path, run)
    except OSError as error:
        raise ProfkitError(
            f"{path}: cannot be written ({error.strerror}); the records are kept: "
            f"free some space, then run profkit merge {shlex.quote(str(spool))} -o {shlex.quote(str(path))}"
        ) from error
    except KeyboardInterrupt:
        raise ProfkitError(
            f"{path}: not written; the records are kept: run profkit merge "
            f"{shlex.quote(str(spool))} -o {shlex.quote(str(path))}"
        ) from None
    return run


def _run_target(command: list[str], spool: Path, environ: Mapping[str, str], nvtx_shim: bool) -> int:
    from profkit.capture import host, nvtx, signal_forwarding

    environment = dict(environ)
    inject = str(Path(__file__).parent / "agent" / "inject")
    environment["PYTHONPATH"] = _python_path(inject, environment.get("PYTHONPATH", ""))
    environment[settings.SPOOL_VARIABLE] = str(spool)
    nvtx_warnings = nvtx.inject(environment, torch_shim=nvtx_shim)
    facts: dict[str, Any] = {
        "command": command,
        "cwd": _cwd(),
        "environment": settings.thread_environment(environ),
        "job": job(),
        "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
        "clocks": {"time": time.time(), "perf_counter": time.perf_counter(), "monotonic": time.monotonic()},
        "exit_status": None,
        "warnings": nvtx_warnings,
    }
    try:
        (spool / settings.sampled_mark(process_facts.boot_id())).touch()
        _write_facts(spool, facts)
    except OSError as error:
        raise UsageError(f"{spool}: cannot write there ({error.strerror}); nothing was run") from None
    speed = host.probe_speed()  # before the target runs: it must not have to share a CPU with it
    # Nor must a target that has one CPU queue for the tenth of a second that these take.
    beside = host.cpus_to_use() > 1
    if not beside:
        facts["git"] = git_state()
    with signal_forwarding.held_back() as waiting:
        begin = time.monotonic()
        before = host.take_reading()
        try:
            # Descriptors stay open: shells (`<(…)`), make and MPI's process managers pass some on by number.
            target = subprocess.Popen(command, env=environment, preexec_fn=waiting.release, close_fds=False)
        except OSError as error:
            raise CommandNotFoundError(command[0], error) from None
        from profkit.capture.sampler import Sampler

        sampler = Sampler(target.pid, spool)
        if beside:
            _prepare_packing()
            facts["git"] = git_state()
            facts["host"] = {**_as_dict(host.read_host()), **speed}
        try:
            status = waiting.wait(target, ended=sampler.finish)
        finally:
            sampler.finish()
        facts["wall_s"] = time.monotonic() - begin
        facts["readings"] = [_as_dict(before), _as_dict(host.take_reading())]
        if not beside:
            _prepare_packing()
            facts["host"] = {**_as_dict(host.read_host()), **speed}
        facts["tree_cpu_s"] = waiting.tree_cpu_s
        facts["killed"] = status < 0
        facts["exit_status"] = status if status >= 0 else 128 - status
        with contextlib.suppress(OSError):  # disk full, directory gone: packing will fail, and say which
            _write_facts(spool, facts)
    return status


def _python_path(inject: str, inherited: str) -> str:
    """Put the agent's directory in front; an empty entry means the current directory, an empty path nothing."""
    entries = [entry for entry in inherited.split(os.pathsep) if entry != inject] if inherited else []
    return os.pathsep.join([inject, *entries])


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""  # it was removed


def _as_dict(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__slots__}


def _write_facts(spool: Path, facts: dict[str, Any]) -> None:
    with replacing(spool / "launch.json", durable=False) as file:  # it outlives profkit, not the machine
        file.write(json.dumps(facts).encode("ascii"))


def _prepare_packing() -> None:
    """Import what packing needs: while the target runs, where that is not on its CPU, so that it delays nothing."""
    # numpy's BLAS must not start its pool of threads beside the target's.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import profkit.capture.packer
    import profkit.formats.runfile  # noqa: F401
