"""The lines of the function that a verdict names, or that holds most of what its cause explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from profkit.identity.readable_names import readable_name
from profkit.measure.line_times import FunctionLines
from profkit.verdict.account import Account
from profkit.verdict.types import Verdict

#: Least part of the explained time in a function for its lines to be shown.
LEAST_PART = 0.1
#: Causes that lie in functions rather than around the program.
_IN_FUNCTIONS = frozenset(
    (
        *("code-change", "workload-change", "blocked", "data-starvation", "interpreter-lock", "start-up"),
        *("garbage-collection", "thread-settings", "environment", "faster"),
    )
)

#: Returns the lines of a function by its row.
_Lines = Callable[[int], FunctionLines]


def lines_of_verdict(
    verdict: Verdict, account: Account, names: Sequence[str], lines: _Lines
) -> FunctionLines | None:
    """Return the lines of the function that a comparison's verdict is about; ``None`` if unknown."""
    if verdict.cause not in _IN_FUNCTIONS:
        return None
    rows = [
        row for row, name in enumerate(names) if verdict.subject and readable_name(name) == verdict.subject
    ]
    buckets = {finding.bucket for finding in verdict.findings[:1]}
    if verdict.cause == "faster":
        buckets = {min(account.buckets, key=lambda bucket: bucket.seconds).name}
    return _first([*rows, *_parts(account, buckets)], abs(account.added_s), lines)


def lines_of_account(verdict: Verdict | None, account: Account, lines: _Lines) -> FunctionLines | None:
    """Return the lines of the function with most of one run's time, or that its verdict is about."""
    cause = verdict.findings[0].bucket if verdict is not None and verdict.findings else ""
    buckets = {cause if verdict is not None and verdict.cause in _IN_FUNCTIONS else "running"}
    return _first(_parts(account, buckets), account.candidate_s, lines)


def _parts(account: Account, buckets: set[str]) -> list[int]:
    parts = [
        part
        for bucket in account.buckets
        if bucket.name in buckets
        for part in bucket.parts
        if part.row >= 0 and part.kind == "function"
    ]
    return [part.row for part in sorted(parts, key=lambda part: -abs(part.seconds))]


def _first(rows: Sequence[int], whole: float, lines: _Lines) -> FunctionLines | None:
    for row in dict.fromkeys(rows):
        found = lines(row)
        seen = max(sum(line.seconds for line in side) for side in (found.baseline, found.candidate))
        if seen >= LEAST_PART * whole and seen > 0:
            return found
    return None
