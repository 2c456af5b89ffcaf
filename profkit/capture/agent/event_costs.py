"""What the tracer's events cost, measured on calls that do nothing, once an interpreter and machine."""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from time import perf_counter

from . import process_facts, settings
from .native import FREE_THREADED

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, List, Optional, Tuple

#: Calls per measurement of event costs, and the fewest and most measurements; the least cost counts.
_PROBED_CALLS = 400
_PROBES, _MOST_PROBES = 3, 12

#: Part of an empty call's time that lies between its two events.
_EMPTY_PART = 0.2


def take_out_costs(module: Any, spool: str = "") -> None:
    """Have the cost of events subtracted from all times; call before `map_tables`.

    With `spool`, only the first process of an interpreter on a machine measures: the others may be too short.
    """
    if module is not None and not FREE_THREADED:
        module.take_out(*(_costs_of(module, spool) if spool else probe_costs(module)))


def _costs_of(module: Any, spool: str) -> Tuple[float, ...]:
    path = process_facts.file_of_interpreter(spool, settings.COSTS_SUFFIX)
    build = " ".join(sys.version.split())  # builds of one version may differ in cost
    known = _read_costs(path, build)
    if known is not None:
        return known
    costs = probe_costs(module)
    temporary = "%s.%d" % (path, os.getpid())
    try:
        with open(temporary, "wb") as file:
            file.write("\n".join([build, *map(repr, costs)]).encode("utf-8"))
        os.replace(temporary, path)
    except OSError:  # then the others measure
        try:
            os.unlink(temporary)
        except OSError:
            pass
    return costs


def _read_costs(path: str, build: str) -> Optional[Tuple[float, ...]]:
    try:
        words = process_facts.read_file(path).decode("utf-8").split("\n")
        costs = tuple(map(float, words[1:]))
    except (OSError, ValueError):
        return None
    sensible = len(costs) == _COSTS and all(0.0 <= cost < _MUCH for cost in costs)
    return costs if words[0] == build and sensible else None


def probe_costs(module: Any) -> Tuple[float, ...]:
    """Measure what events add to calls; return the arguments of the module's `take_out`, in seconds per call.

    Other load can only add time, so the least of a few times counts. Caches are warm here: real programs pay
    more.
    """
    others, collector = module.Collector(), module.Collector()
    plain, traced = [_MUCH] * len(_PROBED), [_MUCH] * len(_PROBED)
    # Alternate, as a machine may be slow for a while, and repeat until all traced calls took longer: at zero
    # cost the budget would never be used up.
    for probe in range(_MOST_PROBES):
        _take_times(plain)
        others.follow_others(True)  # as in the target, since it has a cost
        collector.enable()
        try:
            _take_times(traced)
        finally:
            collector.disable()
            others.follow_others(False)
        if probe + 1 >= _PROBES and all(with_events > without for with_events, without in zip(traced, plain)):
            break
    # The time for which a traced empty call is open.
    python_inside, c_inside = collector.own_time(_empty.__code__), collector.own_time(get_ident)
    by_call, by_c_code, c_call = (
        max(0.0, with_events - without) for with_events, without in zip(traced, plain)
    )
    python_inside = min(max(0.0, python_inside - _EMPTY_PART * plain[0]), by_c_code)
    c_inside = min(max(0.0, c_inside - _EMPTY_PART * plain[2]), c_call)
    return (
        by_c_code - python_inside,
        python_inside,
        c_call - c_inside,
        c_inside,
        max(0.0, by_call - by_c_code),
    )


def _take_times(least: List[float]) -> None:
    """Time one call of each kind, in seconds, and keep the smaller times."""
    for place, calls in enumerate(_PROBED):
        begun = perf_counter()
        calls()
        least[place] = min(least[place], (perf_counter() - begun) / _PROBED_CALLS)


def _empty() -> None:
    pass


def _call_from_python(times: range = range(_PROBED_CALLS)) -> None:
    for _ in times:
        _empty()


def _call_from_c(times: range = range(_PROBED_CALLS)) -> None:
    for _ in zip(times, iter(_empty, 1)):
        pass


def _call_c(times: range = range(_PROBED_CALLS), function: Any = get_ident) -> None:
    for _ in times:
        function()


_PROBED = (_call_from_python, _call_from_c, _call_c)
#: Number of costs, and a time in seconds longer than any of them.
_COSTS, _MUCH = 5, 1.0
