"""`profkit doctor` on this machine: limits, sizes that libraries then have, real programs, tracers that it builds."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from profkit.capture.agent import settings
from profkit.formats import load_run
from tests.integration.capturing import (
    ROOT,
    calls,
    codes,
    ended,
    environment,
    limited_cgroup,
    profkit_command,
    script,
    started,
    wait_until,
    works,
)
from tests.integration.tracing import QUICK_COMPILER, compiler
from tests.interpreters import find
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


# Tracers for other Pythons, built by the command and found by captures.

CALLS_INNER = "def inner(): pass\ndef outer():\n for _ in range(123): inner()\nouter()"
TRACER = "_tracer.cpython"


@pytest.fixture(scope="module")
def other() -> str:
    """A Python that needs a tracer of its own, and is not this one."""
    versions = [f"3.{minor}" for minor in (9, 10, 8, 11) if sys.version_info[:2] != (3, minor)]
    found = next(filter(None, map(find, versions)), None)
    require("interpreters", found is not None, f"no CPython of {', '.join(versions)} here")
    return found


@pytest.fixture
def tree() -> Iterator[Path]:
    """An installation that has everything compiled but a tracer up to 3.11."""
    compiler()
    with tempfile.TemporaryDirectory(prefix="profkit-installed-") as directory:
        # Another test may be compiling in the checkout.
        without = shutil.ignore_patterns("__pycache__", f"{TRACER}*", ".building-*")
        shutil.copytree(ROOT / "profkit", Path(directory, "profkit"), ignore=without)
        yield Path(directory)


def native(tree: Path) -> Path:
    return tree / "profkit" / "capture" / "native"


def installed(
    tree: Path, *words: str, before: tuple[str, ...] = (), status: int = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the installation's profkit; what is compiled is not measured here: quickly."""
    env = environment(PYTHONPATH=str(tree), CFLAGS="-O0", XDG_DATA_HOME=str(tree / "data"))
    env["CC"] = str(QUICK_COMPILER)
    for name in ("PROFKIT_REQUIRE_NATIVE", settings.TRACERS_VARIABLE, settings.DISABLE_NATIVE_VARIABLE):
        env.pop(name, None)
    command = [*before, sys.executable, "-m", "profkit", *words]
    return finished(command, tree, status, env=env | variables, timeout=300)


def capture(tree: Path, python: str) -> tuple[dict[str, int], set[str], str]:
    """Return the calls of `CALLS_INNER` under capture, the codes of the run's notices, and what was said."""
    done = installed(tree, "capture", "--exact", "-o", "run.prof", "--", python, "-c", CALLS_INNER)
    run = load_run(tree / "run.prof")
    return calls(run.processes[0]), set(codes(run)), done.stderr


def test_a_missing_tracer_is_named_built_and_used(tree: Path, other: str) -> None:
    seen, notices, said = capture(tree, other)
    assert not seen
    assert "tracer-missing" in notices
    command = next(line for line in said.splitlines() if "--build-tracers" in line).split("`")[1].split()
    asked = installed(tree, "doctor", "--python", other, "--format", "md")
    assert " ".join(command) in asked.stdout
    assert command[:-1] == ["profkit", "doctor", "--build-tracers"]

    words = (*command[1:-1], other)
    done = installed(tree, *words)
    (built,) = (native(tree) / "lib").glob(f"{TRACER}*")
    assert done.stdout.endswith(f": built {built}\n")
    assert done.stdout.startswith(f"{other}: Python 3.")
    again = installed(tree, *words)
    assert again.stdout.endswith(": has a tracer\n")

    seen, notices, _ = capture(tree, other)
    assert (seen["inner"], seen["outer"]) == (123, 1)
    assert "tracer-missing" not in notices
    assert command[-1] not in installed(tree, "doctor", "--python", other).stdout


def test_an_installation_that_is_not_writable(tree: Path, other: str) -> None:
    """Root writes everywhere unless it gives that right away."""
    before: tuple[str, ...] = ()
    if os.geteuid() == 0:
        before = ("setpriv", "--bounding-set=-dac_override")
        require("setpriv", works(*before, "true"), "root cannot give a right away here")
    (native(tree) / "lib").chmod(0o555)
    done = installed(tree, "doctor", "--build-tracers", other, before=before)
    (native(tree) / "lib").chmod(0o755)
    (built,) = (tree / "data" / "profkit" / "tracers").glob(f"*/{TRACER}*")
    assert done.stdout.endswith(f": built {built}\n")
    seen, notices, _ = capture(tree, other)
    assert seen["inner"] == 123
    assert "tracer-missing" not in notices
    # A tracer of other sources is not taken for one of these.
    header = native(tree) / "tracer" / "hook.h"
    header.write_text(header.read_text() + "\n")
    assert "tracer-missing" in capture(tree, other)[1]


def test_what_is_missing_is_said(tree: Path, other: str) -> None:
    def says(python: str, **variables: str) -> str:
        done = installed(tree, "doctor", "--build-tracers", python, status=2, **variables)
        assert done.stderr == ""
        (line,) = done.stdout.splitlines()
        assert line.startswith(f"{python}: Python 3.")
        return line.partition(": not built: ")[2]

    assert says(other, CC="/none").startswith("there is no C compiler (/none); install ")
    assert says(other, CC="cc -nostdinc").split(" is missing; install ")[0].endswith(".h")
    assert "does not compile: " in says(other, CFLAGS="-fno-such-flag")
    # The same Python without its headers.
    real = Path(os.path.realpath(other))
    bare = tree / "bare" / "bin" / real.name
    bare.parent.mkdir(parents=True)
    shutil.copy(real, bare)
    (tree / "bare" / "lib").symlink_to(real.parents[1] / "lib")
    include = tree / "bare" / "include" / "python"
    assert says(str(bare)).startswith(str(include))
    assert "Python.h is missing; install the headers" in says(str(bare))
    assert not list((native(tree) / "lib").glob(f"{TRACER}*"))
    assert not list(tree.rglob(".building-*"))


def test_those_of_the_path_and_of_pyenv_are_found(tree: Path, other: str) -> None:
    for folder, name in (("bin", "python3.1"), ("pyenv/versions/3.1.4/bin", "python")):
        (tree / folder).mkdir(parents=True)
        (tree / folder / name).symlink_to(other)
    (tree / "bin" / "python").write_text("#!/bin/sh\necho no version is selected\nexit 127\n")
    (tree / "bin" / "python").chmod(0o755)
    nothing = {"PATH": str(tree / "bin"), "CC": "/no/such/compiler", "PYENV_ROOT": str(tree / "pyenv")}
    done = installed(tree, "doctor", "--build-tracers", **nothing)
    lines = sorted(line.partition(": ")[0] for line in done.stdout.splitlines())
    assert lines == sorted([sys.executable, str(tree / "bin" / "python3.1")]), "each once"
    (tree / "bin" / "python3.1").unlink()
    done = installed(tree, "doctor", "--build-tracers", "python3.1", status=2, **nothing)
    assert done.stdout.startswith(str(tree / "pyenv"))


def test_what_is_no_python_is_refused(tree: Path) -> None:
    for word in ("python3.1", "/no/such/python", "/bin/true"):
        nothing = {"PATH": "/nowhere", "PYENV_ROOT": "/nowhere"}
        done = installed(tree, "doctor", "--build-tracers", word, status=2, **nothing)
        assert done.stderr.startswith(f"profkit: error: {word}: no working Python")
        assert done.stderr.count("\n") == 1


def test_a_python_that_is_too_old(tree: Path) -> None:
    old = find("2.7") or find("3.7")
    require("interpreters", old is not None, "no CPython before 3.8 here")
    done = installed(tree, "doctor", "--build-tracers", old, status=2)
    assert done.stdout.endswith(": not profiled: profkit profiles Python 3.8 and later\n")
