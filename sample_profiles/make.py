"""Make the sample profiles: real programs, captured by profkit under known conditions on this machine.

    python sample_profiles/make.py                          those that are kept in the repository, a minute
    python sample_profiles/make.py --all                    every workload under every condition
    python sample_profiles/make.py --only kmeans            one workload
    python sample_profiles/make.py --only kmeans/clean-1    one sample

It needs Linux, profkit's own dependencies and, for ``mpi_train``, ``mpirun`` and mpi4py. What is made lies in
``sample_profiles/WORKLOAD/CONDITION.prof``; the table in README.md is written anew from the files that are
there. Nothing is simulated: threads, processes and busy neighbours are started, and stopped again.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from rich.console import Console  # noqa: E402
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: E402

from profkit.formats.runfile import read_run  # noqa: E402
from profkit.model import Run  # noqa: E402
from sample_profiles.changes import CHANGES  # noqa: E402

#: Sets the pools of whichever BLAS NumPy was built with.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

#: Busy neighbours per CPU under external load: a single thread then gets about a third of its CPU.
NEIGHBOURS_PER_CPU = 2

#: What a busy neighbour does, on a CPU and on a GPU, until its parent ends.
ON_CPU = "import os\nwhile os.getppid() == {parent}:\n    sum(range(100_000))"
ON_GPU = """\
import os, torch
matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
while os.getppid() == {parent}:
    for _ in range(20):
        matrix @ matrix
    torch.cuda.synchronize()
"""

#: CPUs that other programs of the machine may use while a sample is made that says that nothing else runs: a
#: diff would, rightly, call more than that external load. Tried again so many times.
MOST_FOREIGN_CPUS, ATTEMPTS = 0.15, 6

#: Longest that one sample may take, seconds.
PATIENCE_S = 180

MARKS = ("<!-- table: written by make.py -->", "<!-- end of table -->")

CONDITIONS = {
    "clean-1": "threads and workers fit the CPUs; nothing else runs",
    "clean-2": "the same again",
    "oversubscribed": "the same work with four times as many threads and workers as CPUs",
    "external-load": f"the clean configuration beside {NEIGHBOURS_PER_CPU} busy processes per CPU, or one on the GPU",
    "code-change": "the clean configuration with one function changed (changes.py)",
    "doubled-work": "the clean configuration with twice the epochs, documents, iterations, steps or batch size",
}


@dataclass(frozen=True)
class Workload:
    """One program and how it is run.

    Attributes
    ----------
    name
        Of its directory and of the script as the run sees it.
    source
        The program.
    clean, oversubscribed
        Its options where it fits the CPUs, and where it is far above them.
    amount
        The option, and its clean value, that sets how much work is done.
    ranks
        Started by ``mpirun`` with so many ranks; 0: started directly.
    gpu
        Whether it needs PyTorch and a GPU.
    neighbour
        What a neighbour does under external load; one that uses the GPU is one alone.
    window
        Options of ``profkit capture`` that say which part of it is captured.
    conditions
        Names out of `CONDITIONS` that make sense for it.
    kept
        Those of them that the repository keeps: a file holds every function that ran, and importing NumPy
        alone runs a thousand, so each is 150 to 400 kB.
    """

    name: str
    source: Path
    clean: tuple[str, ...]
    oversubscribed: tuple[str, ...]
    amount: tuple[str, int]
    ranks: int = 0
    gpu: bool = False
    neighbour: str = ON_CPU
    window: tuple[str, ...] = ()
    conditions: tuple[str, ...] = tuple(CONDITIONS)
    kept: tuple[str, ...] = ()

    @property
    def needs(self) -> str:
        """What is missing to run it, empty where nothing is."""
        if self.ranks and not shutil.which("mpirun"):
            return "mpirun is not installed"
        if self.gpu and not os.path.exists("/dev/nvidiactl"):
            return "there is no GPU"
        return ""


def workloads(cpus: int) -> list[Workload]:
    """Return the programs, configured for so many CPUs."""
    programs = HERE / "workloads"
    many = str(4 * cpus)
    helpers = str(max(1, cpus - 1))  # one CPU stays with the main thread
    return [
        Workload(
            "train_mlp",
            ROOT / "profkit" / "demo" / "train.py",
            clean=("--workers", helpers),
            oversubscribed=("--workers", many),
            amount=("--epochs", 4),
            kept=("clean-1", "clean-2", "oversubscribed", "code-change"),
        ),
        Workload(
            "tokenize_corpus",
            programs / "tokenize_corpus.py",
            clean=(),
            oversubscribed=(),
            amount=("--documents", 1500),
            # One thread cannot be oversubscribed by its own doing.
            conditions=tuple(c for c in CONDITIONS if c != "oversubscribed"),
            kept=("clean-1", "external-load", "code-change", "doubled-work"),
        ),
        Workload(
            "kmeans",
            programs / "kmeans.py",
            clean=("--threads", helpers),
            oversubscribed=("--threads", many),
            amount=("--iterations", 90),
        ),
        Workload(
            "loader_train",
            programs / "loader_train.py",
            clean=("--threads", helpers),
            oversubscribed=("--threads", many),
            amount=("--epochs", 8),
        ),
        Workload(
            "mpi_train",
            programs / "mpi_train.py",
            clean=(),
            oversubscribed=(),
            amount=("--steps", 200),
            ranks=2,
            conditions=tuple(c for c in CONDITIONS if c != "code-change"),
            kept=("clean-1", "oversubscribed"),
        ),
        Workload(
            "gpu_train",
            programs / "gpu_train.py",
            clean=("--workers", "4"),
            oversubscribed=("--workers", "4"),
            amount=("--epochs", 4),
            gpu=True,
            window=("--capture-range", "training"),
            conditions=tuple(c for c in CONDITIONS if c != "code-change"),
            kept=("clean-1", "oversubscribed"),
        ),
        Workload(
            "gpu_lm",
            programs / "gpu_lm.py",
            clean=(),
            oversubscribed=(),
            amount=("--batch-size", 16),
            gpu=True,
            neighbour=ON_GPU,
            window=("--capture-range", "training"),
            conditions=tuple(c for c in CONDITIONS if c != "oversubscribed"),
            kept=("clean-1", "external-load", "code-change", "doubled-work"),
        ),
    ]


def options_of(workload: Workload, condition: str) -> list[str]:
    """Return the program's options under a condition."""
    name, value = workload.amount
    options = workload.oversubscribed if condition == "oversubscribed" else workload.clean
    return [*options, name, str(2 * value if condition == "doubled-work" else value)]


def threads_of(condition: str, cpus: int) -> int:
    """Return how many BLAS threads each process is told to use."""
    return 4 * cpus if condition == "oversubscribed" else 1


def command_of(workload: Workload, condition: str) -> list[str]:
    """Return what is captured, with the program beside the working directory."""
    launcher = []
    if workload.ranks:
        # Without --bind-to, mpirun ties each of two ranks to one core, and its threads with it.
        launcher = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(workload.ranks)]
    return [*launcher, "python", f"{workload.name}.py", *options_of(workload, condition)]


def stage(workload: Workload, condition: str, folder: Path) -> None:
    """Put the program, changed where the condition asks for it, into a project of its own."""
    source = workload.source.read_text(encoding="utf-8")
    if condition == "code-change":
        source = CHANGES[workload.name].apply(source)
    (folder / f"{workload.name}.py").write_text(source, encoding="utf-8")


@contextlib.contextmanager
def busy_neighbours(count: int, program: str) -> Iterator[None]:
    """Keep so many processes busy; they end with the block, and by themselves when this process dies."""
    spin = program.format(parent=os.getpid())
    neighbours: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            # Each in a session of its own, as other users' jobs are: the scheduler may share CPUs out between
            # sessions first (sched(7), autogroup), and all neighbours together would get one share.
            neighbours.append(
                subprocess.Popen(
                    [sys.executable, "-c", spin], stdin=subprocess.DEVNULL, start_new_session=True
                )
            )
        yield
    finally:
        for neighbour in neighbours:
            neighbour.kill()
        for neighbour in neighbours:
            neighbour.wait()


def foreign_cpus(run: Run) -> float:
    """Return how many CPUs were busy with something else than the run, on average over it."""
    if run.machine is None or not run.machine.wall_s or run.machine.busy_s is None:
        return 0.0
    own = sum(process.cpu_s or 0.0 for process in run.processes)
    return (run.machine.busy_s - own) / run.machine.wall_s


def run_whole_job(command: Sequence[str], folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run a command; return its status and what it wrote to stderr. What it started ends with it."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, errors = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"took longer than {PATIENCE_S} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode, errors


def capture(workload: Workload, condition: str, output: Path, cpus: int) -> None:
    """Make one sample.

    Raises
    ------
    RuntimeError
        The program fails or takes too long; the message says why.
    """
    environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads_of(condition, cpus)))}
    # A sample's command reads as a user's would: `python` is the interpreter that runs this script.
    environment["PATH"] = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    )
    # Where profkit is not installed, the tree that this file lies in is used.
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH")]))
    if os.geteuid() == 0:
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    neighbours = 0
    if condition == "external-load":
        neighbours = NEIGHBOURS_PER_CPU * cpus if workload.neighbour == ON_CPU else 1
    with (
        tempfile.TemporaryDirectory(prefix="samples-") as scratch,
        busy_neighbours(neighbours, workload.neighbour),
    ):
        project = Path(scratch) / "project"
        project.mkdir()
        stage(workload, condition, project)
        made = Path(scratch) / output.name
        profkit = [sys.executable, "-m", "profkit", "capture", *workload.window, "-o", str(made), "--"]
        for _ in range(ATTEMPTS):
            status, errors = run_whole_job([*profkit, *command_of(workload, condition)], project, environment)
            if status:
                last = (errors.strip().splitlines() or ["no message"])[-1]
                raise RuntimeError(f"status {status}: {last}")
            foreign = foreign_cpus(read_run(made))
            if neighbours or foreign <= MOST_FOREIGN_CPUS:
                break
            time.sleep(5.0)
        else:
            raise RuntimeError(f"other programs used {foreign:.2f} CPUs meanwhile; make the machine quiet")
        output.parent.mkdir(exist_ok=True)
        shutil.move(made, output)


# --- the table in the README ------------------------------------------------------------------------------


def wait_share(run: Run) -> float | None:
    """Return ``w``: the main thread's run-queue wait over its run time and wait; a job's worst rank's."""
    shares = []
    for process in run.processes:
        if process.role not in ("main", "rank") or not process.threads:
            continue
        thread = process.threads[0]
        if thread.run_s is not None and thread.run_queue_wait_s is not None:
            total = thread.run_s + thread.run_queue_wait_s
            shares.append(thread.run_queue_wait_s / total if total else 0.0)
    return max(shares, default=None)


def row_of(path: Path) -> str:
    """Return the table row of one sample."""
    run = read_run(path)
    wall, cpus = "", ""
    if run.manifest is not None:
        wall = f"{run.manifest.wall_s:.2f}"
        cpus = f"{run.manifest.host.available_cpus:g}" if run.manifest.host.available_cpus else ""
    w = wait_share(run)
    share = "" if w is None else f"{w:.2f}"
    size = f"{path.stat().st_size / 1000:.0f}"
    return f"| {path.parent.name} | {path.stem} | {len(run.processes)} | {cpus} | {wall} | {share} | {size} |"


def write_table(samples: Sequence[Path]) -> None:
    """Replace what stands between the marks in README.md."""
    head = [
        "| workload | condition | processes | CPUs | wall, s | w | size, kB |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    readme = HERE / "README.md"
    before, begin, rest = readme.read_text(encoding="utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        raise SystemExit(f"{readme}: the marks of the table are gone; put {MARKS[0]} and {MARKS[1]} back")
    lines = [begin, *head, *[row_of(path) for path in samples], end]
    readme.write_text(before + "\n".join(lines) + after, encoding="utf-8")


def existing(order: Sequence[tuple[Workload, str]]) -> list[Path]:
    """Return the samples that are there, in the order of the plan."""
    paths = [HERE / workload.name / f"{condition}.prof" for workload, condition in order]
    return [path for path in paths if path.exists()]


def main() -> int:
    """Make what was asked for; return 1 where a sample could not be made."""
    parser = argparse.ArgumentParser(description="Make the sample profiles.")
    parser.add_argument(
        "--only", action="append", metavar="WORKLOAD[/CONDITION]", help="make only these; may be repeated"
    )
    parser.add_argument(
        "--all", action="store_true", help="make those that are not kept in the repository too"
    )
    parser.add_argument("--table", action="store_true", help="only write the table of README.md anew")
    options = parser.parse_args()

    cpus = len(os.sched_getaffinity(0))
    plan = [(workload, condition) for workload in workloads(cpus) for condition in workload.conditions]
    wanted = options.only or []
    names = {name for workload, condition in plan for name in (workload.name, f"{workload.name}/{condition}")}
    if unknown := sorted(set(wanted) - names):
        parser.error(f"no such sample: {', '.join(unknown)}; there are {', '.join(sorted(names))}")
    todo = [
        (workload, condition)
        for workload, condition in plan
        if (not wanted and (options.all or condition in workload.kept))
        or {workload.name, f"{workload.name}/{condition}"} & set(wanted)
    ]

    console = Console(stderr=True)
    failures = 0
    columns = (TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=len(todo))
        for workload, condition in [] if options.table else todo:
            name = f"{workload.name}/{condition}"
            progress.update(task, description=name)
            try:
                if workload.needs:
                    raise RuntimeError(workload.needs)
                capture(workload, condition, HERE / workload.name / f"{condition}.prof", cpus)
                console.print(f"made {name}: {CONDITIONS[condition]}", soft_wrap=True)
            except RuntimeError as error:
                failures += 1
                console.print(f"[red]not made[/] {name}: {error}", soft_wrap=True, markup=True)
            progress.advance(task)
    write_table(existing(plan))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
