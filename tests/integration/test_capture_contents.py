"""What a capture holds: exact counts, threads, killed processes, facts; on every CPython of the machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from profkit.capture.agent import settings
from profkit.capture.source import SourceFile
from profkit.formats import load_run
from profkit.measure.size_calls import size_calls
from profkit.model import Run
from profkit.model.thread import name_digest
from tests.integration.capturing import (
    captured,
    column,
    environment,
    in_process,
    names,
    profkit,
    profkit_command,
    script,
)
from tests.interpreters import EACH_WAY, interpreter
from tests.requirements import require
from tests.shared import succeeded


def test_functions_carry_qualname_module_and_source(tmp_path: Path) -> None:
    lib = tmp_path / "lib.py"
    lib.write_text("class Layer:\n    def forward(self, x):\n        # a comment\n        return x + 1\n")
    (tmp_path / "train.py").write_text("import lib\nlib.Layer().forward(1)\n")

    def seen(python: str) -> list[str]:
        profile = captured(tmp_path, python, "train.py").processes[0].threads[0].profile
        row = names(profile).index("forward")
        return [profile.strings[c[row]] for c in (profile.qualname, profile.module, profile.source_hash)]

    found = [seen(interpreter(version)) for version in ("3.8", "3.11", "3.13", "3.15")]
    qualname, module, digest = found[0]
    assert (qualname, module, bool(digest)) == ("Layer.forward", "lib", True)
    assert found == [found[0]] * 4, "the same source hashes differently under another Python"
    lib.write_text("\n# moved\nclass Layer:\n    def forward(self, x):\n        return x + 2\n")
    assert seen(sys.executable)[2] != digest


def test_manifest(tmp_path: Path) -> None:
    env = environment(OMP_NUM_THREADS="3", MY_SECRET_TOKEN="hunter2-hunter2")
    program = "import os; os.environ['MKL_NUM_THREADS'] = '7'"
    run = captured(tmp_path, sys.executable, "-c", program, env=env)
    manifest = run.manifest
    assert manifest.schema == "profkit.run/2"
    assert manifest.exit_status == 0
    assert manifest.environment["OMP_NUM_THREADS"] == "3"
    assert set(manifest.environment) <= settings.RECORDED_VARIABLES
    assert run.processes[0].environment["MKL_NUM_THREADS"] == "7", "set by the target itself"
    assert manifest.host.cpus
    assert manifest.host.affinity
    assert manifest.host.cpu_model
    assert "numpy" in manifest.packages
    assert manifest.git is None
    assert run.machine.wall_s == pytest.approx(manifest.wall_s, abs=2.0)
    assert b"hunter2" not in (tmp_path / "run.prof").read_bytes()
    with zipfile.ZipFile(tmp_path / "run.prof") as archive:
        assert all(b"hunter2" not in archive.read(name) for name in archive.namelist())


def test_the_cpus_that_each_process_may_use(tmp_path: Path) -> None:
    """Of a pinned target beside those of the launcher, of a capture that is pinned as a whole, and after a merge."""
    allowed = tuple(sorted(os.sched_getaffinity(0)))
    pin = ["taskset", "-c", str(allowed[-1])]
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'pass'], check=True)"
    run = captured(tmp_path, *pin, sys.executable, "-c", child)
    assert (run.manifest.host.affinity, run.manifest.host.affinity_cpus) == (len(allowed), allowed)
    hosts = [process.host for process in run.processes if process.profiled]
    assert [(host.affinity, host.affinity_cpus) for host in hosts if host] == [(1, allowed[-1:])] * 2

    whole = profkit_command("capture", "-o", "pinned.prof", "--", sys.executable, "-c", "pass")
    subprocess.run([*pin, *whole], cwd=tmp_path, env=environment(), check=True)
    in_process(tmp_path, "merge", "pinned.prof", "-o", "merged.prof")
    for name in ("pinned.prof", "merged.prof"):
        run = load_run(tmp_path / name)
        for host in (run.manifest.host, *(process.host for process in run.processes)):
            assert host.affinity_cpus == allowed[-1:]


def test_git_revision(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    odd = tmp_path / os.fsdecode(b"l\xe9.txt")
    for file in (tmp_path / "train.py", odd):
        file.write_text("print(1)\n")
    unquoted = ["config", "core.quotePath", "false"]  # git then prints the bytes of a name as they are
    for words in (["init", "-q"], unquoted, ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True, capture_output=True)
    revision = succeeded(["git", "rev-parse", "HEAD"], tmp_path).stdout.strip()
    for dirty in (False, True):
        run = captured(tmp_path, sys.executable, "train.py")
        assert run.manifest.git == {"revision": revision, "dirty": dirty}
        odd.write_text("print(2)\n")


def test_repeat_and_names_that_are_taken(tmp_path: Path) -> None:
    def capture(*words: str) -> None:
        profkit(tmp_path, "capture", *words, "--", sys.executable, "-c", "1")

    capture("--repeat", "2", "-o", "a.prof")
    capture()
    capture()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a-1.prof", "a-2.prof", "run-2.prof", "run.prof"]
    (tmp_path / ".run-3.prof.spool-of-one-that-runs").mkdir()
    capture()
    assert (tmp_path / "run-4.prof").exists()


#: Recurses in two threads, one after the other, and then stays in a recursive call until it is killed.
RECURSION = """
import sys, threading, time
def leaf():
    return sum(range(5000))
def deep(n):
    leaf()
    if n:
        deep(n - 1)
def outer(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        deep(10)
    time.sleep(0.1)
def held(n):
    if n:
        held(n - 1)
    while True:
        leaf()
seconds = float(sys.argv[1])
thread = threading.Thread(target=outer, args=(seconds,), name="second")
thread.start()
thread.join()
outer(seconds)
held(5)
"""
BELOW_OUTER = (
    *("outer", "deep", "leaf"),
    *(f"<built-in method {name}>" for name in ("builtins.sum", "time.sleep", "time.perf_counter")),
)


@pytest.mark.alone
@pytest.mark.parametrize("version", ["3.11", "3.13"])
def test_cumulative_waiting_is_that_of_a_function_and_its_callees(tmp_path: Path, version: str) -> None:
    """On one CPU with a busy neighbour, recursion and calls that never returned included."""
    name = f"{sys.version_info.major}.{sys.version_info.minor}"
    require("interpreters", version in (name, "3.13"), f"no tracer is built for {version} here")
    cpu = min(os.sched_getaffinity(0))
    pin = ["taskset", "-c", str(cpu)]
    program = [interpreter(version), script(tmp_path, RECURSION), "0.4"]
    with subprocess.Popen([*pin, sys.executable, "-c", "while True: pass"]) as neighbour:
        try:
            run = captured(tmp_path, *pin, "timeout", "-s", "KILL", "3", *program, status=-signal.SIGKILL)
        finally:
            neighbour.kill()
    process = next(p for p in run.processes if p.threads)
    assert len(process.threads) == 2
    for thread in process.threads:
        p = thread.profile
        assert p.wait.sum() > 0.1, "the two did not compete"
        assert (p.cumwait >= p.wait - 1e-9).all()
        assert (p.cumblocked >= p.blocked - 1e-9).all()
        # The kernel's clock and the tracer's are read one after the other, and the CPU may be lost in between.
        assert (p.cumwait + p.cumblocked <= p.cumtime + 0.1).all()
        root, found = int(p.cumtime.argmax()), names(p)
        # Where `threading` itself is not traced, its last calls are not below `outer`, and may queue too.
        below = np.isin(found, BELOW_OUTER) | (found[root] != "outer")
        assert p.cumwait[root] == pytest.approx(p.wait[below].sum(), rel=0.02, abs=0.005)
        assert p.cumblocked[root] == pytest.approx(p.blocked[below].sum(), rel=0.02, abs=0.005)
    computed = column(process, "leaf", "wait") + column(process, "<built-in method builtins.sum>", "wait")
    # `leaf` is called by the recursive functions only, which wait for a CPU in it.
    recursive = column(process, "deep", "cumwait") + column(process, "held", "cumwait")
    assert column(process, "leaf", "cumwait") == pytest.approx(computed, rel=0.02, abs=0.005)
    assert recursive >= column(process, "leaf", "cumwait") - 1e-6
    assert column(process, "held", "cumwait") > 0.3
    # held(5) … held(0), the module
    assert len([call for call in process.threads[0].open_calls if call.cumtime > 0.3]) >= 7


def test_what_runs_under_the_targets_own_profiler_is_left_out(tmp_path: Path) -> None:
    program = script(
        tmp_path,
        "import cProfile, time\n"
        "def mine():\n"
        "    time.sleep(0.4)\n"
        "def its():\n"
        "    time.sleep(0.4)\n"
        "mine()\n"
        "cProfile.Profile().runcall(its)\n"
        "mine()\n",
    )
    for version in ("3.11", "3.13"):
        process = captured(tmp_path, interpreter(version), program).processes[0]
        assert column(process, "mine", "cumblocked") == pytest.approx(0.8, abs=0.2)
        assert column(process, "its", "cumblocked") < 0.1


def hashes(run: Run) -> dict[tuple[str, str], str]:
    """Source hash by file and name of each function that has one."""
    found = {}
    for profile in (thread.profile for process in run.processes for thread in process.threads):
        columns = (profile.file, profile.qualname, profile.name, profile.source_hash)
        for file, qualname, name, digest in zip(*columns, strict=True):
            if digest:
                found[profile.strings[file], profile.strings[qualname or name]] = profile.strings[digest]
    return found


@pytest.mark.parametrize("version", [EACH_WAY[0], EACH_WAY[-1]])
def test_hashes_are_the_same_from_the_sources_and_from_what_was_kept(tmp_path: Path, version: str) -> None:
    """Qualified names of old interpreters come from the sources, too."""
    program = script(tmp_path, "import argparse\nargparse.ArgumentParser(prog='p').parse_args([])\n")
    python = interpreter(version)
    home = tmp_path / "home"
    home.mkdir()
    places = {
        "none": {"HOME": "", "XDG_CACHE_HOME": ""},
        "first": {"HOME": str(home), "XDG_CACHE_HOME": ""},
        "again": {"HOME": str(home), "XDG_CACHE_HOME": ""},
        "not to be written": {"HOME": str(home), "XDG_CACHE_HOME": os.devnull},
    }
    found = {}
    for name, place in places.items():
        found[name] = hashes(captured(tmp_path, python, program, env=environment(**place)))
        if name == "none":
            assert not list(home.iterdir())
    assert (program, "<module>") in found["none"]
    assert any(qualname == "ArgumentParser.parse_known_args" for _, qualname in found["none"])
    for name in places:
        assert found[name] == found["none"], name
    written = [path for path in home.rglob("*") if path.is_file()]
    assert written == [home / ".cache" / "profkit" / "sources"]
    assert "argparse.py" in written[0].read_text()
    script(tmp_path, "import argparse\nargparse.ArgumentParser(prog='q').parse_args([])\n")
    changed = hashes(captured(tmp_path, python, program, env=environment(**places["again"])))
    assert {key for key in changed if changed[key] != found["none"].get(key)} == {(program, "<module>")}


WORKERS = """
import time
from concurrent.futures import ProcessPoolExecutor

def main():
    with ProcessPoolExecutor(3) as pool:
        print(sum(pool.map(abs, range(4))))
    until = time.perf_counter() + 0.3
    while time.perf_counter() < until:
        sum(range(1000))

if __name__ == "__main__":
    main()
"""


def test_where_a_sampled_program_sets_its_workers(tmp_path: Path) -> None:
    command = sys.executable, script(tmp_path, WORKERS)
    run = captured(tmp_path, *command, options=("--sampled", "--quiet"))
    (size,) = size_calls(run)
    assert (size.sets, size.caller.qualname, size.line) == ("process-executor", "main", 5)
    assert {size.sets for size in run.processes[0].threads[0].written_sizes} == {"process-executor"}


#: Sends a function to another process as joblib, Dask and Ray do: by value, without its file's name.
SENT = """
import subprocess, sys
import cloudpickle
def squares(count):
    return sum(number * number for number in range(count))
if __name__ == "__main__":
    receive = "import pickle, sys; print(pickle.load(sys.stdin.buffer)(100_000))"
    subprocess.run([sys.executable, "-c", receive], input=cloudpickle.dumps(squares), check=True)
"""


def test_functions_sent_to_another_process_are_found_in_their_file(tmp_path: Path) -> None:
    program = script(tmp_path, SENT)
    _, child = captured(tmp_path, sys.executable, program, options=("--exact",)).processes
    profile = child.threads[0].profile
    found = {
        profile.strings[profile.qualname[row]]: profile.strings[profile.source_hash[row]]
        for row in range(len(profile))
        if profile.strings[profile.file[row]] == str(program)
    }
    assert set(found) == {"squares", "squares.<locals>.<genexpr>"}
    assert all(found.values())


#: Samples are in the first function only; the others are called once, or never.
UNSEEN = """
import functools
def work(turns):
    return sum(number * number for number in range(turns))
def quick():
    pass
class Kept:
    @functools.lru_cache(
        maxsize=None)
    def method(self):
        pass
quick()
work(4_000_000)
"""


@pytest.mark.parametrize("version", ["3.8", "3.11"])
def test_functions_that_samples_missed_are_listed_with_their_source(tmp_path: Path, version: str) -> None:
    """Python 3.8 knows the script's file as it is typed here."""
    python, program = interpreter(version), script(tmp_path, UNSEEN)
    thread = captured(tmp_path, python, "program.py", options=("--sampled",)).processes[0].threads[0]
    expected = SourceFile(Path(program).read_text()).hashes()
    assert set(expected) == {"work", "quick", "Kept.method"}
    there = {thread.profile.strings[at] for at in thread.profile.qualname}
    listed = {one.name: one.source_hash for one in thread.definitions}
    assert {name_digest("Kept.method"), name_digest("quick")} - {name_digest(name) for name in there} <= set(
        listed
    )
    assert name_digest("work") not in listed
    assert listed[name_digest("Kept.method")] == expected["Kept.method"]
    files = {thread.profile.strings[thread.profile.file[one.beside]] for one in thread.definitions}
    assert [Path(file).name for file in files] == ["program.py"]
    # Every call is in an exact capture.
    exact = captured(tmp_path, python, "program.py", options=("--exact",)).processes[0].threads[0]
    assert exact.definitions == ()
