"""Predict how many threads and processes would start here, and whether they are too many.

Sizes come from `doctor_libraries` and the machine's limits, or from the `Load` of a program that ran.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from profkit.capture.cpu_limits import Limits
from profkit.capture.interpreter import Interpreter
from profkit.measure.inventory import OVERSUBSCRIBED
from profkit.model.pools import NOT_BUSY, POOL_VARIABLES, whole_number
from profkit.study.doctor_libraries import LIBRARIES, Honours, Library, honours_of
from profkit.study.doctor_load import Load
from profkit.study.launch import LAUNCHERS, Launch, fitting, launcher_of, program_of
from profkit.verdict.advice.size_limits import program_at

#: Words of option names that take a number of threads or processes; a rank, a job or a CPU may be one of many.
_COUNTS = re.compile(
    r"(?:^|[-_.])(?:(?:n|num|max)?(?:threads|workers|procs|processes|ranks|cores|jobs|cpus)|parallel(?:ism)?"
    r"|n(?:thread|proc|core|cpu|job)|(?:n|num)[-_]?(?:proc(?:ess)?|job)(?=$|[-_]per[-_])"
    r"|(?:thread|worker|core|cpu)$)(?:$|[-_.])",
    re.IGNORECASE,
)
#: Short options of launchers that take such a number; ``-j`` is one of any program.
_SHORT = frozenset(("-n", "-np", "-c"))
#: The flag in XLA_FLAGS that sizes XLA's pool.
_XLA = re.compile(r"intra_op_parallelism_threads=(\d{1,9})\b")
#: Quotas are multiples of 1/100 CPU; 1e-6 absorbs rounding errors of whole numbers.
_ROUNDING: Mapping[str, Callable[[float], int]] = {
    "floor": lambda quota: math.floor(quota + 1e-6),
    "round": round,
    "ceil": lambda quota: math.ceil(quota - 1e-6),
}


@dataclass(frozen=True, slots=True)
class Size:
    """How many threads or processes a library would start by default here.

    `origin`: ``variable``, ``quota``, ``affinity``, ``cores`` (physical), ``cpus`` (the whole machine) or
    ``fixed``. `unseen`: a narrower limit that it ignores (``quota``, ``affinity``, ``slurm``), else empty.
    """

    library: Library
    honours: Honours
    packages: tuple[str, ...]
    size: int
    origin: str
    variable: str
    unseen: str


@dataclass(frozen=True, slots=True)
class Demand:
    """Threads that want a CPU at once: `workers` per rank (0 without any), and `threads` per process."""

    ranks: int
    workers: int
    threads: int
    total: int
    cpus: float

    @property
    def processes(self) -> int:
        """Number of processes that compute: the workers, if there are any."""
        return self.ranks * max(1, self.workers)

    @property
    def factor(self) -> float:
        """Threads per CPU; one thread is never too many, however small the quota."""
        return self.total / max(1.0, self.cpus)

    @property
    def oversubscribed(self) -> bool:
        return self.factor > OVERSUBSCRIBED


@dataclass(frozen=True, slots=True)
class Own:
    """A number that no variable changes; `name` is a library, a role of processes, or an option.

    `kind`: ``pool``, ``processes``, ``python-threads``, ``argument``, or ``no-variable`` (a library without one).
    """

    kind: str
    name: str
    number: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Predicted or observed `demand`, and variables (`advice`) and `launches` that make it fit.

    `load` is ``None`` unless a command ran. `pooled`: demand with a process pool of default size, if too
    much. `share`: threads per process at which all fit. `own`: what variables cannot change.
    """

    limits: Limits
    python: Interpreter | None
    sizes: tuple[Size, ...]
    demand: Demand
    load: Load | None
    pooled: Demand | None
    oversubscribed: bool
    advice: tuple[tuple[str, str], ...]
    share: int
    own: tuple[Own, ...]
    launches: tuple[Launch, ...] = ()


def diagnose(
    limits: Limits,
    interpreter: Interpreter | None,
    environ: Mapping[str, str],
    *,
    ranks: int | None = None,
    workers: int | None = None,
    threads: int | None = None,
    load: Load | None = None,
    command: Sequence[str] = (),
    launcher: str | None = None,
) -> Diagnosis:
    """Diagnose one machine, one Python and one environment.

    By default, `ranks` are the launcher's, `workers` none, and `threads` those of libraries. `launcher`
    selects the launch lines: ``all``, or ``None`` for the user's.
    """
    sizes = sizes_of(limits, interpreter, environ)
    planned_ranks = ranks or (limits.ranks.here if limits.ranks is not None else 1)
    cpus = limits.effective
    if ranks is None and limits.ranks is not None:
        granted, variable = limits.slurm or (0, "")
        if limits.ranks.bound:
            cpus = min(float(len(limits.cpuset or ()) or limits.cpus), cpus * planned_ranks)
        elif limits.ranks.launcher == "Slurm" and variable == "SLURM_CPUS_PER_TASK":
            # Granted to each rank; those that are not bound share the CPUs of all.
            cpus = replace(limits, slurm=(granted * planned_ranks, variable)).effective
    pooled = None
    if load is not None:
        demand = _seen(load, planned_ranks, cpus)
        bad = demand.oversubscribed and load.oversubscribed
    else:
        largest = max([1, *(s.size for s in sizes if _computes(s.library))])
        demand = _planned(planned_ranks, workers or 0, threads or largest, cpus)
        bad = demand.oversubscribed
        if workers is None:
            pool = max((s.size for s in sizes if s.library.name == "multiprocessing"), default=0)
            with_pool = _planned(planned_ranks, pool, demand.threads, cpus)
            pooled = with_pool if pool > 1 and with_pool.oversubscribed else None
    share = max(1, int(cpus / demand.processes))
    if load is not None:
        variables, own = _cures_of_load(load, share, environ, command, int(cpus))
    elif bad:
        variables, own = _cures_of_sizes(sizes, share, environ)
        if threads is not None and threads > share:
            own.append(Own("argument", "--threads", threads))
    else:
        variables, own = [], []
    advice = tuple((name, str(share)) for name in variables) if bad else ()
    found = Diagnosis(limits, interpreter, sizes, demand, load, pooled, bad, advice, share, tuple(own))
    return replace(found, launches=_launches(found, threads, command, launcher))


def _launches(
    found: Diagnosis, threads: int | None, command: Sequence[str], asked: str | None
) -> tuple[Launch, ...]:
    if command and not program_of(command):
        return ()
    ranks, workers = found.demand.ranks, found.demand.workers
    if found.load is not None:
        crews = found.load.crews
        ranks_seen = sum(crew.processes for crew in crews if crew.role == "rank")
        if not ranks_seen and launcher_of(replace(found.limits, ranks=None, slurm=None), command):
            return ()  # the command ended before its launcher started a rank
        ranks *= ranks_seen or 1
        # Inside a job, one of its ranks was watched, with its workers.
        workers = sum(crew.processes for crew in crews if crew.role == "worker" and crew.threads)
        workers //= ranks_seen or 1
    own = launcher_of(found.limits, command)
    if asked is None and not own and ranks < 2 and not workers:
        return ()
    named = LAUNCHERS if asked == "all" else (own if asked is None else asked,)
    variables = [name for name, _ in found.advice]
    return tuple(
        fitting(
            found.limits,
            found.demand.cpus,
            ranks=ranks,
            workers=workers,
            threads=threads,
            launcher=name,
            variables=variables,
            command=command,
        )
        for name in named
    )


def sizes_of(limits: Limits, interpreter: Interpreter | None, environ: Mapping[str, str]) -> tuple[Size, ...]:
    """Return the default size of each installed library."""
    if interpreter is None:
        return ()
    found = []
    for library in LIBRARIES:
        packages = tuple(
            f"{p} {interpreter.packages[p]}" for p in library.packages if p in interpreter.packages
        )
        if library.packages and not packages:
            continue
        if library.files and not any(part in name for part in library.files for name in interpreter.natives):
            continue
        found.append(
            size_of(library, honours_of(library.name, interpreter.version), limits, environ, packages)
        )
    return tuple(found)


def size_of(
    library: Library,
    honours: Honours,
    limits: Limits,
    environ: Mapping[str, str],
    packages: tuple[str, ...] = (),
) -> Size:
    """Return how many threads or processes a library starts under these limits."""
    size, origin = _default(library, honours, limits)
    variable = ""
    for candidate in honours.variables:
        asked = _asked(candidate.name, environ.get(candidate.name, ""))
        if asked:
            if library.plus and library.per != "fixed":  # the variable replaces the number of CPUs
                asked = _with_more(library, asked)
            machine = Limits(cpus=limits.cpus, cores=limits.cores, affinity_cores=limits.cores)
            most = {"default": size, "machine": _default(library, honours, machine)[0]}
            size, origin = min(asked, most.get(candidate.cap, asked)), "variable"
            variable = f"{candidate.name}={environ[candidate.name]}"
            break
    chosen = library.per == "fixed" or origin == "variable" or not library.computes
    unseen = "" if chosen else _unseen(limits, size)
    return Size(library, honours, packages, size, origin, variable, unseen)


def _default(library: Library, honours: Honours, limits: Limits) -> tuple[int, str]:
    if library.per == "fixed":
        return library.plus, "fixed"
    size, origin = (limits.allowed, "affinity") if honours.affinity else (limits.cpus, "cpus")
    if size == limits.cpus:
        origin = "cpus"
    cores = limits.affinity_cores if honours.affinity else limits.cores
    if library.per == "core" and cores is not None and cores < size:
        size, origin = cores, "cores"
    if honours.quota and limits.quota_cpus and limits.quota_view in honours.views:
        quota = max(1, _ROUNDING[honours.quota](limits.quota_cpus))
        if quota < size:
            size, origin = quota, "quota"
    full = _with_more(library, size)
    return full, "fixed" if full < size + library.plus else origin


def _with_more(library: Library, size: int) -> int:
    return min(size + library.plus, library.most or size + library.plus)


def _asked(name: str, value: str) -> int | None:
    if name == "XLA_FLAGS":
        found = _XLA.search(value)
        return int(found[1]) if found else None
    return whole_number(value)


def _unseen(limits: Limits, size: int) -> str:
    if limits.quota_cpus and size > math.ceil(limits.quota_cpus) and size <= limits.allowed:
        return "quota"
    if size > limits.allowed:
        return "affinity"
    if limits.slurm is not None and size > limits.slurm[0]:
        return "slurm"
    return ""


def _computes(library: Library) -> bool:
    return library.automatic and library.computes and library.starts == "threads"


def _planned(ranks: int, workers: int, threads: int, cpus: float) -> Demand:
    return Demand(ranks, workers, threads, ranks * max(1, workers) * threads, cpus)


def _seen(load: Load, ranks: int, cpus: float) -> Demand:
    """Return the demand of a program that ran, times the ranks that do the same."""
    working = [crew for crew in load.crews if crew.threads]
    processes = sum(crew.processes for crew in working) or 1
    threads = working[0].threads if working else 1
    return Demand(
        ranks, processes if processes > 1 else 0, threads, load.at_once * ranks, min(cpus, load.cpus * ranks)
    )


# Advice


def _cures_of_sizes(
    sizes: Sequence[Size], share: int, environ: Mapping[str, str]
) -> tuple[list[str], list[Own]]:
    """Return the fewest variables that make all libraries fit, and the libraries without a variable."""
    names: list[str] = []
    own = []
    for size in sizes:
        if not _computes(size.library) or size.size <= share:
            continue
        name = _variable_for([v.name for v in size.honours.variables], environ)
        if name is None:
            own.append(Own("no-variable", size.library.name, size.size))
        elif name not in names:
            names.append(name)
    return names, own


def _cures_of_load(
    load: Load, share: int, environ: Mapping[str, str], command: Sequence[str], cpus: int
) -> tuple[list[str], list[Own]]:
    names: list[str] = []
    own: list[Own] = []
    for crew in load.crews:
        for pool in crew.pools if crew.pooled else ():
            if pool.library in NOT_BUSY or not pool.threads or pool.threads <= share:
                continue
            known = [v.name for v in honours_of(pool.library, "3.13").variables]
            # Not measured, or built without threads when it was.
            name = _variable_for(known or POOL_VARIABLES.get(pool.library, ()), environ)
            if pool.origin == "program":
                own.append(Own("pool", pool.library, pool.threads))
            elif name is None:
                own.append(Own("no-variable", pool.library, pool.threads))
            elif name not in names:
                names.append(name)
        sizes = [pool.threads for pool in crew.pools if pool.threads] if crew.pooled else []
        if crew.threads > max([1, *sizes]):
            own.append(Own("python-threads", crew.role, crew.threads))
        if crew.processes > max(1, cpus) and crew.threads:
            own.append(Own("processes", crew.role, crew.processes))
    own += [Own("argument", name, number) for name, number in _arguments(command) if number > max(1, cpus)]
    return names, list(dict.fromkeys(own))


def _variable_for(names: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Return the variable to set: the deciding one if one is set, else the most widely shared."""
    held = [name for name in names if environ.get(name)]
    shared = [name for name in names if name == "OMP_NUM_THREADS"]
    return next(iter((*held, *shared, *names)), None)


def _arguments(command: Sequence[str]) -> list[tuple[str, int]]:
    """Return the options of a command that take a number of threads or processes."""
    found = []
    launched = program_at(command) if launcher_of(Limits(1), command) else 0
    for i, word in enumerate(command):
        name, equals, value = word.partition("=")
        short = name == "-j" or (name in _SHORT and i < launched)
        if not name.startswith("-") or not (_COUNTS.search(name) or short):
            continue
        number = whole_number(value if equals else command[i + 1] if i + 1 < len(command) else "")
        if number is not None:
            found.append((name, number))
    return found
