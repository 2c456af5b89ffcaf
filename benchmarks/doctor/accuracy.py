"""How right `profkit doctor` is, on the programs of the verdict benchmark.

The truth comes from outside of profkit: what was set up (more threads or workers than CPUs, fewer CPUs), and what the
observer of the benchmark counted for the program's threads. It has no threshold:

*oversubscribed* is a run that was set up with more threads, workers or ranks than it has CPUs, and whose mean number
of runnable threads is above its CPUs, or above that of every clean run of its program;

*not oversubscribed* is a run that was set up with no more than its CPUs, and whose mean number is not above them.

All other runs cannot be decided, and are counted apart: surplus threads that nothing showed, and programs that are
set up to fit and do not (a parent that polls beside as many workers as there are CPUs).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.verdict import surroundings
from benchmarks.verdict.catalogue import CONDITIONS, PROGRAMS, Condition, Program
from benchmarks.verdict.corpus import CLEAN, Sample, full_run, read_corpus
from benchmarks.verdict.take import Cell, _environment, _stage
from benchmarks.verdict.watch import Watch, wait_until_idle
from profkit.study.doctor_load import load_of

HERE = Path(__file__).resolve().parents[1] / "verdict"
#: What a program is meant to differ by in its own threads and workers, or the CPUs for them, and in nothing else.
OWN = ("clean", "threads", "workers", "pinned", "quota")
#: A program of the live part has so much more to do, that it outlives the time for which it is watched.
WORK = 2.0
PATIENCE_S = 180.0


@dataclass(frozen=True, slots=True)
class Case:
    """One answer, and what was true.

    Attributes
    ----------
    over, truly_over
        Whether it is oversubscribed: as doctor says, and in truth (``None``: cannot be decided).
    predicted, used
        CPUs.
    """

    name: str
    over: bool
    truly_over: bool | None
    predicted: float
    used: float


def surplus(program: Program, condition: Condition, cpus: float, machine: int) -> bool:
    """Whether a condition sets a program up with more threads, workers or ranks than it has CPUs.

    A program of several threads or workers has as many as the machine has CPUs.
    """
    if condition.threads or condition.workers or program.ranks > cpus:
        return True
    own = 1 if program.single or program.store else machine
    return own > max(1.0, cpus)


def truth(is_surplus: bool, demand: float, cpus: float, clean: Sequence[float]) -> bool | None:
    """Return whether a run was oversubscribed; see above."""
    if is_surplus:
        return True if demand > cpus or (len(clean) > 1 and demand > max(clean)) else None
    return False if demand <= max(1.0, cpus) else None


def of_corpus(directory: Path) -> list[Case]:
    """Take every captured run of a corpus for what doctor would have seen."""
    samples = [sample for sample in read_corpus(directory) if not sample.plain]
    clean: dict[str, list[float]] = {}
    for sample in samples:
        if sample.condition == CLEAN:
            clean.setdefault(sample.workload, []).append(sample.measured.demand_cores)
    cases = []
    for sample in samples:
        load = load_of(full_run(sample))
        cpus = _cpus(sample)
        is_surplus = surplus(PROGRAMS[sample.workload], sample.setup, cpus, 2)
        decided = truth(is_surplus, sample.measured.demand_cores, cpus, clean[sample.workload])
        name = f"{sample.workload}/{sample.condition}/{sample.repeat}"
        used = sample.measured.tree_run_s / sample.measured.wall_s
        cases.append(Case(name, load.oversubscribed, decided, load.predicted_cores, used))
    return cases


def _cpus(sample: Sample) -> float:
    if not sample.setup.quota:
        return sample.measured.cpus
    may_use = 1 if PROGRAMS[sample.workload].single else sample.measured.cpus
    return sample.setup.quota * may_use


def live(
    environment: Path, seconds: float, programs: Sequence[str] = (), *, patience_s: float = 60.0
) -> list[Case]:
    """Ask the real command about every program, then run the program without profkit and count what it does.

    Parameters
    ----------
    environment
        Where the libraries of the programs are.
    seconds
        For which doctor watches a program.
    programs
        All, if empty.
    patience_s
        For which a quiet machine is waited for, before each run.
    """
    python = (environment / "bin" / "python").absolute()
    cases: list[Case] = []
    clean: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="profkit-doctor-") as folder:
        for name in programs or PROGRAMS:
            for condition in (CLEAN, *(c for c in ("threads", "workers") if c in PROGRAMS[name].conditions)):
                try:
                    case = _live_case(Path(folder), python, name, condition, seconds, clean, patience_s)
                except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                    print(f"{name}/{condition}: FAILED: {error}", flush=True)
                    continue
                cases.append(case)
                print(case, flush=True)
    return cases


def _live_case(
    folder: Path,
    python: Path,
    name: str,
    condition: str,
    seconds: float,
    clean: dict[str, list[float]],
    patience_s: float,
) -> Case:
    program, setup = PROGRAMS[name], CONDITIONS[condition]
    cpus = len(os.sched_getaffinity(0))
    with ExitStack() as around:
        port = 0
        if program.store:
            script = HERE / "programs" / "store.py"
            port, _ = around.enter_context(surroundings.store(str(python), script, folder, setup.latency_s))
        stage = _stage(folder, Cell(name, condition, 0), program, setup, port)
        settings = json.loads((stage / "settings.json").read_text())
        (stage / "settings.json").write_text(json.dumps(settings | {"work": int(settings["work"] * WORK)}))
        ranks = (
            ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(program.ranks)]
            if program.ranks
            else []
        )
        command = [*ranks, "python", f"{name}.py"]
        variables = _environment(python, program, setup) | {"PYTHONPATH": ""}
        wait_until_idle(0.1, patience_s)
        doctor = [sys.executable, "-m", "profkit", "doctor", "--format", "json", "--seconds", str(seconds)]
        said = subprocess.run(
            [*doctor, "--", *command],
            cwd=stage,
            env=variables,
            stdout=subprocess.PIPE,
            check=True,
            timeout=PATIENCE_S,
        )
        answer = json.loads(said.stdout)
        wait_until_idle(0.1, patience_s)
        used, demand = _watched(command, stage, variables, f"{name}.py")
    if condition == CLEAN:
        clean.setdefault(name, []).append(demand)
    decided = truth(surplus(program, setup, cpus, cpus), demand, cpus, clean.get(name, ()))
    return Case(
        f"{name}/{condition}", answer["oversubscribed"], decided, answer["trial"]["predicted_cores"], used
    )


def _watched(
    command: Sequence[str], stage: Path, variables: dict[str, str], script: str
) -> tuple[float, float]:
    """Run a program without profkit; return the CPUs that it used, and its runnable threads, both on average."""
    begin = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=stage,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with Watch(process.pid, script) as watch:
            status = process.wait(PATIENCE_S)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    wall = time.monotonic() - begin
    if status:
        raise RuntimeError(f"{script}: exit status {status}")
    run, wait = watch.total(target=True)
    return run / wall, (run + wait) / wall


def table(cases: Sequence[Case]) -> str:
    """Return the figures of some cases."""
    yes = [case for case in cases if case.truly_over]
    no = [case for case in cases if case.truly_over is False]
    errors = [abs(case.predicted - case.used) for case in cases]
    unknown = [case for case in cases if case.truly_over is None]
    within = sum(error <= 1 for error in errors)
    middle, most = median(errors), max(errors)
    lines = [
        f"oversubscribed: said in {sum(c.over for c in yes)} of {len(yes)}",
        f"not oversubscribed: said to be in {sum(c.over for c in no)} of {len(no)}",
        f"not decided: {len(unknown)}, of which said {sum(c.over for c in unknown)}",
        f"CPUs used: within 1 in {within} of {len(errors)}, median error {middle:.2f}, greatest {most:.2f}",
    ]
    lines += [f"  missed: {c.name}" for c in yes if not c.over]
    lines += [f"  false: {c.name}" for c in no if c.over]
    lines += [
        f"  CPUs: {c.name}: {c.predicted:.2f} for {c.used:.2f}"
        for c in cases
        if abs(c.predicted - c.used) > 1
    ]
    return "\n".join(lines)
