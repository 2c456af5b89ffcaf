"""Take the corpus: every program under every condition, captured by this tree's profkit, a file each.

Rounds are interleaved in a random order with a fixed seed, so that a drift of the machine does not become a
condition. What exists is kept: an interrupted run goes on where it stopped. What is true of a run is measured here,
outside of profkit (`watch`).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.measuring import PROFKIT, cpu_of_children
from benchmarks.verdict import surroundings
from benchmarks.verdict.catalogue import CONDITIONS, EVERYWHERE, PROGRAMS, Condition, Program
from benchmarks.verdict.changes import CHANGES
from benchmarks.verdict.watch import Watch, busy_seconds, cpu_seconds, throttling, wait_until_idle

HERE = Path(__file__).resolve().parent
SEED = 7
#: Clean runs per run of a condition.
CLEAN_PER_ROUND = 2
#: Cores that other programs may use before a run begins, and during it; a run that had worse is taken again.
IDLE, FOREIGN, ATTEMPTS = 0.1, 0.2, 3
IDLE_PATIENCE_S = 60.0
#: Longest that one run may take.
PATIENCE_S = 120.0
#: Estimate of one clean run with everything around it, until one was measured.
USUAL_S = 2.2


@dataclass(frozen=True, slots=True)
class Cell:
    """One program under one condition, once."""

    program: str
    condition: str
    repeat: int

    def path(self, directory: Path) -> Path:
        """Of the run file."""
        return directory / self.program / self.condition / f"{self.repeat}.prof"


def cells(programs: Sequence[str], conditions: Sequence[str], repeats: int) -> list[Cell]:
    """Return what is to be run, in the order in which it is run."""
    result: list[Cell] = []
    cpus = len(os.sched_getaffinity(0))
    for turn in range(repeats):
        part = []
        for name in programs:
            wanted = [
                c
                for c in (*PROGRAMS[name].conditions, *(c for c in EVERYWHERE if c in conditions))
                if (not conditions or c in conditions) and CONDITIONS[c].cpus <= cpus
            ]
            # Clean runs of every kind are what all others are compared with: twice as many.
            clean = {"clean", *(CONDITIONS[c].baseline for c in wanted)}
            for condition in (*sorted(clean), *(c for c in wanted if c not in clean)):
                count = CLEAN_PER_ROUND if condition == "clean" else 1
                part += [Cell(name, condition, turn * count + i) for i in range(count)]
        random.Random(SEED + turn).shuffle(part)
        result += part
    return result


def take(
    directory: Path,
    environment: Path,
    wanted: Sequence[Cell],
    *,
    quiet: bool = True,
    exact: bool = False,
    work: float = 1.0,
) -> None:
    """Run what is not there yet.

    Parameters
    ----------
    directory
        Of the corpus.
    environment
        Where `setup` put the libraries.
    wanted
        From `cells`.
    quiet
        Whether to wait for a quiet machine, and to leave out what was taken on another; only for trying things out.
    exact
        Whether every call is traced: what two plain profiles are made of.
    work
        Times as much work in every run: for a machine with more CPUs.
    """
    python = environment / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"{environment}: holds no bin/python; make it with `setup {environment}`")
    directory = directory.resolve()
    left = [cell for cell in wanted if not cell.path(directory).with_suffix(".json").exists()]
    print(
        f"{len(wanted)} runs, {len(left)} to be taken, about {estimate(directory, left) / 60:.0f} minutes",
        flush=True,
    )
    begin = time.monotonic()
    for i, cell in enumerate(left, 1):
        try:
            said = _take_one(directory, python.absolute(), cell, quiet, exact, work)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            said = f"FAILED: {error}"
        spent = time.monotonic() - begin
        print(
            f"{i}/{len(left)} {spent:5.0f} s of about {spent + estimate(directory, left[i:]):5.0f}  "
            f"{cell.program}/{cell.condition}/{cell.repeat}: {said}",
            flush=True,
        )


def estimate(directory: Path, left: Sequence[Cell]) -> float:
    """Seconds that the rest will take: what the same cell took before, or its condition's factor of a clean run."""
    known: dict[tuple[str, str], list[float]] = {}
    for path in directory.glob("*/*/*.json"):
        name, condition = path.parts[-3:-1]
        known.setdefault((name, condition), []).append(json.loads(path.read_text())["command_s"])
    total = 0.0
    for cell in left:
        own, clean = known.get((cell.program, cell.condition)), known.get((cell.program, "clean"))
        factor = CONDITIONS[cell.condition].cost
        total += sum(own) / len(own) if own else (sum(clean) / len(clean) if clean else USUAL_S) * factor
    return total


def _take_one(directory: Path, python: Path, cell: Cell, quiet: bool, exact: bool, work: float) -> str:
    said = ""
    for _ in range(ATTEMPTS):
        if quiet:
            wait_until_idle(IDLE, IDLE_PATIENCE_S)
        facts = _run(directory, python, cell, exact, work)
        said = (
            f"{facts['measured']['wall_s']:.2f} s, waiting {facts['waiting']:.2f}, "
            f"others {facts['measured']['others_cores']:.2f}, foreign {facts['foreign_cores']:.2f}"
        )
        if facts["foreign_cores"] <= FOREIGN or not quiet:
            break
    if facts["foreign_cores"] > FOREIGN and quiet:
        cell.path(directory).unlink()
        return f"left out, the machine was not quiet: {said}"
    cell.path(directory).with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n")
    return said


def _stage(directory: Path, cell: Cell, program: Program, condition: Condition, port: int) -> Path:
    """Put the program, its source changed where that is the condition, where one of two checkouts would have it."""
    checkout = ("home/ada/src", "srv/jobs/7/checkout")[cell.repeat % 2]
    folder = directory / ".stage" / checkout / cell.program
    folder.mkdir(parents=True, exist_ok=True)
    source = (HERE / "programs" / f"{cell.program}.py").read_text(encoding="utf-8")
    if condition.changed:
        source = CHANGES[cell.program].apply(source)
    (folder / f"{cell.program}.py").write_text(source, encoding="utf-8")
    cpus = len(os.sched_getaffinity(0))
    settings = {
        "work": int(program.work * condition.work),
        "size": condition.size,
        "threads": 1 if condition.one == "threads" else max(1, int(cpus * (condition.threads or 1))),
        # The parent of two loader workers has work of its own.
        "workers": 1
        if condition.one == "workers"
        else cpus * condition.workers or (1 if program.store else cpus),
        "port": port,
        "serial": condition.serial,
        "thorough": condition.thorough,
    }
    if program.store and not condition.threads:
        settings["threads"] = 1
    (folder / "settings.json").write_text(json.dumps(settings))
    return folder


def _environment(python: Path, program: Program, condition: Condition) -> dict[str, str]:
    kept = ("HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "LD_LIBRARY_PATH")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment["PATH"] = f"{python.parent}:{os.environ['PATH']}"
    environment |= program.environment
    if program.ranks:
        environment["OMP_NUM_THREADS"] = environment["OPENBLAS_NUM_THREADS"] = "1"
    environment["OMPI_ALLOW_RUN_AS_ROOT"] = environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    if condition.threads and program.thread_variable:
        environment[program.thread_variable] = str(
            max(1, int(len(os.sched_getaffinity(0)) * condition.threads))
        )
    if condition.one == "threads" and program.thread_variable:
        environment[program.thread_variable] = "1"
    if condition.debug:
        environment[condition.debug] = "1"
    return environment | (dict(program.isa) if condition.isa else {})


def _command(cell: Cell, program: Program, condition: Condition, output: Path, exact: bool) -> list[str]:
    launcher = (
        ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(program.ranks)] if program.ranks else []
    )
    tied = ["taskset", "-c", str(condition.cpu)] if condition.cpu is not None else []
    seen = ["--exact"] if exact else []
    capture = [*PROFKIT, "capture", "--quiet", *seen, "-o", str(output), "--"]
    return [*tied, *capture, *launcher, "python", f"{cell.program}.py"]


def _run(directory: Path, python: Path, cell: Cell, exact: bool, work: float) -> dict[str, object]:
    """Run one cell and return what was measured of it."""
    program, usual = PROGRAMS[cell.program], CONDITIONS[cell.condition]
    condition = replace(usual, work=usual.work * work)
    output = cell.path(directory)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.unlink(missing_ok=True)
    cpus = len(os.sched_getaffinity(0))
    may_use = 1 if program.single or condition.cpu is not None else cpus
    hogs = max(1, round(condition.hogs * cpus)) if condition.hogs else 0
    with contextlib.ExitStack() as around:
        port = 0
        theirs: list[int] = []
        if program.store:
            (directory / ".stage").mkdir(parents=True, exist_ok=True)
            served = HERE / "programs" / "store.py"
            port, pid = around.enter_context(
                surroundings.store(str(python), served, directory / ".stage", condition.latency_s)
            )
            theirs.append(pid)
        folder = _stage(directory, cell, program, condition, port)
        group = around.enter_context(surroundings.quota_group(condition.quota * may_use))
        if condition.locked:
            around.enter_context(surroundings.held_lock(folder / "book.db"))
        theirs += around.enter_context(surroundings.neighbours(hogs, condition.hog_duty, condition.hog_cpu))
        return _measure(cell, program, condition, folder, python, output, group, theirs, exact)


def _measure(
    cell: Cell,
    program: Program,
    condition: Condition,
    folder: Path,
    python: Path,
    output: Path,
    group: Path | None,
    theirs: list[int],
    exact: bool,
) -> dict[str, object]:
    command = _command(cell, program, condition, output, exact)
    # The shell joins the group before profkit is started in it, as a container's processes are.
    enter = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group)] if group else []
    log = folder / "output.txt"
    more = {"PYTHONPATH": ""}
    if condition.no_bytecode:
        shutil.rmtree(folder / "bytecode", ignore_errors=True)
        more["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    before, theirs_before, begin = busy_seconds(), cpu_seconds(theirs), time.monotonic()
    ours_before = cpu_of_children()
    with log.open("wb") as said:
        process = subprocess.Popen(
            [*enter, *command],
            cwd=folder,
            env=_environment(python, program, condition) | more,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
        try:
            with (
                Watch(process.pid, f"{cell.program}.py") as watch,
                surroundings.stopping(condition.stopped, lambda: watch.target_pids),
            ):
                status = process.wait(PATIENCE_S)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    took = time.monotonic() - begin
    busy, known = busy_seconds() - before, cpu_seconds(theirs) - theirs_before
    if status or not output.exists():
        raise RuntimeError(f"exit status {status}: {log.read_text(errors='replace')[-300:]}")
    from profkit.formats.runfile import read_run

    manifest = read_run(output, edges=False).manifest
    assert manifest is not None
    run_s, wait_s = watch.total(target=True)
    # What ended between two readings is in the kernel's sum, what left the tree is only in the readings.
    ours = max(watch.total(target=False)[0], cpu_of_children() - ours_before)
    measured = {
        "wall_s": manifest.wall_s,
        "tree_run_s": run_s,
        "tree_wait_s": wait_s,
        "others_cores": max(0.0, busy - ours) / took,
        "throttled": throttling(group),
        "cpus": 1.0 if condition.cpu is not None else float(len(os.sched_getaffinity(0))),
    }
    return {
        "label": condition.label,
        "baseline": condition.baseline,
        "measured": {k: round(v, 5) for k, v in measured.items()},
        "processes": watch.by_process(),
        "waiting": round(wait_s / (run_s + wait_s) if run_s + wait_s else 0.0, 4),
        "foreign_cores": round(max(0.0, busy - ours - known) / took, 4),
        "command_s": round(took, 3),
    }


def setup(environment: Path, base: str) -> None:
    """Make the programs' environment: what a user has, profkit not in it."""
    subprocess.run([base, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    wanted = [
        line
        for line in (HERE / "requirements.txt").read_text().split("\n")
        if line and not line.startswith("#")
    ]
    if not shutil.which("mpirun"):
        wanted.remove("mpi4py")
    subprocess.run([*pip, *wanted], check=True)
