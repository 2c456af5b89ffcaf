"""From an agent's tables of one thread to a `Profile`: sums, open calls, qualified names and source hashes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from profkit.capture.range_tables import range_calls
from profkit.capture.source import SourceFiles
from profkit.model import Edges, OpenCall, Profile, RangeCalls

__all__ = ["ThreadTables"]

#: Columns of a record's rows of waiting, behind the function.
_WAITING = ("wait", "cumwait", "blocked", "cumblocked")


class ThreadTables:
    """Builds profiles; all of one run share source files and what is known of a function."""

    def __init__(self) -> None:
        self._sources = SourceFiles()
        self._known: dict[tuple[str, int, str, str], tuple[str, str]] = {}
        self._modules: dict[tuple[str, tuple[str, ...]], str] = {}

    def empty(self) -> Profile:
        """A profile of no functions, for threads that ran no Python."""
        return Profile.empty()

    def profile(
        self, record: Mapping[str, Any], table: Mapping[str, Any]
    ) -> tuple[Profile, tuple[OpenCall, ...], RangeCalls | None]:
        """Return one thread's profile, its open calls counted in, the rows of those, and what ran inside ranges."""
        functions = np.array([row[:3] for row in table["functions"]], np.int64).reshape(-1, 3)
        times = np.array([row[3:] for row in table["functions"]], np.float64).reshape(-1, 2)
        edges = np.array([row[:4] for row in table["edges"]], np.int64).reshape(-1, 4)
        edge_times = np.array([row[4:] for row in table["edges"]], np.float64).reshape(-1, 2)
        open_functions = np.array([row[0] for row in table["open"]], np.int64)

        # Rows for every function that has an entry, is open, or occurs at an edge only (its caller is open).
        waiting = table.get("waiting", [])
        waiters = np.array([row[0] for row in waiting], np.int64)
        numbers = np.unique(
            np.concatenate([functions[:, 0], open_functions, edges[:, 0], edges[:, 1], waiters])
        )
        row_of = np.full(len(record["codes"]) + 1, -1, np.int32)
        row_of[numbers] = np.arange(len(numbers), dtype=np.int32)
        rows = row_of[functions[:, 0]]
        n = len(numbers)
        ncalls, recursive = np.zeros(n, np.int64), np.zeros(n, np.int64)
        cumtime, tottime = np.zeros(n), np.zeros(n)
        # Added, not set: two built-in functions may have one label, and with it one number.
        np.add.at(ncalls, rows, functions[:, 1])
        np.add.at(recursive, rows, functions[:, 2])
        np.add.at(cumtime, rows, times[:, 0])
        np.add.at(tottime, rows, times[:, 1])
        primitive = ncalls - recursive

        open_edges = []
        seen: set[int] = set()
        calls = []
        for position, (number, within, own) in enumerate(table["open"]):
            row = int(row_of[number])
            calls.append(OpenCall(row, float(within)))
            ncalls[row] += 1
            tottime[row] += own
            if row not in seen:  # a recursive call's time is within that of the outer one
                seen.add(row)
                primitive[row] += 1
                cumtime[row] += within
            if position:
                open_edges.append((row_of[table["open"][position - 1][0]], row, own, within))
        extra = np.array([(a, b) for a, b, _, _ in open_edges], np.int64).reshape(-1, 2)
        extra_times = np.array([(c, d) for _, _, c, d in open_edges], np.float64).reshape(-1, 2)
        ones = np.ones(len(extra), np.int64)
        profile_edges = Edges(
            caller=np.concatenate([row_of[edges[:, 0]], extra[:, 0].astype(np.int32)]),
            callee=np.concatenate([row_of[edges[:, 1]], extra[:, 1].astype(np.int32)]),
            ncalls=np.concatenate([edges[:, 2], ones]),
            primitive_calls=np.concatenate([edges[:, 2] - edges[:, 3], ones]),
            tottime=np.concatenate([edge_times[:, 1], extra_times[:, 0]]),
            cumtime=np.concatenate([edge_times[:, 0], extra_times[:, 1]]),
        )
        waits: dict[str, Any] = {}
        if table.get("measured"):
            seconds = np.array([row[1:] for row in waiting], np.float64).reshape(-1, len(_WAITING))
            for place, column in enumerate(_WAITING):
                waits[column] = np.zeros(n)
                np.add.at(waits[column], row_of[waiters], seconds[:, place])
        labels = self._labels(record, numbers)
        if waits and record.get("tracer") == "cprofile":
            strings = labels["strings"]
            builtin = labels["file"] == (strings.index("~") if "~" in strings else -1)
            _share_with_builtins(waits, tottime, profile_edges, builtin)
        profile = Profile(
            **labels,
            ncalls=ncalls,
            primitive_calls=primitive,
            tottime=tottime,
            cumtime=cumtime,
            edges=profile_edges,
            **waits,
        )
        inside = range_calls(table, row_of)
        return profile.validate(), tuple(calls), None if inside is None else inside.validate(n)

    def _labels(self, record: Mapping[str, Any], numbers: np.ndarray[Any, Any]) -> dict[str, Any]:
        strings: dict[str, int] = {"": 0}
        columns: dict[str, list[int]] = {
            name: [] for name in ("file", "line", "name", "qualname", "module", "source_hash")
        }
        roots = tuple(sorted((p for p in record["path"] if p), key=len, reverse=True))
        for number in numbers.tolist():
            code = tuple(record["codes"][number])
            file, line, name, _ = code
            qualname, source_hash = self._describe(code)
            if file == "~":
                module = ""
            else:
                module = self._modules.get((file, roots), "?")
                if module == "?":
                    module = self._modules[(file, roots)] = _module_name(file, roots)
            columns["line"].append(line)
            for column, text in (
                ("file", file),
                ("name", name),
                ("qualname", qualname),
                ("module", module),
                ("source_hash", source_hash),
            ):
                columns[column].append(strings.setdefault(text, len(strings)))
        arrays = {name: np.array(values, np.int32) for name, values in columns.items()}
        return {"strings": tuple(strings), **arrays}

    def _describe(self, code: tuple[str, int, str, str]) -> tuple[str, str]:
        """Return ``(qualified name, source hash)`` from the source file."""
        known = self._known.get(code)
        if known is None:
            file, line, name, qualname = code
            source = None if file == "~" or file.startswith("<") else self._sources.get(file)
            known = (qualname, "")
            if source is not None:
                if not qualname and not name.startswith("<"):  # the interpreter is older than 3.11
                    qualname = source.qualname(line, name)
                known = (qualname, source.hash(line, name))
            self._known[code] = known
        return known


def _share_with_builtins(
    waits: dict[str, Any],
    tottime: np.ndarray[Any, Any],
    edges: Edges,
    builtin: np.ndarray[Any, Any],
) -> None:
    """Divide sampled waiting among a Python function and the C functions that it called, in place, by their time.

    A sample sees the Python function alone, whichever of them the thread was in.
    """
    calls = builtin[edges.callee] & ~builtin[edges.caller]
    caller, callee = edges.caller[calls], edges.callee[calls]
    time = np.maximum(edges.tottime[calls], 0.0)
    whole = np.maximum(tottime, 0.0)
    np.add.at(whole, caller, time)
    part = np.divide(time, whole[caller], out=np.zeros(len(time)), where=whole[caller] > 0)
    for own, cumulative in (("wait", "cumwait"), ("blocked", "cumblocked")):
        moved = waits[own][caller] * part
        np.subtract.at(waits[own], caller, moved)
        np.maximum(waits[own], 0.0, out=waits[own])
        np.add.at(waits[own], callee, moved)
        np.add.at(waits[cumulative], callee, moved)


def _module_name(file: str, roots: tuple[str, ...]) -> str:
    """Return the dotted name under which a file is imported, from the import path; empty if unknown."""
    for root in roots:
        prefix = root.rstrip("/") + "/"
        if file.startswith(prefix) and file.endswith(".py"):
            parts = file[len(prefix) : -3].split("/")
            if parts[-1] == "__init__":
                parts.pop()
            if parts and all(part.isidentifier() for part in parts):
                return ".".join(parts)
    if file.startswith("<frozen ") and file.endswith(">"):
        return file[8:-1]
    return ""
