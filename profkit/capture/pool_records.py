"""A record's pools as `Pool`s; if several origins fit, a variable comes first, then the default."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping

from profkit.capture.record_types import Record
from profkit.model import Host, Pool, PoolOrigin
from profkit.model.pools import CAPPED, holding_variable

#: Thread names of libraries that would start their pool if asked for its size.
_THREAD_NAMES = (
    (re.compile(r"tf_XLAEigen"), "xla"),
    (re.compile(r"polars-\d+$"), "polars"),
)

#: Libraries whose default is one thread per core: half the CPUs with two threads a core.
_PER_CORE = frozenset(("mkl", "torch", "torch-interop", "libiomp5"))
#: Most threads that numexpr takes by default: 8, from version 2.12 on 16.
_NUMEXPR_MOST = (8, 16)


def pools_of(record: Record, host: Host, cores: int | None = None) -> tuple[Pool, ...] | None:
    """Return the pools of one process, known sizes first; `cores` are the physical cores of its `host`."""
    if record.pools is None:
        return None
    environment, at_start = record.environment, record.environment_at_start
    pools = []
    for row in record.pools:
        # 0 is TensorFlow's default, one per CPU.
        threads = host.affinity or host.cpus if row.threads == 0 else row.threads
        origin, variable = pool_origin(row.library, threads, environment, at_start, host, row.seen, cores)
        peak = row.most if row.most is not None and threads is not None and row.most > threads else None
        pools.append(Pool(row.library, threads, origin, variable, row.version, row.file, peak))
    names = Counter(
        library
        for task in record.tasks
        for pattern, library in _THREAD_NAMES
        if pattern.match(task.name) is not None
    )
    for library, count in names.items():
        origin, variable = pool_origin(library, count, environment, at_start, host, None, cores)
        pools.append(Pool(library, count, origin, variable))
    return tuple(sorted(pools, key=lambda pool: (pool.threads is None, pool.library, pool.file)))


def pool_origin(
    library: str,
    threads: int | None,
    environment: Mapping[str, str],
    at_start: Mapping[str, str],
    host: Host,
    seen: int | None = None,
    cores: int | None = None,
) -> tuple[PoolOrigin, str]:
    """Return the origin of a pool's size, and its variable; one with ``default`` was set too late.

    Libraries read variables when they are loaded, between `at_start` and `environment`; `seen` are CPUs they
    counted.
    """
    if threads is None:
        return "", ""
    cpus = {n for n in (seen, host.affinity, host.cpus) if n}
    held = holding_variable(library, environment)
    text = f"{held[0]}={environment[held[0]]}" if held is not None else ""
    if held is not None and (
        threads == held[1] or (library in CAPPED and threads in {min(held[1], n) for n in cpus})
    ):
        return "variable", text
    if held is not None and holding_variable(library, at_start) == held:
        return "program", text
    defaults = set(cpus)
    if host.quota_cpus:
        defaults.add(math.ceil(host.quota_cpus))
    if library in _PER_CORE:
        if cores is None and threads in {n // 2 for n in cpus}:
            return "", text  # the number of cores, or set to that
        defaults |= {min(cores, n) for n in cpus if cores}
    if library == "numexpr":
        defaults |= {min(n, most) for n in cpus for most in _NUMEXPR_MOST}
    return ("default", text) if threads in defaults else ("program", text)
