"""Helpers of the capture tests: run the real command in a directory, read the run that it wrote."""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from profkit.capture.native import nvtx_library
from profkit.cli import main
from profkit.formats import load_run
from profkit.model import Process, Profile, Run
from profkit.model.ranges import Ranges
from tests.integration.ready import ROOT, run_forked
from tests.requirements import require
from tests.shared import finished

PROGRAMS = Path(__file__).parent / "programs"


def environment(**extra: str) -> dict[str, str]:
    """The environment of a user's shell in which this checkout's profkit can be started."""
    ours = ("PYTHON", "PROFKIT_SPOOL", "COVERAGE_")
    # A capture in this process, of another test, sets how many threads its own NumPy may start.
    env = {k: v for k, v in os.environ.items() if not (k.startswith(ours) or k.endswith("_NUM_THREADS"))}
    env.update(extra)
    return env


def profkit_command(*words: str) -> list[str]:
    """The command line of this checkout's profkit, with no variable that its targets would inherit."""
    start = (
        f"{_measured()}import sys; sys.path.insert(0, {str(ROOT)!r}); from profkit.cli import main; main()"
    )
    return [sys.executable, "-c", start, *words]


def _measured() -> str:
    """Code that measures the coverage of a command under ``make coverage``, and of no program that it starts.

    The target's ``PYTHONPATH`` may have a coverage of another Python, or modules that nothing can import.
    """
    variable = "COVERAGE_PROCESS_CONFIG"
    if variable not in os.environ:
        return ""
    return (
        f"import os, sys; os.environ[{variable!r}] = {os.environ[variable]!r}\n"
        "before, targets = sys.path[:], os.environ.get('PYTHONPATH', '').split(os.pathsep)\n"
        "sys.path[:] = [place for place in before if place not in targets]\n"
        "try:\n"
        "    import coverage; coverage.process_startup()\n"
        "except FileNotFoundError:\n"  # coverage asks for the working directory, which a test removes
        "    pass\n"
        "sys.path[:] = before\n"
        f"os.environ.pop({variable!r}, None)\n"
    )


def profkit(
    directory: Path | None, *words: str, status: int | None = 0, timeout: float = 300, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own; `variables` are of its environment.

    It must end with `status`; ``None`` takes any.
    """
    if _measured():
        done = finished(profkit_command(*words), directory, env=environment(**variables), timeout=timeout)
    else:
        done = run_forked(words, directory or Path.cwd(), environment(**variables), timeout)
    assert status in (None, done.returncode), done.stderr
    return done


def ended(process: subprocess.Popen[str], status: int = 0, typed: str | None = None) -> tuple[str, str]:
    """Wait for a process, which must end with `status`; return what it printed."""
    out, err = process.communicate(typed, timeout=240)
    assert process.returncode == status, err
    return out, err


def started(
    directory: Path, *words: str, before: tuple[str, ...] = (), **kwargs: Any
) -> subprocess.Popen[str]:
    """Start a command, behind the words `before`, with pipes for what it prints."""
    usual = {"env": environment(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*before, *profkit_command(*words)], cwd=directory, **{**usual, **kwargs})


def wait_until(holds: Callable[[], object], why: str = "nothing happens", seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, why
        time.sleep(0.005)


def works(*command: str) -> bool:
    """Whether a command is there and succeeds on this machine."""
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def state(pid: int) -> str:
    """The kernel's letter for the state of a process, such as ``R`` and ``Z``; nothing where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def on_another_machine(directory: Path) -> list[str]:
    """Words that run a command where the host is called ``nodeb`` and was booted at another time.

    Nothing else tells machines apart.
    """
    boot = directory / "boot_id"
    boot.write_text("00000000-0000-4000-8000-000000000000\n")
    change = f'hostname nodeb && mount --bind {boot} /proc/sys/kernel/random/boot_id && exec "$@"'
    words = ["unshare", "--mount", "--uts", "bash", "-c", change, "-"]
    require("unshare", works(*words, "true"), "no namespaces can be made here")
    return words


def on_a_small_disk(directory: Path, size: str) -> tuple[Path, list[str]]:
    """A directory, and words that run a shell's text where a disk of this size is mounted there."""
    disk = directory / "disk"
    disk.mkdir()
    private = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]
    mount = f"mount -t tmpfs -o size={size} none {disk}"
    require("mount", works(*private, mount), "this machine does not allow to mount a small disk")
    return disk, [*private, f'{mount}; text="$1"; shift; eval "$text"', "-"]


def limited_cgroup(period_us: int, quota_us: int) -> contextlib.AbstractContextManager[Path]:
    """Make a cgroup with a quota of CPU time, or skip the calling test."""
    first = {"cpu.cfs_period_us": str(period_us), "cpu.cfs_quota_us": str(quota_us)}
    return _cgroup("cpu", first, {"cpu.max": f"{quota_us} {period_us}"})


def small_cgroup(limit: int) -> contextlib.AbstractContextManager[Path]:
    """Make a cgroup with so many bytes of memory, or skip the calling test."""
    return _cgroup("memory", {"memory.limit_in_bytes": str(limit)}, {"memory.max": str(limit)})


@contextlib.contextmanager
def _cgroup(controller: str, first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[Path]:
    """Make a cgroup with limits, which are written differently in the two versions."""
    root, name = Path("/sys/fs/cgroup"), f"profkit-test-{os.getpid()}"
    is_first = (root / controller).is_dir()
    limits = first if is_first else second
    group = (root / controller if is_first else root) / name
    try:
        group.mkdir()
        for file, text in limits.items():
            (group / file).write_text(text)
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        require(
            "cgroups", False, f"no cgroup with a limit of {controller} can be made here: {error.strerror}"
        )
    try:
        yield group
    finally:
        wait_until(lambda: removed(group), "processes in a cgroup do not end")


def removed(group: Path) -> bool:
    """Remove a cgroup, if its last process is gone."""
    with contextlib.suppress(OSError):
        group.rmdir()
        return True
    return False


def script(directory: Path, text: str) -> str:
    """Write a program of Python; return its path."""
    path = directory / "program.py"
    path.write_text(text)
    return str(path)


def in_process(
    directory: Path, *words: str, status: int | None = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command that starts no program, in this process, which saves its start.

    It must end with `status`; ``None`` takes any. `variables` are of the environment.
    """
    # Streams as a process has them: bytes below, and text that has to be encoded.
    printed, said = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    before = os.getcwd()
    os.chdir(directory)
    try:
        with (
            mock.patch.dict(os.environ, {"COLUMNS": "80", **variables}),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(said),
        ):
            main(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        os.chdir(before)
        gc.enable()  # a command that ends with its process switches it off
    out, err = (stream.buffer.getvalue().decode() for stream in (printed, said))
    assert status in (None, code), err
    return subprocess.CompletedProcess(words, code, out, err)


#: Options that say how calls are seen.
TIERS = frozenset({"--exact", "--sampled", "--overhead"})


class Ended(subprocess.CompletedProcess[str]):
    """How a capture ended, what it printed, and the run that it wrote."""

    def __init__(self, done: subprocess.CompletedProcess[str], file: Path) -> None:
        super().__init__(done.args, done.returncode, done.stdout, done.stderr)
        self._file = file

    @functools.cached_property
    def run(self) -> Run:
        found = load_run(self._file)
        print(*found.warnings, sep="\n")  # shown where the test fails
        return found


def run_capture(
    directory: Path,
    *command: str,
    options: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
    status: int | None = 0,
    timeout: float = 60,
    fresh: bool = False,
    **kwargs: Any,
) -> Ended:
    """Run ``profkit capture -o run.prof -- command`` in `directory`; unless `options` say else, with ``--exact``.

    It must end with `status`; ``None`` takes any. `fresh` starts an interpreter for it, as a user does, and so do
    `kwargs` of `subprocess.run`.
    """
    env = environment() if env is None else env
    if TIERS.isdisjoint(options):
        options = ("--exact", *options)
    words = ("capture", "-o", "run.prof", *options, "--", *command)
    if fresh or kwargs or _measured():
        done = finished(profkit_command(*words), directory, env=env, timeout=timeout, **kwargs)
    else:
        done = run_forked(words, directory, env, timeout)
    assert status in (None, done.returncode), done.stderr
    return Ended(done, directory / "run.prof")


def captured(directory: Path, *command: str, **kwargs: Any) -> Run:
    """Capture a command, and return its run."""
    done = run_capture(directory, *command, **kwargs)
    assert not list(directory.glob(".run.prof.spool-*")), "the spool directory was left behind"
    return done.run


def calls(process: Process, thread: int | None = None) -> dict[str, int]:
    """Calls per function name of one process (or of one of its threads), built-in functions included."""
    found: dict[str, int] = {}
    threads = process.threads if thread is None else process.threads[thread : thread + 1]
    for profile in (t.profile for t in threads):
        for name, count in zip(names(profile), profile.ncalls.tolist(), strict=True):
            found[name] = found.get(name, 0) + count
    return found


def names(profile: Profile) -> list[str]:
    return [profile.strings[i] for i in profile.name]


def codes(run: Run) -> list[str]:
    return [notice.code for notice in run.warnings]


def column(process: Process, function: str, name: str) -> float:
    """Sum of one column over the rows of a process's functions of that name."""
    total = 0.0
    for profile in (t.profile for t in process.threads):
        rows = np.array([each == function for each in names(profile)], bool)
        values = getattr(profile, name)
        total += 0.0 if values is None else float(values[rows].sum())
    return total


def require_collector() -> None:
    """Skip the calling test where the collector was not compiled."""
    require("native", nvtx_library() is not None, "profkit is installed without its NVTX collector")


def ranges_of(process: Process) -> Ranges:
    assert process.ranges is not None
    return process.ranges


def rows(process: Process) -> list[tuple[str, str, int]]:
    """Name, domain and kind of each range and mark."""
    ranges = ranges_of(process)
    columns = zip(ranges.name.tolist(), ranges.domain.tolist(), ranges.kind.tolist(), strict=True)
    return [(ranges.strings[name], ranges.strings[domain], kind) for name, domain, kind in columns]
