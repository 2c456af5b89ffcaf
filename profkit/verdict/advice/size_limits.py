"""Advice that makes a run fit its CPUs, by edits of its command, its variables or its code."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from profkit.measure.inventory import OVERSUBSCRIBED, HostNeed, Inventory, ProcessNeed
from profkit.measure.size_calls import SizeCall
from profkit.model import Pool
from profkit.model.pools import NOT_BUSY, POOL_VARIABLES
from profkit.verdict.types import Advice, Value

#: The variable to set where none is set: the narrowest one for the whole library.
_PREFERRED: Mapping[str, str] = {"torch": "OMP_NUM_THREADS"}

#: Calls by which a program sets a size; OpenMP and BLAS have none in Python.
_CODE: Mapping[str, str] = {
    "torch": "torch.set_num_threads({n})",
    "opencv": "cv2.setNumThreads({n})",
    "numexpr": "numexpr.set_num_threads({n})",
    "numba": "numba.set_num_threads({n})",
    "tensorflow": "tf.config.threading.set_intra_op_parallelism_threads({n})",
}
#: Runtimes whose threads PyTorch shares.
_OPENMP = frozenset(("libgomp", "libomp", "libiomp5"))
#: What threadpoolctl sizes, beside PyTorch.
_OF_THREADPOOLCTL = _OPENMP | {"openblas", "mkl", "blis"}
_OTHER_CODE = "threadpoolctl.threadpool_limits({n})"
#: Calls that start workers, by their name in `profkit.measure.size_calls`.
_STARTERS: Mapping[str, str] = {
    "pool": "Pool({n})",
    "process-executor": "ProcessPoolExecutor({n})",
    "loader": "DataLoader(…, num_workers={n})",
}
_EXECUTOR = "ThreadPoolExecutor({n})"

#: Options for the number of workers or jobs, including ``--trainer.num_workers=4`` and Hydra's
#: ``trainer.num_workers=4``. A bare ``n_jobs`` counts only before ``=``: a word by itself may be anything.
_WORKER_OPTION = re.compile(
    r"(?:-j|(?:--|(?=[\w-]+[.=]))(?:[\w-]+\.)*(?:(?:n[_-]?)?jobs|(?:num[_-]|n[_-]|data(?:loader)?[_-])*workers"
    r"|workers[_-]per[_-]\w+|(?:num[_-]|n[_-])?(?:procs|processes)|nproc[_-]per[_-]node))"
)
#: Options for the number of threads; the second pattern counts only where the first finds none.
_THREAD_OPTION = re.compile(r"(?:-[tT]|(?:--|(?=[\w-]+\.))(?:[\w-]+\.)*(?:\w+[_-])*n?threads?(?:[_-]\w+)*)")
_CPU_OPTION = re.compile(
    r"(?:-j|(?:--|(?=[\w-]+\.))(?:[\w-]+\.)*(?:\w+[_-])*(?:n?(?:cpus?|cores?|jobs)|parallel(?:ism)?))"
)
#: Options of launchers for the number of ranks.
_RANK_OPTION = re.compile(r"-{1,2}(?:n|np|c|ntasks|nproc[_-]per[_-]node)")
_LAUNCHERS = frozenset(
    ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "srun", "torchrun", "horovodrun")
)

#: The word at which the program begins behind a launcher's options.
_PROGRAM = re.compile(r"(?:^|/)(?:python[\d.]*|bash|sh)$|\.(?:py|sh)$")
#: How the path of another program begins, and launchers' options whose value, or second value, may begin so as well.
_PATH = ("/", "./", "../")
_PATH_OPTION = re.compile(
    r"-{1,2}(?:[Deio]|wd|tune|input|output|error|[\w-]*(?:file|dir|path|prefix|log|exec)[\w-]*)"
)
_SECOND_OPTION = re.compile(r"-{1,2}(?:\w*mca|g?env)")
#: How a launcher's options begin that bind ranks.
_BINDING = ("bind-to", "map-by", "cpu-bind", "cpus-per-task", "cpu_bind")

#: Cores needed from which workers cannot have a process's CPU: half of one.
_BUSY_CORES = 0.5


@dataclass(frozen=True, slots=True)
class _Cure:
    """One advice, the cores the run would ask for after it, and whether it cuts threads that may spin."""

    advice: Advice
    asks: float
    spins: bool = True


def limit_advice(
    inventory: Inventory,
    command: Sequence[str],
    lost_s: float = math.nan,
    most_s: tuple[float, float] = (math.inf, math.inf),
) -> tuple[Advice, ...]:
    """Return advice that makes all processes fit the available CPUs, greatest gain first.

    The gain is the part of `lost_s` (NaN: unknown) lost to what the advice cuts, at most `most_s` (of threads
    that may spin, of others).
    """
    hosts = [host for host in inventory.hosts if host.oversubscription is not None]
    if not hosts:
        return ()
    crew = _Crew(inventory, max(hosts, key=lambda host: host.oversubscription or 0.0))
    cures = [*_thread_cures(inventory, crew, list(command)), *_executor_cures(crew, command)]
    if math.isnan(lost_s):
        return tuple(cure.advice for cure in sorted(cures, key=lambda cure: cure.asks))
    gains = [min(lost_s * crew.emptied(cure.asks), most_s[0] if cure.spins else most_s[1]) for cure in cures]
    found = [replace(cure.advice, predicted_gain_s=gain) for cure, gain in zip(cures, gains, strict=True)]
    return tuple(sorted(found, key=lambda advice: -advice.predicted_gain_s))


def _computes_itself(process: ProcessNeed) -> bool:
    """Return whether a process is no worker, and workers cannot have its CPU; true if unknown."""
    known = (process.needed_cores, process.demand_cores)
    needs = next((cores for cores in known if cores is not None), 1.0)
    return process.role != "worker" and needs >= _BUSY_CORES


class _Crew:
    """The processes that work on the most crowded machine, the cores they ask for, and what fits its CPUs."""

    def __init__(self, inventory: Inventory, host: HostNeed) -> None:
        self.host = host
        self.sizes = inventory.sizes
        #: Processes that the run had; an option with a greater number is about something else.
        self.seen = len(inventory.processes)
        self.cpus = host.available_cpus or 1.0
        #: Most processes at work; a quota of 1.5 CPUs has room for one busy thread.
        self.processes = max(1, math.floor(self.cpus))
        #: Most threads of each process.
        self.threads = max(1, self.processes // max(1, round(host.at_once)))
        bound = [p.available_cpus for p in inventory.processes if p.available_cpus and not p.idle]
        if bound:  # each rank on CPUs of its own
            self.threads = max(1, min(self.threads, math.floor(min(bound))))
        self.working = [p for p in inventory.processes if not p.idle and p.host == host.name]
        #: Most workers of each rank, beside the processes that compute themselves.
        beside = self.processes - sum(map(_computes_itself, self.working))
        self.workers = max(1, beside // max(1, host.ranks))
        # Weighted by lifetime, so that the weights add up to the processes working at once.
        lived = [p.lived_s for p in self.working if p.lived_s]
        whole = sum(lived) if len(lived) == len(self.working) else 0.0
        self._weight = {
            id(p): host.at_once * (p.lived_s / whole if p.lived_s and whole else 1 / len(self.working))
            for p in self.working
        }
        loads = [
            p.expected_cores / p.available_cpus for p in self.working if p.expected_cores and p.available_cpus
        ]
        #: Whether processes bound to CPUs of their own have too many threads for these.
        self.bound_too_tightly = max(loads, default=0.0) > OVERSUBSCRIBED
        self.asks = self.with_sizes(_threads_of)

    def with_sizes(self, threads_of: Callable[[ProcessNeed], float]) -> float:
        """Return the cores that all ask for together if each process had so many threads at once."""
        return sum(self._weight[id(p)] * threads_of(p) for p in self.working)

    def limited(self, libraries: set[str]) -> float:
        """Return the cores asked for with the pools of `libraries` cut; large pools share the excess by size."""

        def left(process: ProcessNeed) -> float:
            beyond = [(pool.library, (pool.threads or 0) - self.threads) for pool in _pools_of(process)]
            large = sum(excess for _, excess in beyond if excess > 0)
            cut = sum(excess for library, excess in beyond if excess > 0 and library in libraries)
            now, least = _threads_of(process), float(max(self.threads, process.executor_threads))
            return now - (now - least) * cut / large if cut else now

        return self.with_sizes(left)

    def only_call(self, sets: Container[str]) -> SizeCall | None:
        """Return the one call that sets such a size; ``None`` without any, or where it may be one of several."""
        found = dict.fromkeys(size for size in self.sizes if size.sets in sets)
        return next(iter(found)) if len(found) == 1 else None

    @property
    def crowded(self) -> bool:
        """Whether they ask for clearly more cores than there are."""
        return self.bound_too_tightly or self.asks > OVERSUBSCRIBED * self.cpus

    @property
    def too_many(self) -> bool:
        """Whether more processes work at once than there are CPUs."""
        return self.host.at_once > self.processes

    @property
    def fewer(self) -> float:
        """Part of the processes that remains if no more work at once than there are CPUs."""
        return min(1.0, self.processes / max(1.0, self.host.at_once))

    def emptied(self, asks: float) -> float:
        """Return the part of the demand beyond the CPUs that is gone when the run asks for `asks`."""
        beyond = self.asks - self.cpus
        return max(0.0, min(1.0, (self.asks - asks) / beyond)) if beyond > 0 else 1.0


def _threads_of(process: ProcessNeed) -> float:
    sizes = [pool.threads or 1 for pool in _pools_of(process)]
    return float(max([1, process.executor_threads, *sizes]))


def _pools_of(process: ProcessNeed) -> list[Pool]:
    """Return the pools that may be at work; idle ones take no CPU."""
    if process.idle or process.pools_idle:
        return []
    return [pool for pool in process.pools or () if pool.library not in NOT_BUSY]


# Threads of libraries, and processes


def _thread_cures(inventory: Inventory, crew: _Crew, command: list[str]) -> list[_Cure]:
    if not crew.crowded or not any(process.pools is not None for process in crew.working):
        return []
    variables = inventory.environment
    pools = _too_large(crew.working, crew.threads)
    edited = list(command)
    settings: dict[str, int] = {}
    code: dict[str, tuple[Advice, set[str]]] = {}
    by_command: set[str] = set()
    for pool in pools:
        name = _variable(pool, variables)
        inside = (
            pool.origin == "program"
            or _set_inside(pool, variables, command)
            or _set_by_call(pool, crew) is not None
        )
        # Such an option may mean processes: it counts only where the program set the size and has no workers.
        meant = (_THREAD_OPTION, _CPU_OPTION) if inside and not crew.host.workers else (_THREAD_OPTION,)
        option = _option_of(command, pool.threads, *meant)
        if option is not None and (inside or pool.origin != "variable"):
            edited[option.at] = option.of(crew.threads)
        if not inside and name:
            settings[name] = crew.threads
        if option is not None or (not inside and name):
            by_command.add(pool.library)
        elif inside:
            edit = _edit(pool, name, crew)
            code.setdefault(edit.subject, (edit, set()))[1].add(pool.library)
    bound = _bound(edited, crew, variables)
    words = _fewer_processes(bound, crew) if crew.too_many else bound
    # A pool without a variable takes one thread per usable CPU, ignoring the quota.
    unnamed = any(pool.origin == "default" and not _variable(pool, variables) for pool in pools)
    over_quota = bool(
        inventory.quota_cpus and inventory.affinity and inventory.quota_cpus < inventory.affinity and pools
    )
    tied = _taskset(inventory, crew) if unnamed or over_quota else ()
    cures = []
    fewer = crew.fewer if words != bound else 1.0
    if settings or tied or words != command:
        env = {name: str(n) for name, n in sorted(settings.items())}
        argv = (*tied, *_with_settings(words, settings))
        limited = {pool.library for pool in pools} if tied else by_command
        asks = crew.limited(limited) * fewer
        cures.append(_Cure(Advice("limit-threads", argv, env, cures="queue"), asks, spins=bool(pools)))
    cures += [_Cure(advice, crew.limited(libraries)) for advice, libraries in code.values()]
    if crew.too_many and fewer == 1.0:
        cures.append(_Cure(_start_fewer(crew), crew.asks * crew.fewer, spins=False))
    return cures


def _too_large(working: Sequence[ProcessNeed], threads: int) -> list[Pool]:
    pools: dict[tuple[str, str, str], Pool] = {}
    for process in working:
        for pool in _pools_of(process):
            if (pool.threads or 0) > threads:
                pools.setdefault((pool.library, pool.origin, pool.variable), pool)
    return list(pools.values())


def _variable(pool: Pool, environment: Mapping[str, str]) -> str:
    """Return the variable that sizes this pool: the one in effect, else the library's own."""
    names = POOL_VARIABLES.get(pool.library, ())
    held = pool.variable.partition("=")[0]
    if held in names:
        return held
    present = next((name for name in names if environment.get(name)), "")
    return present or _PREFERRED.get(pool.library, names[0] if names else "")


def _set_inside(pool: Pool, environment: Mapping[str, str], command: Sequence[str]) -> bool:
    name, _, value = pool.variable.partition("=")
    if pool.origin != "variable" or environment.get(name) == value:
        return False
    return not any(word.partition("=")[0] == name for word in command)


def _set_by_call(pool: Pool, crew: _Crew) -> SizeCall | None:
    """Return the call in the program that sets a pool's size, which overrides variables.

    The pools recorded of a killed worker may miss it.
    """
    setters = [pool.library]
    if pool.library in _OPENMP:
        setters.append("torch")  # PyTorch's threads are OpenMP's
    # Only the size shows whether a limit of OpenMP and BLAS was meant for PyTorch.
    if pool.library in _OF_THREADPOOLCTL or (pool.library == "torch" and pool.origin == "program"):
        setters.append("threadpoolctl")
    made = [size for setter in setters for size in crew.sizes if size.sets == setter]
    return made[0] if made else None


def _edit(pool: Pool, variable: str, crew: _Crew) -> Advice:
    """Advise an edit of the line that sets a size, with its function where known."""
    n = crew.threads
    call_made = _set_by_call(pool, crew)
    if pool.origin != "program" and call_made is None:
        return Advice("edit-code", cures="queue", subject=f'os.environ["{variable}"] = "{n}"')
    named = pool.library if pool.library in _CODE else "threadpoolctl"
    sets = named if call_made is None else call_made.sets
    call = _CODE.get(sets, _OTHER_CODE)
    # With 0, OpenCV has no threads; with 1, one thread beside the caller.
    return _edit_of(call.format(n=0 if pool.library == "opencv" and n == 1 else n), (sets,), crew)


def _edit_of(call: str, sets: Sequence[str], crew: _Crew) -> Advice:
    found = crew.only_call(sets)
    if found is None:
        return Advice("edit-code", cures="queue", subject=call)
    return Advice("edit-code", cures="queue", subject=call, where=found.caller, line=found.line)


def _taskset(inventory: Inventory, crew: _Crew) -> tuple[str, ...]:
    """Bind to the first of the run's own CPUs; the machine's others may belong to other jobs."""
    cpus = sorted(inventory.affinity_cpus) or range(crew.processes)
    spans = [
        list(span) for _, span in groupby(enumerate(cpus[: crew.processes]), lambda one: one[1] - one[0])
    ]
    ends = ((span[0][1], span[-1][1]) for span in spans)
    words = (f"{first}-{last}" if last > first else str(first) for first, last in ends)
    return ("taskset", "-c", ",".join(words))


def _start_fewer(crew: _Crew) -> Advice:
    host = crew.host
    numbers: dict[str, Value] = {
        "processes": host.working,
        "cpus": host.available_cpus,
        "most": crew.processes,
    }
    found = None
    if host.workers:
        # The parent of a pool only waits for it, but that of a loader computes.
        numbers["workers"] = crew.workers
        found = crew.only_call(_STARTERS)
    if found is None or crew.workers * max(1, host.ranks) >= host.workers:
        return Advice("start-fewer", cures="queue", numbers=numbers)
    call = _STARTERS[found.sets].format(n=crew.workers)
    return Advice(
        "start-fewer", cures="queue", subject=call, numbers=numbers, where=found.caller, line=found.line
    )


# Threads of the program


def _executor_cures(crew: _Crew, command: Sequence[str]) -> list[_Cure]:
    """Cut thread executors that have more threads at work than there are CPUs."""
    threads = max((process.executor_threads for process in crew.working), default=0)
    if not crew.crowded or threads <= crew.threads:
        return []
    n = crew.threads
    asks = crew.with_sizes(lambda p: float(max([1, *(pool.threads or 1 for pool in _pools_of(p))])))
    option = _option_of(command, threads, _THREAD_OPTION, _WORKER_OPTION, _CPU_OPTION)
    if option is not None:
        words = list(command)
        words[option.at] = option.of(n)
        return [_Cure(Advice("limit-threads", tuple(words), cures="queue"), asks, spins=False)]
    return [_Cure(_edit_of(_EXECUTOR.format(n=n), ("thread-executor",), crew), asks, spins=False)]


# The command's own words


class _Option(NamedTuple):
    """The word of a command that contains a number, and what precedes the number in it."""

    at: int
    head: str

    def of(self, number: int) -> str:
        return f"{self.head}{number}"


def _numbers_of(command: Sequence[str], pattern: re.Pattern[str]) -> Iterator[tuple[_Option, int]]:
    """Yield the words that contain the number of an option, and the number."""
    for at, word in enumerate(command):
        attached = re.fullmatch(rf"({pattern.pattern}=|-[jtT])(\d+)", word)
        follows = command[at + 1] if at + 1 < len(command) else ""
        if attached is not None and (attached[1].endswith("=") or pattern.fullmatch(attached[1])):
            yield _Option(at, attached[1]), int(attached[2])
        elif pattern.fullmatch(word) and follows.isdecimal():
            yield _Option(at + 1, ""), int(follows)


def _option_of(command: Sequence[str], number: int | None, *patterns: re.Pattern[str]) -> _Option | None:
    """Find the option whose number is a measured size; earlier patterns come first."""
    found = (option for pattern in patterns for option in _numbers_of(command, pattern))
    return next((option for option, given in found if given == number), None)


def _with_settings(command: list[str], settings: Mapping[str, int]) -> list[str]:
    """Replace values that the command sets (``env NAME=8``, ``mpirun -x NAME=8``), since they override."""
    names = (word.partition("=")[0] for word in command)
    return [
        f"{name}={settings[name]}" if name in settings and word != name else word
        for name, word in zip(names, command, strict=True)
    ]


def _bound(command: list[str], crew: _Crew, environment: Mapping[str, str]) -> list[str]:
    """Make the launcher of several ranks bind each rank to its own cores."""
    name = command[0].rpartition("/")[2] if command else ""
    if (
        crew.host.ranks < 2
        or name not in _LAUNCHERS
        or any(word.lstrip("-").startswith(_BINDING) for word in command)
    ):
        return command
    each = crew.threads
    if name == "srun":
        return [command[0], f"--cpus-per-task={each}", "--cpu-bind=cores", *command[1:]]
    if name not in ("torchrun", "horovodrun") and crew.host.ranks <= crew.processes:
        if any(variable.startswith(("OMPI_", "PRTE_")) for variable in environment) or name in (
            "orterun",
            "prterun",
            "mpirun",
        ):
            return [command[0], "--bind-to", "core", "--map-by", f"slot:PE={each}", *command[1:]]
        return [command[0], "-bind-to", f"core:{each}", *command[1:]]
    return command


def program_at(command: Sequence[str]) -> int:
    """Return where the program begins behind a launcher and its options; the end if it is not seen.

    It is seen if it is Python, a shell, a script, a path, or torchrun's module. Which other words are values of
    options, only the launcher knows.
    """
    modules = ("-m", "--module") if command and command[0].rpartition("/")[2] == "torchrun" else ()
    for at, word in enumerate(command):
        second, first = ("", "", *command)[at : at + 2]
        if _PROGRAM.search(word) or first in modules:
            return at
        is_value = _PATH_OPTION.fullmatch(first) or _SECOND_OPTION.fullmatch(second)
        if at and word.startswith(_PATH) and not is_value:
            return at
    return len(command)


def _fewer_processes(command: list[str], crew: _Crew) -> list[str]:
    """Lower the command's numbers of workers and of ranks to what the CPUs can take."""
    workers = crew.workers if crew.host.workers else crew.processes
    launched = bool(command) and command[0].rpartition("/")[2] in _LAUNCHERS
    begin = program_at(command) if launched else 0
    result = list(command)
    for part, first, pattern, most in (
        (command[:begin], 0, _RANK_OPTION, crew.processes),
        (command[begin:], begin, _WORKER_OPTION, workers),
    ):
        for option, number in _numbers_of(part, pattern):
            if number <= crew.seen:
                result[first + option.at] = option.of(min(number, most))
    return result
