"""Parts of notices' sentences that combine several numbers (`report.notices`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from profkit.report import units


def listed(ids: tuple[int, ...], total: int) -> str:
    return ", ".join(map(str, ids)) + (", …" if total > len(ids) else "")


def _own_cprofile(said: Mapping[str, Any]) -> str:
    often = f" {said['times']:,} times," if said["times"] > 1 else ""
    begin, end = units.seconds(said["begin_s"]), "its end"
    if "end_s" in said:
        end = f"{units.seconds(said['end_s'])} after its start"
    return (
        f"the program used a profiler of its own{often} from {begin} to {end}: what ran then is in that "
        "profile, not in this run"
    )


def _after_record(said: Mapping[str, Any], *, exact: bool = False) -> str:
    """Return what is missing from the record of a process that ran on after it."""
    several = len(said["pids"]) > 1
    if "kept" in said:
        return "its functions are complete" if not several else "their functions are complete"
    if "lost_s" not in said:
        lost = "what came after its newest record is missing"
    elif several:
        lost = f"functions of at most the last {units.seconds(said['lost_s'])} of each are missing"
    else:
        lost = (
            f"functions of {'' if exact else 'at most '}its last {units.seconds(said['lost_s'])} are missing"
        )
    if "cpu_s" in said:
        cpu = units.seconds(said["cpu_s"])
        lost += f" ({'' if exact else 'at least '}{cpu} of CPU{' in all' if several else ''})"
    return lost + _estimated(said)


def _estimated(said: Mapping[str, Any]) -> str:
    return ", and calls that had not returned have estimated times" if "estimated" in said else ""


def _process_running(said: Mapping[str, Any]) -> str:
    since = ""
    if "lost_s" in said:
        used = f" (at least {units.seconds(said['cpu_s'])} of CPU)" if "cpu_s" in said else ""
        at_most = "at most " if len(said["pids"]) > 1 else ""
        since = f", {at_most}{units.seconds(said['lost_s'])}{used} after its newest record"
    if "kept" in said:
        return "still running when the run file was written: what came after that is missing"
    return f"still running when the run file was written{since}: what came after that is missing{_estimated(said)}"


def _range_in_domain(said: Mapping[str, Any]) -> str:
    where = ""
    if "domain" in said:
        where = f" of the domain “{said['domain']}”" if said["domain"] else " of the default domain"
    return f"“{said['subject']}”{where}"


def _step(said: Mapping[str, Any]) -> str:
    if said["subject"]:
        return f"no NVTX range {_range_in_domain(said)} (--step-range) began"
    return "the program did not call profkit.step()"


def _threads_in_one_stack(said: Mapping[str, Any]) -> str:
    if said["pids"]:  # otherwise another tool made the profile
        return (
            f"several threads ran under Python {said['python']}, where cProfile records all threads in one "
            "stack: times of functions are not reliable; install a C compiler, then profkit again: its "
            "tracer keeps threads apart"
        )
    return (
        f"cProfile of Python {said['python']} records all threads in one stack: times are not reliable, and "
        "cumulative times can exceed the run; profkit capture keeps threads apart"
    )


class Phrase(NamedTuple):
    """What combines several numbers, which it names with their units; ``?`` marks one that may be absent."""

    says: Callable[[Mapping[str, Any]], str]
    numbers: Mapping[str, str]


#: `lost_s`: time from a process's newest record to its end, the longest of all processes. `cpu_s`: their CPU
#: time in that period. `estimated`: processes whose open calls have estimated times. `kept`: processes of which
#: nothing is missing.
_UNRECORDED = {"lost_s": "s?", "cpu_s": "s?", "estimated": "count?", "kept": "count?"}
_DOMAIN = {"domain": "?"}  # empty for the default domain, absent for any

PHRASES: Mapping[str, Phrase] = {
    "after": Phrase(_after_record, _UNRECORDED),
    "exactly_after": Phrase(lambda said: _after_record(said, exact=True), _UNRECORDED),
    "running": Phrase(_process_running, _UNRECORDED),
    "own_cprofile": Phrase(_own_cprofile, {"times": "count", "begin_s": "s", "end_s": "s?"}),
    "one_stack": Phrase(_threads_in_one_stack, {"python": "python"}),
    "range": Phrase(_range_in_domain, _DOMAIN),
    "step": Phrase(_step, _DOMAIN),
    "listed": Phrase(
        lambda said: listed(said["ranks"], said["missing"]), {"ranks": "ids", "missing": "count"}
    ),
    "some": Phrase(
        lambda said: "some" if said.get("functions", 1) else "all of them", {"functions": "count?"}
    ),
}
