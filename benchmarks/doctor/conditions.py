"""The limits under which a library is asked: an affinity, a quota of CPU time, variables.

A quota is met in three views, since libraries read files of the kernel in different ways:

``nested``
    A cgroup of version 1 below the root, as a service's or a job's; the quota is real.
``v1``
    The same seen from within a container: a namespace in which that cgroup is the root.
``v2``
    The files of version 2 as a container has them, with a quota that is written down and enforced by nobody: the
    machine that this was written on has no CPU controller of version 2.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.doctor.probes import Probe
from benchmarks.verdict.surroundings import PERIOD_US, quota_group

VIEWS = ("nested", "v1", "v2")
PATIENCE_S = 120.0
_CPU = Path("/sys/fs/cgroup/cpu")
#: What a program gets of the environment of this process.
_KEPT = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "LD_LIBRARY_PATH")

_JOIN = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
_V1 = 'umount /sys/fs/cgroup/cpu && mount -t cgroup -o cpu none /sys/fs/cgroup/cpu && exec "$@"'
_V2 = (
    "mount -t tmpfs none /sys/fs/cgroup && echo cpuset cpu > /sys/fs/cgroup/cgroup.controllers"
    ' && echo "$QUOTA 100000" > /sys/fs/cgroup/cpu.max && echo 0::/ > "$0" && mount --bind "$0" /proc/$$/cgroup'
    ' && unset QUOTA && exec "$@"'
)


def asked(
    python: Path, probe: Probe, variables: Mapping[str, str] | None = None, *, around: Sequence[str] = ()
) -> int:
    """Run a probe and return the number that it printed.

    Parameters
    ----------
    python
        Interpreter that has the library.
    probe, variables
        What is asked, and what is set.
    around
        Words in front of the command.

    Raises
    ------
    RuntimeError
        It printed no number.
    """
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | dict(variables or {})
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "probe.py")
        script.write_text(probe.code)
        ended = subprocess.run(
            [*around, str(python), str(script)],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    words = ended.stdout.split()
    if not words or not words[-1].isdigit():
        raise RuntimeError((ended.stderr.strip().splitlines() or ["no output"])[-1][:160])
    return int(words[-1])


@contextlib.contextmanager
def quota_views(cores: float) -> Iterator[Mapping[str, Sequence[str]]]:
    """Give the words that put a command under a quota, by view; what this machine does not permit is absent."""
    with contextlib.ExitStack() as stack:
        found: dict[str, Sequence[str]] = {}
        if _CPU.is_dir():
            with contextlib.suppress(OSError):  # not permitted
                join = ["sh", "-c", _JOIN, str(stack.enter_context(quota_group(cores)))]
                found["nested"] = join
                found["v1"] = [*join, "unshare", "-C", "-m", "sh", "-c", _V1, "sh"]
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        quota = f"QUOTA={int(cores * PERIOD_US)}"
        found["v2"] = ["env", quota, "unshare", "-m", "sh", "-c", _V2, f"{folder}/cgroup"]
        yield {view: words for view, words in found.items() if _works(words)}


def _works(words: Sequence[str]) -> bool:
    return subprocess.run([*words, sys.executable, "-c", ""], capture_output=True).returncode == 0
