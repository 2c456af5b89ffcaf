"""Makes a running Python execute the agent, with ``sys.remote_exec`` (Python 3.14 and later).

Only an interpreter of the same version can ask for it. A request cannot be cancelled: after its time, the
file that the process reads does nothing but remove itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from profkit.capture.agent import settings
from profkit.capture.agent.process_facts import read_file, status_words
from profkit.capture.native import users_tracers

#: The first version with ``sys.remote_exec``.
REMOTE_SINCE = (3, 14)
#: File of an interpreter, or of its library.
_INTERPRETER = re.compile(r"/(?:lib)?python(\d+)\.(\d+)(t?)d?(?:\.so[.\d]*)?$")
#: A module of the standard library, below a directory that names the version.
_LIBRARY = re.compile(r"/python(\d+)\.(\d+)(t?)/lib-dynload/")
#: Seconds for an interpreter that only asks another one.
_PATIENCE_S = 20.0

_AGENT = Path(__file__).parent / "agent"

_ASK = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"

_SCRIPT = """\
def _profkit():
    import os, sys
    try:
        os.unlink({path!r})
    except OSError:
        pass
    if not os.path.exists({asked!r}):
        return  # its time is over
    # What the agent imports, and only its own modules keep.
    new = [m for m in ("_lsprof", "_types", "types") if m not in sys.modules]
    try:
        from _frozen_importlib_external import SourceFileLoader

        names = {{}}
        exec(SourceFileLoader("loader", {agent!r} + "/loader.py").get_code("loader"), names)
        begin = names["load"]({agent!r}, "attached", lambda module: module.begin)
    except Exception:
        begin = None
    finally:
        for module in new:
            sys.modules.pop(module, None)
    if begin is not None:
        begin({spool!r}, {until!r}, {tracers!r})


_profkit()
"""


@dataclass(frozen=True, slots=True)
class Python:
    """The interpreter of a process; `executable` is empty if the file was removed."""

    executable: str
    version: tuple[int, int]
    free_threaded: bool

    def refusal(self, pid: int) -> str:
        """Return why the agent cannot run in this process; empty if it can."""
        if self.version < REMOTE_SINCE:
            return "a running process can be traced from Python 3.14 on"
        if self.free_threaded:
            return "calls of a free-threaded build are not traced"
        if not self.executable:
            return "the file of its interpreter is gone"
        if _namespace(pid) != _namespace("self"):
            return "it runs in another container"
        return ""


def python_of(pid: int) -> Python | None:
    """Return a process's interpreter, if it is Python; raise `PermissionError` for another user's."""
    try:
        executable = os.readlink(f"/proc/{pid}/exe")
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
            files = dict.fromkeys(line.split(None, 5)[5].rstrip("\n") for line in file if line.count("/"))
    except PermissionError:
        raise
    except (OSError, IndexError):
        return None
    usable = executable if os.path.exists(executable) else ""
    named = [_INTERPRETER.search(name) for name in (executable, *files)]
    inside = [_LIBRARY.search(name) for name in files]
    if not any(named) and not (os.path.basename(executable).startswith("python") and any(inside)):
        return None
    for found in (*named, *inside):
        if found is not None:
            return Python(usable, (int(found[1]), int(found[2])), bool(found[3]))
    return None


def _namespace(pid: int | str) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/mnt")
    return ""


def write_script(pid: int, spool: Path, until_s: float) -> Path:
    """Write the file that process `pid` executes; its agent ends by `until_s` (`time.perf_counter`).

    The process removes the file when it reads it; a late reader does nothing else.
    """
    handle, name = tempfile.mkstemp(prefix=f"profkit-attach-{pid}-", suffix=".py")
    agent = str(_AGENT)
    tracers = users_tracers(os.environ)
    asked = str(spool / settings.ATTACHED_NAME)
    text = _SCRIPT.format(
        path=name, asked=asked, agent=agent, spool=str(spool), until=until_s, tracers=tracers
    )
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(name)


def another_users(pid: int) -> str:
    """Return why a process of another user is not asked to run the agent, or an empty text.

    Root could ask it, but then it would write to a directory in which root writes and removes files.
    """
    user = int(status_words(read_file(f"/proc/{pid}/status"), b"Uid")[1])
    if user == os.geteuid():
        return ""
    return f"it is another user's: attach as that user (sudo -u '#{user}' profkit attach {pid})"


def run_in(pid: int, python: Python, script: Path) -> str:
    """Make a process read a script; return the reason if it will not, else an empty text."""
    command = [python.executable, "-I", "-S", "-c", _ASK, str(pid), str(script)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    said = done.stderr.strip().splitlines()
    return said[-1].partition(": ")[2] or said[-1] if said else f"it ended with status {done.returncode}"
