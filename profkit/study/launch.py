"""Launch lines for a batch script: ranks, threads and workers that fit the CPUs together, for each launcher.

`fitting` divides the CPUs, `of_setting` takes what a study found; each launcher is a function of the result. Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from profkit.capture.cpu_limits import Limits

#: What starts ranks, by the program and by what `profkit.capture.cpu_limits` calls a job's launcher.
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
#: Where the program begins behind a launcher.
_BEGINS = re.compile(r"(?:^|/)(?:python[\d.]*|bash|sh)$|\.(?:py|sh)$")
_PYTHON = re.compile(r"(?:^|/)python[\d.]*$")
#: What a parameter of a study counts, by its name, if no threads; the rest are workers.
_RANKS = re.compile(r"rank|nproc|ntasks")
_PLACEHOLDER = ("python", "train.py")


@dataclass(frozen=True, slots=True)
class Launch:
    """Ranks of one machine that fit its CPUs: ``ranks × (threads + workers) ≤ ranks × cpus_each ≤ CPUs``.

    `workers` are processes of each rank (``None``: not known), each of which may have `threads`, too, while the
    rank waits for them. `cores_each` are physical cores, 0 where there are fewer than ranks. `launcher` starts
    it, empty for none; `variables` size pools.
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
    """Divide `cpus` so that all fits: no more ranks, workers and threads than wanted, and at least one thread."""
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
        _program(command) or _PLACEHOLDER,
    )


def of_setting(limits: Limits, counts: Mapping[str, int], command: Sequence[str]) -> Launch | None:
    """Return how to start what a study found best, by its numbers of ranks, workers and threads.

    ``None`` where no launcher is known, or they do not fit the CPUs as they are.
    """
    launcher = launcher_of(limits, command)
    threads = {name: number for name, number in counts.items() if "thread" in name.lower()}
    ranks = {name: number for name, number in counts.items() if _RANKS.search(name.lower())}
    workers = [number for name, number in counts.items() if name not in {*threads, *ranks}]
    if not launcher or len(ranks) != 1 or len(workers) > 1 or len(set(threads.values())) != 1:
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
    """Return which launcher the user has: that of the command, of the job, or the batch system; empty for none."""
    named = _PROGRAMS.get(command[0].rpartition("/")[2], "") if command else ""
    job = "" if limits.ranks is None else limits.ranks.launcher
    known = named or _PROGRAMS.get(job) or ("torchrun" if job == "torchrun" else "")
    return known or ("slurm" if limits.slurm is not None else "")


def _program(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command without its launcher and the launcher's options."""
    words = tuple(command)
    if not words or words[0].rpartition("/")[2] not in _PROGRAMS:
        return words
    return words[next((at for at, word in enumerate(words) if _BEGINS.search(word)), len(words)) :]


def lines(launch: Launch) -> tuple[str, ...]:
    """Return the lines of a script for one launcher; all but those of #SBATCH can be run as they are."""
    return (*(_LINES[launch.launcher](launch)), *_workers(launch))


def _exports(launch: Launch) -> str:
    return "export " + " ".join(f"{name}={launch.threads}" for name in launch.variables)


def _workers(launch: Launch) -> tuple[str, ...]:
    many = launch.workers
    if many is None:
        return ()
    pool = f"Pool({many})" if many else "no Pool"
    return (f"# workers of each rank: DataLoader(num_workers={many}), {pool}",)


def _plain(launch: Launch) -> tuple[str, ...]:
    return (_exports(launch),)


def _slurm(launch: Launch) -> tuple[str, ...]:
    # From Slurm 22.05 on srun does not take --cpus-per-task over from sbatch (srun(1)).
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
    # Options of the interpreter itself are not torchrun's, but for -m.
    if not _PYTHON.search(python) or (script and script[0].startswith("-") and script[0] != "-m"):
        script = ["--no-python", *launch.command]
    return (_exports(launch), f"torchrun --nproc-per-node={launch.ranks} {shlex.join(script)}")


_LINES: Mapping[str, Callable[[Launch], tuple[str, ...]]] = {
    "": _plain,
    "slurm": _slurm,
    "mpirun": _mpirun,
    "torchrun": _torchrun,
}
#: Launchers that lines can be asked for.
LAUNCHERS = ("slurm", "mpirun", "torchrun")
