"""`profkit doctor` on this machine: its limits under real limits, sizes that libraries then have, real programs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.integration.capturing import (
    ended,
    environment,
    limited_cgroup,
    profkit_command,
    script,
    started,
    wait_until,
    works,
)
from tests.requirements import require
from tests.shared import finished, succeeded, words_of

CPUS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
#: Variables of the shell that would size anything.
SIZED = tuple(words_of("OMP_ OPENBLAS_ MKL_ NUMEXPR_ POLARS_ NUMBA_ PYTHON_CPU_COUNT SLURM_ OMPI_ PMI"))

POOL = """
import multiprocessing, sys
def work(_):
    while True:
        sum(range(100_000))
if __name__ == "__main__":
    with multiprocessing.Pool(int(sys.argv[2])) as pool:
        pool.map(work, range(int(sys.argv[2])))
"""
#: What each library says of itself.
ASKED = {
    "openblas": "import os, numpy; print(len(os.listdir('/proc/self/task')))",
    "polars": "import polars; print(polars.thread_pool_size())",
    "arrow": "import pyarrow; print(pyarrow.cpu_count())",
    "multiprocessing": "import multiprocessing as m\nwith m.get_context('fork').Pool() as p: print(p._processes)",
}


def clean(**variables: str) -> dict[str, str]:
    kept = {k: v for k, v in environment().items() if not k.startswith(SIZED)}
    return {**kept, **variables}


def doctor(
    *arguments: str,
    around: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    status: int = 0,
) -> str:
    """What is printed by a command that must end so."""
    command = [*around, *profkit_command("doctor", *arguments)]
    return finished(command, cwd, status, env=dict(env or clean()), timeout=120).stdout


def answer(*arguments: str, **kwargs: Any) -> Any:
    return json.loads(doctor("--format", "json", *arguments, **kwargs))


@pytest.fixture
def quota() -> Iterator[Sequence[str]]:
    """Words that put a command into a cgroup with a quota of one CPU."""
    with limited_cgroup(100_000, 100_000) as group:
        yield ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group)]


@pytest.mark.parametrize("limited", [False, True], ids=["all CPUs", "one CPU"])
def test_libraries_have_the_sizes_that_were_said(limited: bool) -> None:
    for module in ("numpy", "polars", "pyarrow"):
        require("libraries", find_spec(module) is not None, f"{module} is not installed")
    around = ["taskset", "-c", str(CPUS[0])] if limited else []
    require("taskset", not limited or shutil.which("taskset") is not None, "no taskset")
    found = answer("--python", sys.executable, around=around)
    said = {row["library"]: row["size"] for row in found["libraries"]}
    for library, asked in ASKED.items():
        real = succeeded([*around, sys.executable, "-c", asked], env=clean())
        assert said[library] == int(real.stdout), library
    assert len(found["machine"]["affinity"]) == (1 if limited else len(CPUS))
    assert found["machine"]["effective_cpus"] <= len(found["machine"]["affinity"])


def test_a_quota_is_the_least_limit_and_some_libraries_do_not_see_it(quota: Sequence[str]) -> None:
    if len(CPUS) < 2:
        pytest.skip("one CPU")
    found = answer("--python", sys.executable, around=quota)
    machine = found["machine"]
    assert (machine["quota_cpus"], machine["quota_view"], machine["effective_cpus"]) == (1.0, "nested", 1.0)
    unseen = {row["library"] for row in found["libraries"] if row["unseen"] == "quota"}
    assert "openblas" in unseen
    assert "polars" not in unseen
    assert found["oversubscribed"]
    names = [row["variable"] for row in found["advice"]]
    cured = answer("--python", sys.executable, around=quota, env=clean(**dict.fromkeys(names, "1")))
    assert not cured["oversubscribed"]


def test_the_quota_of_a_container_is_seen_as_one(quota: Sequence[str]) -> None:
    """A namespace in which the group is the root: libraries that look nowhere else find the quota."""
    mount = 'umount /sys/fs/cgroup/cpu && mount -t cgroup -o cpu none /sys/fs/cgroup/cpu && exec "$@"'
    if not Path("/sys/fs/cgroup/cpu").is_dir():
        mount = 'mount -t cgroup2 none /sys/fs/cgroup && exec "$@"'
    inside = [*quota, "unshare", "-C", "-m", "sh", "-c", mount, "sh"]
    require("cgroups", works(*inside, "true"), "no namespace of cgroups can be made")
    machine = answer("--python", sys.executable, around=inside)["machine"]
    assert machine["quota_cpus"] == 1.0
    assert machine["quota_view"] in ("v1", "v2")


def test_ranks_of_mpirun_share_the_cpus_or_are_bound() -> None:
    require("mpi", shutil.which("mpirun") is not None, "no mpirun")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    words = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2"]
    script = 'test "$OMPI_COMM_WORLD_RANK" = 1 || exec >/dev/null; exec "$@"'
    found = answer("--python", sys.executable, around=[*words, "sh", "-c", script, "sh"], env=clean(**root))
    assert found["machine"]["ranks"] == {"launcher": "Open MPI", "here": 2, "bound": False, "policy": "none"}
    assert found["demand"]["ranks"] == 2
    assert found["demand"]["cpus"] == found["machine"]["effective_cpus"]


def test_a_command_that_starts_too_many_is_watched_ended_and_cured(tmp_path: Path) -> None:
    pool, many = script(tmp_path, POOL), 4 * len(CPUS)
    command = ["--seconds", "3", "--", sys.executable, pool, "--workers", str(many)]
    found = answer("--fail-on", "oversubscribed", *command, cwd=tmp_path, status=1)
    assert found["oversubscribed"]
    # On a busy machine some may have begun late, and a pool starts others for those that were ended.
    assert sum(crew["processes"] for crew in found["trial"]["crews"] if crew["role"] == "worker") >= many
    assert found["trial"]["at_once"] > 2 * len(CPUS)
    assert {own["kind"] for own in found["own"]} == {"processes", "argument"}
    assert found["advice"] == []
    assert not list(tmp_path.glob("*.prof")), "it left a file"
    assert finished(["pgrep", "-f", pool]).stdout == ""


def test_a_command_that_fits_is_not_oversubscribed(tmp_path: Path) -> None:
    short = script(
        tmp_path, "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass\n"
    )
    said = doctor("--fail-on", "oversubscribed", "--", sys.executable, short, cwd=tmp_path)
    assert said.startswith("✓ 1 process × 1 thread = 1 runnable thread for ")
    assert len(said.splitlines()) <= 30


def test_how_a_command_ended_is_said(tmp_path: Path) -> None:
    fails = script(tmp_path, "import time\ntime.sleep(0.3)\nraise SystemExit('no such data set')\n")
    assert "exit status 1: no such data set" in doctor("--", sys.executable, fails, cwd=tmp_path)


def test_a_library_is_found_without_being_imported(tmp_path: Path) -> None:
    package = tmp_path / "site" / "polars"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (tmp_path / "site" / "polars-9.9.dist-info").mkdir()
    found = answer("--python", sys.executable, env=clean(PYTHONPATH=str(tmp_path / "site")))
    assert next(row["packages"] for row in found["libraries"] if row["library"] == "polars") == ["polars 9.9"]


def test_an_interrupt_ends_the_command(tmp_path: Path) -> None:
    """Ctrl-C reaches profkit alone: its target has a session of its own."""
    waits = script(tmp_path, "import time\nopen('began', 'w').close()\ntime.sleep(300)\n")
    job = started(tmp_path, "doctor", "--seconds", "200", "--", sys.executable, waits, env=clean())
    wait_until((tmp_path / "began").exists)
    job.send_signal(signal.SIGINT)
    assert ended(job, 130) == ("", "")
