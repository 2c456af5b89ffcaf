"""`Diff` or `Run` → every function and call as columns for a page; only negligible calls are cut."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from profkit.compare.call_table import CallSide, CallTable
from profkit.compare.result_types import SideTable
from profkit.measure.waits_by_name import is_wait
from profkit.model import FunctionKey, Profile
from profkit.report.figures import CallGraph, FunctionColumns, FunctionTable
from profkit.report.functions import Ranked, active_seconds
from profkit.report.text import clean
from profkit.report.wording.functions import display_name, location, match_text, moved_text
from profkit.verdict.types import Diff

#: Pairs of caller and callee that a page holds; a report of 10 000 functions then stays below 1 MB.
MOST_CALLS = 8000


def diff_functions(diff: Diff) -> FunctionTable:
    """Return every function of either side, in the order of the comparison's table."""
    table = diff.table
    places, roots, place = _places(table.keys, table.file)
    moved = (i for i in np.flatnonzero(table.anomalous).tolist() if table.candidate.present[i])
    return FunctionTable(
        names=tuple(map(display_name, table.name)),
        places=places,
        roots=roots,
        place=place,
        line=np.fromiter(table.line, np.int32, len(table)),
        marked=table.anomalous,
        by=diff.ranking.by,
        before=_columns(table.baseline),
        after=_columns(table.candidate),
        match={row: match for row, match in enumerate(table.match) if match_text(match)},
        reason={row: clean(moved_text(table, row)) for row in np.flatnonzero(table.anomalous).tolist()},
        start=next((i for i in moved if not is_wait(table.name[i], table.keys[i].root)), -1),
        uncounted=table.by_share,
    )


def _columns(side: SideTable) -> FunctionColumns:
    kinds = _kinds(side.calls_low, side.calls_high)
    return FunctionColumns(side.rank, side.ncalls, side.active, side.cumtime, side.wait, *kinds)


def _kinds(
    low: npt.NDArray[np.float64] | None, high: npt.NDArray[np.float64] | None
) -> tuple[npt.NDArray[np.bool_] | None, npt.NDArray[np.bool_] | None]:
    """Rows whose number of calls is estimated, and those where it is not known."""
    return (None, None) if low is None or high is None else (low < high, np.isnan(low))


def run_functions(functions: Ranked, by: str) -> FunctionTable:
    """Return every function of one run, in the order of its profile's rows."""
    profile = functions.profile
    n = len(profile)
    rank = np.empty(n, np.int64)
    rank[functions.order] = np.arange(1, n + 1)
    named = np.where(profile.qualname != 0, profile.qualname, profile.name)
    keys = tuple(functions.keys.key(row) for row in range(n))
    files = tuple(profile.strings[i] for i in profile.file.tolist())
    places, roots, place = _places(keys, files)
    return FunctionTable(
        names=tuple(display_name(profile.strings[i]) for i in named.tolist()),
        places=places,
        roots=roots,
        place=place,
        line=profile.line,
        marked=np.zeros(n, np.bool_),
        by=by,
        after=FunctionColumns(
            rank,
            profile.ncalls,
            active_seconds(profile),
            profile.cumtime,
            profile.wait,
            *_kinds(profile.calls_low, profile.calls_high),
        ),
    )


def _places(
    keys: Sequence[FunctionKey], files: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...], npt.NDArray[np.int32]]:
    """Distinct places and their roots, and the place of each row."""
    known: dict[tuple[str, str, str], int] = {}
    add = known.setdefault
    # The file only matters where the key has no path, as for built-in and generated code.
    place = np.fromiter(
        (
            add((key.root, key.path, "" if key.path else file), len(known))
            for key, file in zip(keys, files, strict=True)
        ),
        np.int32,
        len(keys),
    )
    places = tuple(location(FunctionKey(root, path, ""), file, 0) for root, path, file in known)
    return places, tuple(clean(root) for root, _, _ in known), place


def diff_calls(calls: CallTable | None) -> CallGraph | None:
    """Return the heaviest pairs of both sides."""
    if calls is None:
        return None
    return _graph(calls.caller, calls.callee, calls.candidate, calls.baseline)


def run_calls(profile: Profile) -> CallGraph | None:
    """Return the heaviest pairs of one run."""
    edges = profile.edges
    if edges is None:
        return None
    order = np.lexsort((edges.caller, edges.callee))
    side = CallSide(edges.ncalls[order], edges.tottime[order], edges.cumtime[order])
    return _graph(edges.caller[order], edges.callee[order], side, None)


def _graph(
    caller: npt.NDArray[np.int32],
    callee: npt.NDArray[np.int32],
    after: CallSide,
    before: CallSide | None,
) -> CallGraph:
    heavy = after.cumtime if before is None else np.maximum(after.cumtime, before.cumtime)
    keep = heavy > 0
    if int(keep.sum()) > MOST_CALLS:
        keep[np.argsort(-heavy, kind="stable")[MOST_CALLS:]] = False

    def kept(side: CallSide) -> CallSide:
        return CallSide(side.ncalls[keep], side.tottime[keep], side.cumtime[keep])

    return CallGraph(
        caller[keep],
        callee[keep],
        kept(after),
        None if before is None else kept(before),
        int((~keep).sum()),
        float(heavy[~keep].max(initial=0.0)),
    )
