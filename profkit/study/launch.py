"""Launch lines for a batch script: ranks, threads and workers that fit the CPUs together, per launcher."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from profkit.capture.cpu_limits import Limits
from profkit.verdict.advice.size_limits import program_at

#: Launchers of ranks, by program name and by the names of `profkit.capture.cpu_limits`.
_PROGRAMS = {
    "srun": "slurm",
    "sbatch": "slurm",
    "torchrun": "torchrun",
    "mpirun": "mpirun",
    "mpiexec": "mpirun",
    "orterun": "mpirun",
    "prterun": "mpirun",
    "Slurm": "slurm",
    "Open MPI": "mpirun",
}
_PYTHON = re.compile(r"(?:^|/)python[\d.]*$")
#: Names of study parameters that count ranks; those not of threads or ranks count workers.
_RANKS = re.compile(r"rank|nproc|ntasks")
_PLACEHOLDER = ("python", "train.py")


@dataclass(frozen=True, slots=True)
class Launch:
    """Ranks of one machine that fit its CPUs: ``ranks × (threads + workers) ≤ ranks × cpus_each ≤ CPUs``.

    `workers`: per rank, ``None`` if unknown; each may use `threads` while its rank waits. `cores_each`:
    physical cores, 0 with fewer than ranks. `variables` size pools.
    """

    launcher: str
    ranks: int
    threads: int
    workers: int | None
    cpus_each: int
    cores_each: int
    variables: tuple[str, ...]
    command: tuple[str, ...]


def fitting(
    limits: Limits,
    cpus: float,
    *,
    ranks: int,
    workers: int,
    threads: int | None = None,
    launcher: str = "",
    variables: Sequence[str] = (),
    command: Sequence[str] = (),
) -> Launch:
    """Divide `cpus` among at most the wanted ranks, workers and threads; each rank has a thread or more."""
    whole = max(1, int(cpus + 1e-6))
    ranks = min(ranks, whole)
    each = whole // ranks
    helping = min(workers, each - 1)
    most = max(1, min(each - helping, each // max(1, helping)))
    cores = limits.affinity_cores or limits.cores or limits.allowed
    return Launch(
        launcher,
        ranks,
        most if threads is None else min(threads, most),
        helping if workers else None,
        each,
        0 if cores < ranks else max(1, min(cores // ranks, each * cores // max(1, limits.allowed))),
        tuple(dict.fromkeys(("OMP_NUM_THREADS", *variables))),
        program_of(command) if command else _PLACEHOLDER,
    )


def of_setting(limits: Limits, counts: Mapping[str, int], command: Sequence[str]) -> Launch | None:
    """Return how to start a study's best setting; ``None`` if no launcher is known, or it does not fit."""
    launcher = launcher_of(limits, command)
    threads = {name: number for name, number in counts.items() if "thread" in name.lower()}
    ranks = {name: number for name, number in counts.items() if _RANKS.search(name.lower())}
    workers = [number for name, number in counts.items() if name not in {*threads, *ranks}]
    if not launcher or len(ranks) != 1 or len(workers) > 1 or len(set(threads.values())) != 1:
        return None
    if not program_of(command):
        return None
    wanted = (*ranks.values(), sum(workers), max(threads.values()))
    launch = fitting(
        limits,
        limits.effective,
        ranks=wanted[0],
        workers=wanted[1],
        threads=wanted[2],
        launcher=launcher,
        variables=[name for name in threads if name.isupper()],
        command=command,
    )
    return launch if (launch.ranks, launch.workers or 0, launch.threads) == wanted else None


def launcher_of(limits: Limits, command: Sequence[str]) -> str:
    """Return the launcher of the command, of the job, or the batch system; empty if unknown."""
    named = _PROGRAMS.get(command[0].rpartition("/")[2], "") if command else ""
    job = "" if limits.ranks is None else _PROGRAMS.get(limits.ranks.launcher, "")
    return named or job or ("slurm" if limits.slurm is not None else "")


def program_of(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command as it runs without its launcher; empty if its program is not seen."""
    words = tuple(command)
    name = words[0].rpartition("/")[2] if words else ""
    if name not in _PROGRAMS:
        return words
    at = program_at(words)
    options, program = words[1:at], words[at:]
    if name != "torchrun" or not program or {"--no-python", "--no_python"}.intersection(options):
        return program
    # torchrun starts the interpreter itself.
    module = ("-m",) if {"-m", "--module"}.intersection(options) else ()
    return ("python", *module, *program)


def lines(launch: Launch) -> tuple[str, ...]:
    """Return the lines of a script; all but those of #SBATCH also run in a shell."""
    started = _LINES[launch.launcher](launch)
    if launch.workers is None:
        return started
    pool = f"Pool({launch.workers})" if launch.workers else "no Pool"
    return (*started, f"# workers of each rank: DataLoader(num_workers={launch.workers}), {pool}")


def _exports(launch: Launch) -> str:
    return "export " + " ".join(f"{name}={launch.threads}" for name in launch.variables)


def _slurm(launch: Launch) -> tuple[str, ...]:
    # Since Slurm 22.05, srun does not inherit --cpus-per-task from sbatch (srun(1)).
    return (
        f"#SBATCH --ntasks-per-node={launch.ranks}",
        f"#SBATCH --cpus-per-task={launch.cpus_each}",
        _exports(launch),
        f"srun --cpus-per-task={launch.cpus_each} --cpu-bind=cores {shlex.join(launch.command)}",
    )


def _mpirun(launch: Launch) -> tuple[str, ...]:
    passed = " ".join(f"-x {name}" for name in launch.variables)
    # Open MPI counts cores, and refuses to bind two ranks to one.
    bound = f"--map-by slot:PE={launch.cores_each} --bind-to core" if launch.cores_each else "--bind-to none"
    return (_exports(launch), f"mpirun -n {launch.ranks} {bound} {passed} {shlex.join(launch.command)}")


def _torchrun(launch: Launch) -> tuple[str, ...]:
    python, *script = launch.command
    # torchrun accepts no interpreter options except -m.
    if not _PYTHON.search(python) or (script and script[0].startswith("-") and script[0] != "-m"):
        script = ["--no-python", *launch.command]
    return (_exports(launch), f"torchrun --nproc-per-node={launch.ranks} {shlex.join(script)}")


_LINES: Mapping[str, Callable[[Launch], tuple[str, ...]]] = {
    "": lambda launch: (_exports(launch),),
    "slurm": _slurm,
    "mpirun": _mpirun,
    "torchrun": _torchrun,
}
LAUNCHERS = ("slurm", "mpirun", "torchrun")
