"""Whether the two sides of a comparison can be compared."""

from __future__ import annotations

from collections.abc import Mapping

from profkit.verdict.rule import Reading

COMPARABLE_SIDES: Mapping[str, Reading] = {
    "pair.identical": Reading("bool", "both sides are the same capture", lambda c: c.signals.identical),
    "pair.unfinished": Reading(
        "bool", "the exit statuses differ, or a signal ended a target", lambda c: c.signals.unfinished
    ),
    "pair.counters": Reading(
        "bool", "the kernel's counters of both sides are known", lambda c: c.signals.counters or None
    ),
    "pair.plain": Reading("bool", "a side has no counters", lambda c: not c.signals.counters),
    "pair.python-differs": Reading(
        "bool", "the versions of Python differ", lambda c: c.signals.python_differs
    ),
    "pair.sampled-differs": Reading(
        "bool", "only one side comes from a sampling profiler", lambda c: c.signals.sampled_differs
    ),
    "pair.threads-differ": Reading(
        "bool",
        "one side has calls of threads that the other could not see",
        lambda c: c.signals.threads_differ,
    ),
    "pair.residue": Reading(
        "share", "self time in functions that the other side lacks", lambda c: c.signals.unmatched
    ),
}
