"""`Inventory` → advice that makes a run fit its CPUs, naming only what is really in it.

Variables of libraries that are loaded and follow a variable; lines of code where the program set the size itself;
options of the command where its workers or ranks can be recognised. Runs nothing, and returns nothing where
nothing has to be cut.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from profkit.measure.inventory import HostNeed, Inventory
from profkit.model import Pool
from profkit.model.pools import NOT_BUSY, POOL_VARIABLES
from profkit.verdict.types import Advice, Value

__all__ = ["limit_advice"]

#: The variable to set where none is set: the narrowest that does it for the whole library.
_PREFERRED: Mapping[str, str] = {"torch": "OMP_NUM_THREADS"}

#: How a program sets a size itself; OpenMP and BLAS have no call of their own in Python.
_CODE: Mapping[str, str] = {
    "torch": "torch.set_num_threads({n})",
    "opencv": "cv2.setNumThreads({n})",
    "numexpr": "numexpr.set_num_threads({n})",
    "numba": "numba.set_num_threads({n})",
    "tensorflow": "tf.config.threading.set_intra_op_parallelism_threads({n})",
}
_OTHER_CODE = "threadpoolctl.threadpool_limits({n})"

#: Options that say how many workers or jobs a program starts, in their usual spellings.
#: ``--trainer.num_workers=4`` and Hydra's ``trainer.num_workers=4`` among them.
_WORKER_OPTION = re.compile(
    r"(?:-j|(?:--|(?=[\w-]+\.))(?:[\w-]+\.)*(?:(?:n[_-]?)?jobs|(?:num[_-]|n[_-]|data(?:loader)?[_-])*workers"
    r"|workers[_-]per[_-]\w+|(?:num[_-]|n[_-])?(?:procs|processes)))"
)
#: Options of launchers that say how many ranks there are.
_RANK_OPTION = re.compile(r"-{1,2}(?:n|np|c|ntasks|nproc[_-]per[_-]node)")
_LAUNCHERS = frozenset(
    ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "srun", "torchrun", "horovodrun")
)


#: Cores that a process asked for over its life from which workers cannot have its CPU: half of one.
_BUSY_CORES = 0.5


class _Share(NamedTuple):
    """What one process may take on its machine; `busy` is how many compute there beside the workers."""

    threads: int
    processes: int
    host: HostNeed
    busy: int


def limit_advice(
    inventory: Inventory, command: Sequence[str], environment: Mapping[str, str] | None = None
) -> tuple[Advice, ...]:
    """Return what makes all processes together ask for no more than the available CPUs.

    Parameters
    ----------
    inventory
        Of the run that asked for too much.
    command
        What was captured.
    environment
        Variables that the command was started with; the inventory's own unless given.

    Returns
    -------
    tuple of Advice
        The command first, then lines of code to edit, then how many processes to start. Empty where the pools are
        not known or already fit.
    """
    variables = inventory.environment if environment is None else environment
    share = _share(inventory)
    if share is None or not inventory.oversubscribed:
        return ()
    too_large = _too_large(inventory, share.threads)
    settings: dict[str, int] = {}
    code: dict[str, None] = {}
    for pool in too_large:
        name = _variable(pool, variables)
        if pool.origin != "program" and name:
            settings[name] = share.threads
        elif pool.library in _CODE:
            n = (
                0 if pool.library == "opencv" and share.threads == 1 else share.threads
            )  # 0: no threads at all
            code[_CODE[pool.library].format(n=n)] = None
        elif pool.origin == "program":
            code[_OTHER_CODE.format(n=share.threads)] = None
    words = _fewer_processes(_bound(list(command), share, variables), share)
    # What no variable sizes takes one thread for each CPU that it may use, and counts no quota.
    unnamed = any(pool.origin == "default" and not _variable(pool, variables) for pool in too_large)
    over_quota = bool(
        inventory.quota_cpus and inventory.affinity and inventory.quota_cpus < inventory.affinity
    )
    tied = _taskset(share.host) if unnamed or over_quota else ()
    advice = []
    if settings or tied or words != list(command):
        env = {name: str(n) for name, n in sorted(settings.items())}
        advice.append(Advice("limit-threads", (*tied, *_with_settings(words, settings)), env, cures="queue"))
    advice += [Advice("edit-code", subject=line, cures="queue") for line in code]
    if share.host.at_once > share.processes and words == list(command):
        advice.append(_start_fewer(share))
    return tuple(advice)


def _share(inventory: Inventory) -> _Share | None:
    """Divide the CPUs of the worst machine between the processes that work on it at the same time."""
    hosts = [host for host in inventory.hosts if host.oversubscription is not None]
    if not hosts:
        return None
    host = max(hosts, key=lambda h: h.oversubscription or 0.0)
    # A quota of 1.5 CPUs holds one busy thread.
    cpus = max(1, math.floor(host.available_cpus or 1))
    threads = max(1, cpus // max(1, round(host.at_once)))
    bound = [p.available_cpus for p in inventory.processes if p.available_cpus and not p.idle]
    if bound:  # each rank on CPUs of its own
        threads = max(1, min(threads, math.floor(min(bound))))
    busy = sum(
        p.host == host.name and p.role != "worker" and not p.idle and (p.demand_cores or 1.0) >= _BUSY_CORES
        for p in inventory.processes
    )
    return _Share(threads, cpus, host, busy)


def _too_large(inventory: Inventory, threads: int) -> list[Pool]:
    pools: dict[tuple[str, str, str], Pool] = {}
    for process in inventory.processes:
        for pool in () if process.idle else process.pools or ():
            if (pool.threads or 0) > threads and pool.library not in NOT_BUSY:
                pools.setdefault((pool.library, pool.origin, pool.variable), pool)
    return list(pools.values())


def _variable(pool: Pool, environment: Mapping[str, str]) -> str:
    """The variable that sizes this pool: the one that holds already, else the library's own."""
    names = POOL_VARIABLES.get(pool.library, ())
    held = pool.variable.partition("=")[0]
    if held in names:
        return held
    present = next((name for name in names if environment.get(name)), "")
    return present or _PREFERRED.get(pool.library, names[0] if names else "")


def _taskset(host: HostNeed) -> tuple[str, ...]:
    last = max(1, math.floor(host.available_cpus or 1)) - 1
    return ("taskset", "-c", f"0-{last}" if last else "0")


# The command's own words


def _with_settings(command: list[str], settings: Mapping[str, int]) -> list[str]:
    """Replace the values that the command sets itself (``env NAME=8``, ``mpirun -x NAME=8``): they would win."""
    names = (word.partition("=")[0] for word in command)
    return [
        f"{name}={settings[name]}" if name in settings and word != name else word
        for name, word in zip(names, command, strict=True)
    ]


def _bound(command: list[str], share: _Share, environment: Mapping[str, str]) -> list[str]:
    """Have the launcher of several ranks give each of them cores of its own."""
    name = command[0].rpartition("/")[2] if command else ""
    if share.host.ranks < 2 or name not in _LAUNCHERS or any(_binds(word) for word in command):
        return command
    each = share.threads
    if name == "srun":
        return [command[0], f"--cpus-per-task={each}", "--cpu-bind=cores", *command[1:]]
    if name not in ("torchrun", "horovodrun") and share.host.ranks <= share.processes:
        if any(variable.startswith(("OMPI_", "PRTE_")) for variable in environment) or name in (
            "orterun",
            "prterun",
            "mpirun",
        ):
            return [command[0], "--bind-to", "core", "--map-by", f"slot:PE={each}", *command[1:]]
        return [command[0], "-bind-to", f"core:{each}", *command[1:]]
    return command


def _binds(word: str) -> bool:
    return word.lstrip("-").startswith(("bind-to", "map-by", "cpu-bind", "cpus-per-task", "cpu_bind"))


def _fewer_processes(command: list[str], share: _Share) -> list[str]:
    """Lower the numbers of workers or ranks that the command names, where more of them work than there are CPUs."""
    if share.host.at_once <= share.processes:
        return command
    launcher = bool(command) and command[0].rpartition("/")[2] in _LAUNCHERS
    result, index, in_launcher = list(command), 0, launcher
    while index < len(result):
        word = result[index]
        # The launcher's options end where its program begins.
        in_launcher = in_launcher and not re.search(r"(?:^|/)(?:python[\d.]*|bash|sh)$|\.(?:py|sh)$", word)
        option = _RANK_OPTION if in_launcher else _WORKER_OPTION
        attached = re.fullmatch(rf"({option.pattern}=)(\d+)|(-j)(\d+)", word)
        if attached is not None and not (in_launcher and attached[3]):
            head, number = (attached[1], attached[2]) if attached[1] else (attached[3], attached[4])
            result[index] = head + str(min(int(number), share.processes))
        elif option.fullmatch(word) and index + 1 < len(result) and result[index + 1].isdecimal():
            result[index + 1] = str(min(int(result[index + 1]), share.processes))
            index += 1
        index += 1
    return result


def _start_fewer(share: _Share) -> Advice:
    host = share.host
    numbers: dict[str, Value] = {
        "processes": host.working,
        "cpus": host.available_cpus,
        "most": share.processes,
    }
    if host.workers:
        # The parent of a pool only waits for it, that of a loader computes.
        numbers["workers"] = max(1, share.processes - min(1, share.busy))
    return Advice("start-fewer", cures="queue", numbers=numbers)
