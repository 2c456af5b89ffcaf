"""The diagnosis of ``profkit doctor`` in words: risk, limits of the machine, origins of sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from profkit.capture.cpu_limits import Limits
from profkit.report import units
from profkit.report.document import VerdictBlock
from profkit.report.text import clean
from profkit.study.doctor import Demand, Diagnosis, Own, Size
from profkit.study.doctor_load import Crew, Load

#: Usual names of libraries and of Python's defaults.
LIBRARY_TITLES = {
    "openblas": "OpenBLAS",
    "mkl": "MKL",
    "blis": "BLIS",
    "libgomp": "OpenMP (GNU)",
    "libomp": "OpenMP (LLVM)",
    "libiomp5": "OpenMP (Intel)",
    "tbb": "TBB",
    "numexpr": "numexpr",
    "opencv": "OpenCV",
    "torch": "PyTorch",
    "torch-interop": "PyTorch inter-op",
    "tensorflow": "TensorFlow",
    "tensorflow-interop": "TensorFlow inter-op",
    "xla": "JAX (XLA)",
    "numba": "Numba",
    "polars": "Polars",
    "duckdb": "DuckDB",
    "arrow": "Arrow",
    "arrow-io": "Arrow I/O",
    "scikit-learn": "scikit-learn",
    "joblib": "joblib n_jobs=-1",
    "multiprocessing": "multiprocessing.Pool()",
    "process-executor": "ProcessPoolExecutor()",
    "thread-executor": "ThreadPoolExecutor()",
    "torch-loader": "DataLoader()",
    "keras-workers": "Keras PyDataset()",
    "chainer-iterator": "MultiprocessIterator()",
}
#: Most kinds of processes added up in one line.
MOST_TERMS = 2
#: CPUs used by other processes from which the reader is told.
OTHERS = 0.2
#: Note below the list of sizes.
SIZES_NOTE = "Defaults, for each process. docs/doctor.md says how they were measured."
#: What is said of a Python without a tracer.
UNTRACED = "profkit has no tracer for it: a capture would record no functions"
_LIMITS = {"quota": "the CPU quota", "affinity": "the affinity", "slurm": "Slurm's grant"}
_HOW_TO_SET = {
    "torch": "torch.set_num_threads",
    "opencv": "cv2.setNumThreads",
    "numexpr": "numexpr.set_num_threads",
    "numba": "numba.set_num_threads",
    "duckdb": "SET threads",
    "tensorflow": "tf.config.threading",
    "openblas": "threadpoolctl",
    "mkl": "threadpoolctl",
    "libgomp": "threadpoolctl, n_jobs",
}


def title_of(library: str) -> str:
    return LIBRARY_TITLES.get(library) or clean(library)


def risk(diagnosis: Diagnosis) -> VerdictBlock:
    demand, load = diagnosis.demand, diagnosis.load
    line = _sum(demand) if load is None else _seen(load, demand)
    over = f"{units.factor(demand.factor)} oversubscribed"
    if load is not None:
        summary = _did(load)
        if diagnosis.oversubscribed:
            return VerdictBlock(f"{line}: {over}", summary, "bad")
        if demand.oversubscribed:
            return VerdictBlock(f"{line}, but they hardly queue", summary, "unsure")
        idle = ", ".join(f"{title_of(pool.library)} {pool.threads}" for pool in load.idle_pools)
        if idle:
            later = f"Pools with more threads than CPUs were idle meanwhile ({idle}): use a longer --seconds."
            return VerdictBlock(f"{line}: not oversubscribed so far", f"{summary} {later}", "unsure")
        return VerdictBlock(f"{line}: not oversubscribed", summary, "good")
    if diagnosis.oversubscribed:
        computing = (s for s in diagnosis.sizes if s.library.automatic and s.library.computes)
        unseen = sorted({_LIMITS[s.unseen] for s in computing if s.unseen and s.library.starts == "threads"})
        why = f" Not every library respects {' or '.join(unseen)}." if unseen else ""
        fits = f"To fit, each process may have {units.counted(diagnosis.share, 'thread')}."
        most = max(1, int(demand.cpus))
        if demand.processes > max(1.0, demand.cpus):
            fits = f"{demand.processes:,} processes are more than {units.cpus(demand.cpus)}: start at most {most}, "
            fits += "with 1 thread each."
        return VerdictBlock(f"{line}: {over}", f"{fits}{why}", "bad")
    if diagnosis.pooled is not None:
        pooled = diagnosis.pooled
        return VerdictBlock(
            f"{line}: fits, but not with a process pool",
            f"With the default of multiprocessing.Pool() it is {_sum(pooled)}: "
            f"{units.factor(pooled.factor)} oversubscribed.",
            "unsure",
        )
    return VerdictBlock(f"{line}: fits", "", "good")


def _sum(demand: Demand) -> str:
    processes = demand.processes
    parts = []
    if demand.ranks > 1:
        parts.append(units.counted(demand.ranks, "rank"))
    if demand.workers:
        parts.append(units.counted(demand.workers, "worker"))
    if not parts:
        parts.append(units.counted(processes, "process", "processes"))
    parts.append(units.counted(demand.threads, "thread"))
    return f"{' × '.join(parts)} = {units.counted(demand.total, 'runnable thread')} for {units.cpus(demand.cpus)}"


def _seen(load: Load, demand: Demand) -> str:
    working = [crew for crew in load.crews if crew.threads]
    total = f"{units.counted(demand.total, 'runnable thread')} for {units.cpus(demand.cpus)}"
    if 0 < len(working) <= MOST_TERMS and load.at_once == sum(
        crew.processes * crew.threads for crew in working
    ):
        terms = " + ".join(
            f"{_processes(crew)} × {units.counted(crew.threads, 'thread')}" for crew in working
        )
        if demand.ranks > 1:
            terms = f"{units.counted(demand.ranks, 'rank')} × {f'({terms})' if len(working) > 1 else terms}"
        return f"{terms} = {total}"
    return f"At peak, {total}"


def _did(load: Load) -> str:
    queued = (
        "" if math.isnan(load.queued) else f", and {units.share(load.queued)} of its CPU demand was queueing"
    )
    others = f" Other processes used {load.others:.1f} CPUs meanwhile." if load.others >= OTHERS else ""
    return f"In {units.seconds(load.wall_s)} it used {load.cores:.1f} CPUs on average{queued}.{others}"


def _processes(crew: Crew) -> str:
    role = {"main": "process", "child": "process"}.get(crew.role, clean(crew.role))
    return units.counted(crew.processes, role, "processes" if role == "process" else "")


def limit_items(limits: Limits) -> list[tuple[str, str]]:
    """Return what the machine has, and what limits a process here."""
    parts = [units.counted(limits.cpus, "logical CPU")]
    if limits.cores is not None:
        more = f", {limits.cpus / limits.cores:.3g} threads each" if limits.cores < limits.cpus else ""
        parts.append(units.counted(limits.cores, "core") + more)
    if limits.sockets is not None:
        parts.append(units.counted(limits.sockets, "socket"))
    if limits.nodes is not None:
        parts.append(units.counted(limits.nodes, "NUMA node"))
    items = [
        (
            "machine",
            "; ".join(parts) + (f" (in a container: {clean(limits.container)})" * bool(limits.container)),
        )
    ]
    found = [
        f"affinity {limits.allowed} ({_ranges(limits.affinity)})" if limits.affinity else "affinity not known"
    ]
    if limits.cpuset is not None and set(limits.cpuset) != set(limits.affinity):
        found.append(f"cpuset {_ranges(limits.cpuset)}")
    where = {"nested": ", set in a nested cgroup"}.get(limits.quota_view, "")
    found.append(f"quota {limits.quota_cpus:.3g}{where}" if limits.quota_cpus else "no quota")
    if limits.slurm is not None:
        found.append(f"Slurm {limits.slurm[0]} ({limits.slurm[1]})")
    items.append(("may use", f"{units.cpus(limits.effective)}: {'; '.join(found)}"))
    if limits.ranks is not None:
        ranks = limits.ranks
        bound = "each bound to its own CPUs" if ranks.bound else "not bound: they share the CPUs"
        items.append(("ranks", f"{ranks.here} on this machine, started by {clean(ranks.launcher)}, {bound}"))
    return items


def _ranges(cpus: Sequence[int]) -> str:
    """Return the numbers of CPUs: ``0–3, 8``."""
    found: list[list[int]] = []
    for cpu in sorted(cpus):
        if found and found[-1][-1] == cpu - 1:
            found[-1][1:] = [cpu]
        else:
            found.append([cpu])
    return ", ".join("–".join(map(str, part)) for part in found)


def reason_text(size: Size) -> str:
    origin = {
        "variable": clean(size.variable),
        "quota": "CPU quota",
        "affinity": "affinity",
        "cores": "physical cores",
        "cpus": "all CPUs",
        "fixed": "its own default",
    }[size.origin]
    return f"{origin}; ignores {_LIMITS[size.unseen]}" if size.unseen else origin


def own_texts(owns: Sequence[Own]) -> list[str]:
    """Return what no variable changes."""
    without = [own for own in owns if own.kind == "no-variable"]
    texts = [_own_text(own) for own in owns if own.kind != "no-variable"]
    if without:
        each = ", ".join(
            f"{title_of(own.name)} ({', '.join(filter(None, [str(own.number), _HOW_TO_SET.get(own.name)]))})"
            for own in without
        )
        texts.append(f"No environment variable sets the threads of {each}: set them in the program.")
    return texts


def _own_text(own: Own) -> str:
    if own.kind == "pool":
        how = _HOW_TO_SET.get(own.name)
        by = f" ({how})" if how else ""
        threads = units.counted(own.number, "thread")
        return f"{title_of(own.name)} has {threads}, set by the program itself{by}: change it there."
    if own.kind == "processes":
        role = clean(own.name)
        return (
            f"The program itself starts {own.number:,} × {role}: configure fewer; no variable changes that."
        )
    if own.kind == "python-threads":
        return f"{own.number:,} threads of Python code ran at once in one process ({clean(own.name)}): start fewer."
    return f"{clean(own.name)} {own.number:,} on the command line asks for more than there are CPUs."
