"""A process that has imported what a capture needs, and forks for each command: short captures mostly import.

How the command itself starts is seen by tests that start a new one (`capturing.profkit_command`, ``fresh``).
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: A process number or a status.
_ANSWER = struct.Struct("=q")
#: The rest is what `capturing.profkit_command` runs.
_START = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.integration.ready import serve
serve(int(sys.argv[1]))
from profkit.cli import main
main()
"""


def serve(number: int) -> None:
    """Fork for each command that comes by the socket of this number; return in the forked processes."""
    from profkit.cli import import_numpy

    import_numpy()  # without threads, which a fork would lose
    import profkit.capture.launcher
    import profkit.capture.packer
    import profkit.capture.source_lookahead
    import profkit.cli.app
    import profkit.cli.capture
    import profkit.formats.runfile  # noqa: F401

    with socket.socket(fileno=number) as link, link.makefile("rb") as asked:
        link.set_inheritable(False)
        while line := asked.readline():
            words, directory, variables, *streams = json.loads(line)
            pid = os.fork()
            if pid == 0:
                for descriptor, name in enumerate(streams, 1):
                    opened = os.open(name, os.O_WRONLY)
                    os.dup2(opened, descriptor)
                    os.close(opened)
                os.chdir(directory)
                os.environ.clear()
                os.environ.update(variables)
                sys.argv = ["-c", *words]
                return
            link.sendall(_ANSWER.pack(pid))
            link.sendall(_ANSWER.pack(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
    sys.exit()


@functools.cache
def _begun() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start the process that forks."""
    link, theirs = socket.socketpair()
    variables = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    with theirs:
        command = [sys.executable, "-c", _START, str(theirs.fileno())]
        process = subprocess.Popen(command, env=variables, pass_fds=(theirs.fileno(),))
    atexit.register(_end, process, link)
    return process, link


def _end(process: subprocess.Popen[bytes], link: socket.socket) -> None:
    link.close()
    process.wait()


def _answer(link: socket.socket) -> int:
    (value,) = _ANSWER.unpack(link.recv(_ANSWER.size, socket.MSG_WAITALL))
    return int(value)


def run_forked(
    words: Sequence[str], directory: Path, variables: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run a command of profkit in a process of its own, as `subprocess.run` would."""
    process, link = _begun()
    if process.poll() is not None:  # a test may signal its own process group
        link.close()
        _begun.cache_clear()
        process, link = _begun()
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        asked = [*map(os.fspath, words)], str(directory), dict(variables), out.name, err.name
        link.sendall(json.dumps(asked).encode() + b"\n")
        pid = _answer(link)
        in_time = bool(select.select([link], [], [], timeout)[0])
        if not in_time:
            os.kill(pid, signal.SIGKILL)
        status = _answer(link)
        if not in_time:
            raise subprocess.TimeoutExpired([*words], timeout, out.read(), err.read())
        return subprocess.CompletedProcess([*words], status, out.read(), err.read())
