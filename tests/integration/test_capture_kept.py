"""No end of a capture loses its run: a spool directory goes when the run file is there, and not before.

What decides are races between signals and a program that ends, so each is tried several times, at several moments.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from profkit.formats import load_run
from tests.integration.capturing import (
    PROGRAMS,
    ROOT,
    ended,
    environment,
    in_process,
    profkit,
    profkit_command,
    require_collector,
    run_capture,
    started,
    works,
)
from tests.requirements import require
from tests.shared import finished, succeeded

BUSY = "print('ready', flush=True)\nwhile True:\n    sum(range(1000))\n"


def start(directory: Path, *command: str, options: tuple[str, ...] = (), **kwargs: Any) -> Popen[str]:
    directory.mkdir(exist_ok=True)
    words = ("capture", "-o", "run.prof", *options, "--", *command)
    return started(directory, *words, start_new_session=True, **kwargs)


def busy(directory: Path, **kwargs: Any) -> Popen[str]:
    """Start a capture of a program that never ends, and wait until that runs."""
    launcher = start(directory, sys.executable, "-c", BUSY, **kwargs)
    assert launcher.stdout.readline() == "ready\n"
    return launcher


def interrupted(launcher: Popen[str], directory: Path, status: int = -signal.SIGINT) -> str:
    """Return what a capture said that has ended so, and left its run file alone."""
    _, err = ended(launcher, status)
    assert left(directory) == ["run.prof"], err
    return str(err)


def left(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def spool_of(directory: Path) -> Path:
    (spool,) = directory.glob(".run.prof.spool-*")
    return spool


def merged(directory: Path, said: str) -> subprocess.CompletedProcess[str]:
    """Run the command that a message about kept records names."""
    words = shlex.split(said[said.index("run profkit merge") :].splitlines()[0])[2:]
    return in_process(directory, *words)


def send(process: Popen[str], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


@pytest.mark.parametrize("pinned", [False, True])
def test_two_interrupts_in_a_row(tmp_path: Path, pinned: bool) -> None:
    before = ("taskset", "-c", str(min(os.sched_getaffinity(0)))) if pinned else ()
    for number in range(2):
        launcher = busy(tmp_path / str(number), before=before)
        send(launcher, signal.SIGINT)
        time.sleep(0.05)
        send(launcher, signal.SIGINT)
        err = interrupted(launcher, tmp_path / str(number))
        assert err.count("KeyboardInterrupt") <= 1, "a traceback that is not the target's"


def test_an_interrupt_within_the_first_moments(tmp_path: Path) -> None:
    for number in range(4):
        launcher = busy(tmp_path / str(number))
        time.sleep(0.024 * number)
        send(launcher, signal.SIGINT)
        interrupted(launcher, tmp_path / str(number))


def test_a_program_that_signals_the_launcher_and_its_group(tmp_path: Path) -> None:
    """As ``timeout`` does when its time is out, which an alarm makes it."""
    for number in range(2):
        launcher = busy(tmp_path / str(number), before=("timeout", "-s", "INT", "60"))
        time.sleep(0.1 * number)
        launcher.send_signal(signal.SIGALRM)
        interrupted(launcher, tmp_path / str(number), 124)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_before_and_while_the_target_starts(tmp_path: Path, name: str) -> None:
    """Nothing was run and nothing is left, or it was run and is kept."""
    for number in range(6):
        directory = tmp_path / str(number)
        launcher = start(directory, "sleep", "60")
        time.sleep(0.05 * number)
        send(launcher, getattr(signal, name))
        try:
            _, err = launcher.communicate(timeout=20)
        except subprocess.TimeoutExpired as late:
            # An interrupt in the callback of a weak reference, as imports have them: Python says so and goes on.
            if b"Exception ignored in" not in (late.stderr or b""):
                raise
            send(launcher, getattr(signal, name))
            _, err = launcher.communicate(timeout=30)
        # Before its own first line, Python has an end for an interrupt that is not ours.
        early = launcher.returncode == 1 and "Fatal Python error: init_" in err
        assert early or launcher.returncode in (-getattr(signal, name), 130), err
        assert left(directory) in ([], ["run.prof"]), err


class Packing:
    """A capture that was stopped (SIGSTOP) while it packs."""

    def __init__(self, directory: Path, status: int) -> None:
        for _ in range(10):
            directory.mkdir()
            program = str(PROGRAMS / "many_functions.py")
            self.launcher = start(directory, sys.executable, program, str(status))
            while not self._has_ended(directory):
                time.sleep(0.001)
            self.launcher.send_signal(signal.SIGSTOP)
            if left(directory) != ["run.prof"]:
                return
            self.let_go()  # it was faster; once more
            self.launcher.communicate(timeout=60)
            directory = directory.with_name(directory.name + "-again")
        raise AssertionError("packing was never seen")

    @staticmethod
    def _has_ended(directory: Path) -> bool:
        for path in directory.glob(".run.prof.spool-*/launch.json"):
            with contextlib.suppress(OSError):
                return json.loads(path.read_text())["exit_status"] is not None
        return (directory / "run.prof").exists()

    def let_go(self) -> None:
        self.launcher.send_signal(signal.SIGCONT)

    def ended(self) -> tuple[int, str]:
        self.let_go()
        _, err = self.launcher.communicate(timeout=60)
        return self.launcher.returncode, err


@pytest.mark.parametrize(
    ("name", "status"), [("SIGINT", 0), ("SIGTERM", 3), ("SIGHUP", 0), ("SIGQUIT", 3), ("SIGUSR1", 0)]
)
def test_a_signal_while_packing_does_not_stop_it(tmp_path: Path, name: str, status: int) -> None:
    packing = Packing(tmp_path / "work", status)
    packing.launcher.send_signal(getattr(signal, name))
    code, err = packing.ended()
    assert code == status
    assert err.count("a second signal stops that") == (name != "SIGUSR1")
    run = load_run(tmp_path / "work" / "run.prof")
    assert run.manifest.exit_status == status
    assert left(tmp_path / "work") == ["run.prof"]


@pytest.mark.parametrize(("status", "code"), [(0, 128 + signal.SIGTERM), (3, 3)])
def test_a_second_signal_stops_packing_and_keeps_the_records(tmp_path: Path, status: int, code: int) -> None:
    work = tmp_path / "work"
    for _ in range(5):
        packing = Packing(work, status)
        packing.launcher.send_signal(signal.SIGINT)
        packing.let_go()
        line = packing.launcher.stderr.readline()
        packing.launcher.send_signal(signal.SIGSTOP)
        assert "a second signal stops that" in line
        time.sleep(0.6)  # a wish of its own, and no echo of the first
        packing.launcher.send_signal(signal.SIGTERM)
        returned, err = packing.ended()
        if not (work / "run.prof").exists():
            break
        work = work.with_name(work.name + "x")  # it was done before it could be stopped; once more
    assert returned == code
    assert err.count("\n") == 1
    assert "interrupted by SIGTERM" in err
    assert left(work) == [spool_of(work).name]
    said = merged(work, err)
    assert f"rm -r {spool_of(work)}" in said.stderr, "who merges is not told that the records are still there"
    assert load_run(work / "run.prof").manifest.exit_status == status


WITHOUT_NUMPY = "import sys; sys.modules['numpy'] = None\n"


@pytest.mark.parametrize(("status", "code"), [(0, 2), (3, 3), (-9, -9)])
def test_packing_that_fails_keeps_records_and_status(tmp_path: Path, status: int, code: int) -> None:
    """A numpy that cannot be imported is noticed while the target runs; it runs on, and is waited for."""
    start_up, *words = profkit_command("capture", "-o", "run.prof", "--")[1:]
    end = f"os.kill(os.getpid(), {-status})" if status < 0 else f"sys.exit({status})"
    # Otherwise it is noticed afterwards.
    waits = "time.sleep(1)" if status == 0 else ""
    program = f"import os, sys, time\n{waits}\nprint('done', flush=True)\n{end}"
    command = [sys.executable, start_up, WITHOUT_NUMPY + words[0], *words[1:], sys.executable, "-c", program]
    done = finished(command, tmp_path, code, env=environment())
    assert done.stdout == "done\n"
    assert done.stderr.startswith("profkit: error: run.prof: not written (ModuleNotFoundError")
    assert done.stderr.count("\n") == 1
    merged(tmp_path, done.stderr)
    assert load_run(tmp_path / "run.prof").processes[0].profiled


def test_an_output_that_became_a_directory(tmp_path: Path) -> None:
    done = run_capture(
        tmp_path, sys.executable, "-c", "import os; os.mkdir('run.prof'); os._exit(4)", status=4
    )
    assert "cannot be written (Is a directory)" in done.stderr
    (tmp_path / "run.prof").rmdir()
    merged(tmp_path, done.stderr)
    assert done.run.processes[0].profiled


def hostile(directory: Path) -> Path:
    """A directory of modules that no launcher survives: a project's, and packages of another Python."""
    directory.mkdir()
    for name in ("secrets", "typing", "tempfile", "statistics", "click", "rich"):
        (directory / f"{name}.py").write_text(f"raise RuntimeError('{name} of the project')\n")
    (directory / "numpy").mkdir()
    (directory / "numpy" / "__init__.py").write_text("raise ImportError('numpy of another Python')\n")
    return directory


def test_the_target_s_modules_are_not_the_launcher_s(tmp_path: Path) -> None:
    modules = hostile(tmp_path / "modules")
    program = "import os, sys; print(os.environ['PYTHONPATH']); import secrets"
    env = environment(PYTHONPATH=f"{modules}:")
    done = run_capture(tmp_path, sys.executable, "-c", program, env=env, fresh=True, status=1)
    inject, _, inherited = done.stdout.strip().partition(":")
    assert inject == str(ROOT / "profkit" / "capture" / "agent" / "inject"), done.stderr
    assert inherited == f"{modules}:", "the target has another PYTHONPATH than without profkit"
    assert "RuntimeError: secrets of the project" in done.stderr, "the target's own modules were not its own"
    assert done.run.processes[0].profiled


def test_a_checkout_on_pythonpath_and_a_script_s_directory(tmp_path: Path) -> None:
    """``python -m profkit`` in a project, with profkit found through ``PYTHONPATH``."""
    project = hostile(tmp_path / "project")
    (project / "typing.py").unlink()  # `python -m` itself would import it
    (project / "tempfile.py").unlink()
    command = [sys.executable, "-m", "profkit", "capture", "-o", "run.prof", "--", "echo", "ran"]
    assert succeeded(command, project, env=environment(PYTHONPATH=str(ROOT))).stdout == "ran\n"
    assert (project / "run.prof").exists()


def test_profkit_and_what_it_needs_in_one_directory_on_pythonpath(tmp_path: Path) -> None:
    """As ``pip install --target`` makes it, and with what it needs in another one."""
    import click
    import numpy
    import rich

    only = (
        "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n"
        "from profkit.cli import main; main()"
    )
    needed, together = tmp_path / "needed", tmp_path / "together"
    needed.mkdir()
    together.mkdir()
    (together / "profkit").symlink_to(ROOT / "profkit")
    for site in {Path(module.__file__ or "").parents[1] for module in (click, rich, numpy)}:
        for entry in site.iterdir():
            for directory in (needed, together):
                with contextlib.suppress(FileExistsError):
                    (directory / entry.name).symlink_to(entry)
    for path in (str(together), f"{ROOT}:{needed}"):
        command = [sys.executable, "-c", only, "capture", "-o", "run.prof", "--", "echo", "ran"]
        assert succeeded(command, tmp_path, env=environment(PYTHONPATH=path)).stdout == "ran\n"


def test_a_parent_that_ignores_the_end_of_its_children(tmp_path: Path) -> None:
    program = "import signal, sys; print(signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN); sys.exit(3)"
    target = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)}"
    launcher = shlex.join(profkit_command("capture", "-o", "run.prof", "--quiet", "--"))
    for command in (target, f"{launcher} {target}"):
        done = finished(["bash", "-c", f"trap '' CHLD HUP; exec {command}"], tmp_path, 3, env=environment())
        assert done.stdout == "True\n"
    assert load_run(tmp_path / "run.prof").manifest.exit_status == 3


def test_a_hangup_that_is_ignored_stays_so(tmp_path: Path) -> None:
    """As under ``nohup``."""
    program = (
        "import signal, time\n"
        "print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, flush=True)\n"
        "time.sleep(0.5)\n"
    )
    words = (sys.executable, "-c", program)
    launcher = start(
        tmp_path / "work", *words, options=("--repeat", "2"), before=("env", "--ignore-signal=HUP")
    )
    assert launcher.stdout.readline() == "True\n"
    send(launcher, signal.SIGHUP)
    out, err = ended(launcher, 0)
    assert out == "True\n", err
    assert left(tmp_path / "work") == ["run-1.prof", "run-2.prof"]


def test_a_hangup_reaches_the_target_of_a_launcher_that_leads_the_session(tmp_path: Path) -> None:
    """As in a terminal that was opened for this command: the kernel signals the leader, and nobody else."""
    program = (
        "import signal, sys, time\n"
        "def note(*_):\n"
        "    open('hangup', 'w').close()\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGHUP, note)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(0.1)\n"
    )
    terminal, follower = pty.openpty()
    words = ("capture", "-o", "run.prof", "--quiet", "--", sys.executable, "-c", program)
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), follower)
    launcher = started(tmp_path, *words, before=("setsid", "--ctty", "--wait"), **streams)
    os.close(follower)
    try:
        seen = b""
        while b"ready" not in seen:
            seen += os.read(terminal, 1000)
        os.close(terminal)
        launcher.wait(timeout=60)
    finally:
        if launcher.poll() is None:
            send(launcher, signal.SIGKILL)
            launcher.wait()
    assert left(tmp_path) == ["hangup", "run.prof"]


def test_a_signal_from_outside_the_container_reaches_the_program(tmp_path: Path) -> None:
    """As of ``docker stop``, to the first process: there, the kernel gives the sender the number 0."""
    apart = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    require("unshare", works(*apart, "true"), "this machine does not allow to make a PID namespace")
    program = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    launcher = start(tmp_path / "work", sys.executable, "-c", program, before=apart)
    assert launcher.stdout.readline() == "ready\n"
    first = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text()
    os.kill(int(first), signal.SIGTERM)
    interrupted(launcher, tmp_path / "work", 7)


def test_captures_at_once_have_names_of_their_own(tmp_path: Path) -> None:
    for repetition in (1, 2):
        captures = [started(tmp_path, "capture", "--quiet", "--", "true") for _ in range(4)]
        assert [ended(capture) for capture in captures] == [("", "")] * 4
        names = ["run.prof", *(f"run-{number}.prof" for number in range(2, 4 * repetition + 1))]
        assert left(tmp_path) == sorted(names)


@pytest.mark.parametrize("series", [False, True])
def test_a_second_capture_to_the_same_file_is_refused(tmp_path: Path, series: bool) -> None:
    options = ("--repeat", "2") if series else ()
    program = "import os; print('ready', flush=True); os.read(0, 1)"
    first = start(tmp_path, sys.executable, "-c", program, options=options, stdin=subprocess.PIPE)
    assert first.stdout.readline() == "ready\n"
    (tmp_path / "link.prof").symlink_to("run.prof")
    for name in ["run.prof", str(tmp_path / "run.prof")]:
        second = profkit(tmp_path, "capture", "-o", name, *options, "--", "echo", "ran", status=2)
        assert second.stdout == ""
        assert second.stderr.startswith(f"profkit: error: -o {name}: another capture is writing it")
        assert second.stderr.count("\n") == 1
    ended(first, typed="..")
    (tmp_path / "link.prof").unlink()
    assert left(tmp_path) == (["run-1.prof", "run-2.prof"] if series else ["run.prof"])


def test_names_cannot_command_the_terminal(tmp_path: Path) -> None:
    name = "a\x1b]0;owned\x07\x1b[31m.prof"
    for words in (
        ("capture", "-o", name, "--", "true"),
        ("merge", name, "-o", f"b{name}"),
        ("capture", "-o", f"no/{name}", "--", "true"),
        ("show", name, "--format", "md", "--ticket", "-o", f"{name}.md"),
    ):
        done = profkit(tmp_path, *words, status=None)
        assert "a\\x1b]0;owned\\x07" in done.stderr
        assert not set(done.stdout + done.stderr) & {"\x1b", "\x07"}
    assert (tmp_path / name).exists()
    assert (tmp_path / f"b{name}").exists()


def test_nvtx_in_little_address_space(tmp_path: Path) -> None:
    """The limit of a batch system: what is read takes what it is large, and not what it may be."""
    require_collector()
    require("shell", Path("/bin/bash").exists(), "no bash")
    program = "import nvtx\nfor i in range(100):\n    with nvtx.annotate('step'): pass\n"
    launcher = shlex.join(profkit_command("capture", "-o", "run.prof", "--", sys.executable, "-c", program))
    succeeded(["bash", "-c", f"ulimit -v 4000000; exec {launcher}"], tmp_path, env=environment())
    ranges = load_run(tmp_path / "run.prof").processes[0].ranges
    assert len(ranges) == 100


def test_an_interrupt_ends_the_repetitions(tmp_path: Path) -> None:
    work = tmp_path / "work"
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(0))\n"
        "print('ready', flush=True)\n"
        "signal.pause()\n"
    )
    launcher = start(work, sys.executable, "-c", program, options=("--repeat", "3"))
    assert launcher.stdout.readline() == "ready\n"
    send(launcher, signal.SIGINT)
    out, err = ended(launcher)
    assert out == ""
    assert "profkit: stopped at run 1 of 3\n" in err
    assert left(work) == ["run-1.prof"]
