"""The rows of a difference: every function of either side with ranks, times, and whether it moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from profkit.compare.replicates import Replicates, ranked_seconds, ranked_times
from profkit.compare.result_types import UNCALLED, UNSEEN, DiffTable, SideTable
from profkit.compare.sampled_calls import call_ratios
from profkit.identity.align import RUNGS, Alignment, Columns, Joined, sorted_places
from profkit.identity.edits import added_lines, standing_rows
from profkit.identity.function_keys import infer_roots
from profkit.identity.lookup_columns import Keys, Looked
from profkit.identity.rooted_paths import relative_to
from profkit.measure import noise
from profkit.measure.function_orders import MAD_SCALE, ascending, log_ratios, ranks
from profkit.model import PROJECT, Profile
from profkit.model.arrays import Bools, Floats, Ints, Rows, distinct, median
from profkit.model.profile import ESTIMATES
from profkit.model.thread import Definition, name_digest

_Sides: TypeAlias = tuple[Replicates, Replicates]
#: For each row of the table, its row in either side, −1 where that lacks it.
_BothRows: TypeAlias = tuple[Rows, Rows]

#: A change beyond this many standard deviations of the replicates is not noise.
SIGMAS = 3.0
#: Factor on unseen seconds for a function whose definition the missing side has too (convention).
LESS_OF_DEFINED = 4.0


def build_table(
    joined: Joined,
    found: Alignment,
    a: Replicates,
    b: Replicates,
    by: str,
    unseen: tuple[Sequence[Definition], Sequence[Definition]] = ((), ()),
) -> tuple[DiffTable, tuple[Rows, Rows]]:
    """Return the table, greatest absolute change first, and each row's row in both sides (−1: absent).

    `unseen` are functions that a side defines and samples missed, beside its rows.
    """
    none_a, none_b = len(found.candidate_only), len(found.baseline_only)
    row_a = np.concatenate([found.baseline, found.baseline_only, np.full(none_a, -1, np.int32)])
    row_b = np.concatenate([found.candidate, np.full(none_b, -1, np.int32), found.candidate_only])
    rung = np.concatenate([found.rung, np.full(none_b, len(RUNGS)), np.full(none_a, len(RUNGS) + 1)])

    active = a.profile.blocked is not None and b.profile.blocked is not None
    value_a, value_b = (ranked_seconds(side.profile, by, active) for side in (a, b))
    rank_a = ranks(value_a, _key_order(joined, joined.baseline, value_a))
    rank_b = ranks(value_b, _key_order(joined, joined.candidate, value_b))
    change = at_rows(value_b, row_b) - at_rows(value_a, row_a)
    place = np.maximum(at_rows(rank_a, row_a), at_rows(rank_b, row_b))
    order = ascending(-np.abs(change), place)
    row_a, row_b, rung = row_a[order], row_b[order], rung[order]
    sides, rows = (a, b), (row_a, row_b)

    side_a = side_table(a.profile, row_a, rank_a, value_a, by, active)
    side_b = side_table(b.profile, row_b, rank_b, value_b, by, active)
    defined = _defined(joined, row_a, row_b, unseen)
    standing_a, standing_b = standing_rows(joined, found)
    stands = np.isin(row_a, standing_a) | np.isin(row_b, standing_b) | (defined > 0)
    missed_a = _may_be_missed(a, side_a, side_b, stands)
    missed_b = _may_be_missed(b, side_b, side_a, stands)
    side_a, side_b = _without_calls(side_a, missed_a), _without_calls(side_b, missed_b)
    log_ratio = log_ratios(side_a.tottime, side_a.ncalls, side_b.tottime, side_b.ncalls)
    added = added_lines(joined, found)[row_a]
    source = _same_source(joined, row_a, row_b, added, defined)
    keys, names, files, lines = _labels(joined, a, b, row_a, row_b)
    kinds = (*RUNGS, "gone", "new", UNSEEN, UNCALLED)
    rung = np.where(stands, kinds.index(UNCALLED), rung)
    rung = np.where(missed_a | missed_b, kinds.index(UNSEEN), rung)
    table = DiffTable(
        keys=keys,
        name=names,
        file=files,
        line=lines,
        match=Looked(rung, kinds),
        baseline=side_a,
        candidate=side_b,
        per_call_ratio=np.exp(log_ratio),
        same_source=source,
        added_lines=added,
        anomalous=np.zeros(len(row_a), np.bool_),
        p_value=_p_values(sides, rows, np.maximum(side_a.share, side_b.share), by),
    )
    if not (a.exact and b.exact):
        log_ratio = np.where(call_ratios(table).known, log_ratio, np.nan)
    anomalous = _anomalous(table, sides, rows, log_ratio, by) & ~(missed_a | missed_b)
    return replace(table, per_call_ratio=np.exp(log_ratio), anomalous=anomalous), rows


def _may_be_missed(side: Replicates, own: SideTable, other: SideTable, stands: Bools) -> Bools:
    """Return rows that a side lacks and may have missed, since they take little on the other side."""
    seen_s = np.maximum(other.tottime, other.cumtime) - other.estimates[-1]
    most = np.where(stands, LESS_OF_DEFINED, 1.0) * side.unseen_s
    return ~own.present & (seen_s <= most) & (side.unseen_s > 0)


def _without_calls(side: SideTable, missed: Bools) -> SideTable:
    """Return the side with calls marked unknown (NaN) where it may have missed the function."""
    if side.calls_low is None or side.calls_high is None:
        return side
    low, high = (np.where(missed, np.nan, limit) for limit in (side.calls_low, side.calls_high))
    return replace(side, calls_low=low, calls_high=high)


def at_rows(values: npt.NDArray[np.generic], rows: Rows) -> Floats:
    """Return the values at `rows` of the last axis, 0 where a row is −1."""
    if not values.shape[-1]:
        return np.zeros((*values.shape[:-1], len(rows)))
    return np.where(rows >= 0, values[..., rows].astype(np.float64), 0.0)


def _key_order(joined: Joined, side: Columns, values: Floats) -> Ints:
    """Return positions in key order for rows that share their value with another row; 0 for all others."""
    _, of, count = np.unique(values, return_inverse=True, return_counts=True)
    rows = np.flatnonzero(count[of.reshape(len(values))] > 1)
    result = np.zeros(len(values), np.int64)
    if len(rows):
        named = np.where(side.qualname[rows] != 0, side.qualname[rows], side.name[rows])
        letter = sorted_places(distinct(named), joined.strings)
        shelf = sorted_places(np.arange(len(joined.files)), joined.files)
        by_key = np.lexsort((side.line[rows], letter[named], shelf[side.file[rows]]))
        result[rows[by_key]] = np.arange(len(rows))
    return result


def side_table(profile: Profile, rows: Rows, rank: Ints, values: Floats, by: str, active: bool) -> SideTable:
    """Return a side's columns: the profile's rows, absent where −1; `values` are what shares are of."""
    whole = float(values.sum() if by == "tottime" else values.max(initial=0.0))

    def column(name: str) -> Any:
        known = getattr(profile, name)
        return None if known is None else at_rows(known, rows).astype(known.dtype)

    calls, times = ("ncalls", "primitive_calls"), ("tottime", "cumtime", "wait", "cumwait")
    return SideTable(
        present=rows >= 0,
        rank=at_rows(rank, rows).astype(np.int64),
        active=at_rows(ranked_seconds(profile, "tottime", active), rows),
        share=at_rows(values, rows) / whole if whole > 0 else np.zeros(len(rows)),
        **{name: column(name) for name in (*calls, *times, *ESTIMATES)},
    )


def _defined(
    joined: Joined, row_a: Rows, row_b: Rows, unseen: tuple[Sequence[Definition], Sequence[Definition]]
) -> Ints:
    """Return for one-sided rows whether the other side defines them: 1 with this source, 2 with another, else 0."""
    result = np.zeros(len(row_a), np.int64)
    sides = (joined.baseline, row_a, unseen[0]), (joined.candidate, row_b, unseen[1])
    for (own, absent, listed), (other, present, _) in (sides, sides[::-1]):
        known: dict[tuple[int, str], set[str]] = {}
        for one in listed:
            known.setdefault((int(own.file[one.beside]), one.name), set()).add(one.source_hash)
        if not known or not len(other.file):
            continue
        files = np.array(sorted({file for file, _ in known}), np.int64)
        one_sided = (absent < 0) & np.isin(other.file[np.maximum(present, 0)], files)
        for row in np.flatnonzero(one_sided).tolist():
            at = int(present[row])
            name = joined.strings[int(other.qualname[at]) or int(other.name[at])]
            hashes = known.get((int(other.file[at]), name_digest(name)))
            digest = joined.strings[int(other.source_hash[at])]
            if hashes and digest:
                result[row] = 1 if digest in hashes else 2
    return result


def _same_source(joined: Joined, row_a: Rows, row_b: Rows, added: Ints, defined: Ints) -> Looked[bool | None]:
    """Return whether sources are equal, from hashes, or from definitions that moved."""
    both = (row_a >= 0) & (row_b >= 0)
    hash_a, hash_b = joined.baseline.source_hash[row_a[both]], joined.candidate.source_hash[row_b[both]]
    found = np.where(added != 0, 2, 0).astype(np.int8)
    known = (hash_a != 0) & (hash_b != 0)
    found[np.flatnonzero(both)[known]] = np.where(hash_a == hash_b, 1, 2)[known]
    found[defined > 0] = defined[defined > 0]
    return Looked(found, (None, True, False))


def _anomalous(table: DiffTable, sides: _Sides, rows: _BothRows, log_ratio: Floats, by: str) -> Bools:
    """Return the rows whose rank and seconds changed by more than noise.

    Since the top row cannot climb, a grown share or a time per call apart from the common factor counts too.
    """
    a, b = table.baseline, table.candidate
    total_a, total_b = (side.profile.total for side in sides)
    seconds_a, seconds_b = (side.active if by == "tottime" else side.cumtime for side in (a, b))
    change = seconds_b - seconds_a
    matters = np.abs(change) >= max(noise.MIN_SECONDS, noise.MIN_SHARE * max(total_a, total_b))
    if by == "tottime":
        # Sampled times that differ within their intervals did not change.
        matters &= np.abs(change) > np.hypot(*(side.estimates[-1] for side in (a, b)))
    both, share = a.present & b.present, np.maximum(a.share, b.share)
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = np.abs(np.log(seconds_b / seconds_a))
        climb = np.abs(np.log(a.rank / b.rank)) * share
    beyond = grown > _noise(sides, rows, by)

    heavy = both & (share >= noise.MIN_SHARE) & np.isfinite(log_ratio)
    common = float(median(log_ratio[heavy])) if heavy.any() else 0.0
    apart = np.abs(log_ratio - common) > np.log(noise.TOTAL_RATIO_P95)
    moved = climb > noise.CLIMB_P99
    moved |= np.abs(b.share - a.share) > noise.TV_P95
    moved |= (np.abs(change) > noise.TV_P95 * total_a) & apart
    if min(side.runs for side in sides) >= noise.MIN_RUNS_NOISE:
        moved |= (share >= noise.OWN_NOISE_SHARE) & apart
    return np.where(both, moved & beyond & matters, matters & (share >= noise.MIN_SHARE))


def _noise(sides: _Sides, rows: _BothRows, by: str) -> Floats:
    """Return the change of ln seconds that noise can cause, by row; pooled without enough replicates."""
    pooled = np.full(len(rows[0]), np.log(noise.TOTAL_RATIO_P95))
    if min(side.runs for side in sides) < noise.MIN_RUNS_NOISE:
        return pooled
    variance = np.zeros(len(rows[0]))
    for times, placed in zip(ranked_times(*sides, by), rows, strict=True):
        scatter = np.maximum(noise.log_scatter(times), noise.CLEAN_SCATTER)
        totals = np.log(np.maximum(times.sum(axis=1), 1e-12))
        drift = MAD_SCALE * float(median(np.abs(totals - median(totals))))
        variance += at_rows(scatter**2, placed) + drift**2
    own = SIGMAS * np.sqrt(variance)
    return np.where(np.isfinite(own), own, pooled)


def _p_values(sides: _Sides, rows: _BothRows, share: Floats, by: str) -> Floats:
    """Return adjusted rank-sum p-values of rows that are large enough to matter, NaN for the others."""
    result = np.full(len(share), np.nan)
    if min(side.runs for side in sides) < noise.MIN_RUNS_TEST:
        return result
    tested = np.flatnonzero(share >= noise.MIN_SHARE)
    values_a, values_b = (
        at_rows(times, placed[tested]) for times, placed in zip(ranked_times(*sides, by), rows, strict=True)
    )
    result[tested] = noise.adjusted(noise.rank_sum_p(values_a, values_b))
    return result


def _labels(
    joined: Joined, a: Replicates, b: Replicates, row_a: Rows, row_b: Rows
) -> tuple[Keys, Looked[str], Looked[str], Looked[int]]:
    """Return key, name, file and line of every row, from the candidate where it has the row."""
    n = len(row_a)
    from_b = row_b >= 0
    columns = {}
    for name in ("file", "raw_file", "line", "name", "qualname"):
        column = np.zeros(n, np.int32)
        column[from_b] = getattr(joined.candidate, name)[row_b[from_b]]
        column[~from_b] = getattr(joined.baseline, name)[row_a[~from_b]]
        columns[name] = column
    # Show the qualified name even where only one side knows it.
    ours = np.zeros(n, np.int32)
    ours[row_a >= 0] = joined.baseline.qualname[row_a[row_a >= 0]]
    named = np.where(columns["qualname"] != 0, columns["qualname"], ours)
    names = Looked(np.where(named != 0, named, columns["name"]), joined.strings)
    keys = Keys(columns["file"], _relative_files(joined, a, b), names)
    least, most = (int(limit) for limit in (columns["line"].min(initial=0), columns["line"].max(initial=0)))
    lines = Looked(columns["line"].astype(np.int64) - least, range(least, most + 1))
    return keys, names, Looked(columns["raw_file"], joined.strings), lines


def _relative_files(joined: Joined, a: Replicates, b: Replicates) -> list[tuple[str, str]]:
    """Return files by common number; project files left absolute are cut at their inferred root."""
    if not any(root == PROJECT and (path[:1] == "/" or path[1:2] == ":") for root, path in joined.files):
        return list(joined.files)
    project = tuple(
        directory
        for side in (a, b)
        for directory in (side.roots.project or infer_roots(side.profile).project)
    )
    found = []
    for root, path in joined.files:
        inside = relative_to(path, project) if root == PROJECT else None
        found.append((root, path if inside is None else inside))
    return found
