"""Reads a tracer's tables for tracer_target.py, which runs in interpreters that profkit's reader is not for.

Standard input is a JSON list of the file and the time of each copy; prints a list of what each held. A thread is its
number, whether its waiting was measured, its functions with their callees, as cProfile's ``getstats`` has them, with
four times of waiting more, and its open calls with their times.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from profkit.capture.mapped_tables import MappedTables, read_tables
from profkit.capture.thread_tables import ThreadTable


def of_thread(file: MappedTables, table: ThreadTable) -> list[Any]:
    codes = file.codes
    sums = {function: list(row) for function, *row in table.functions.tolist()}
    waits: dict[int, list[float]] = {}
    for function, *row in table.waiting.tolist():  # a function's calls, and each open one
        waits[function] = [a + b for a, b in zip(waits.get(function, [0.0] * 4), row, strict=True)]
    callees: dict[int, list[Any]] = {}

    def code(number: int) -> Any:
        place = codes.files[codes.file[number]]
        return codes.name[number] if place == "~" else [place, int(codes.line[number]), codes.name[number]]

    for caller, callee, *row in table.edges.tolist():
        callees.setdefault(caller, []).append([code(callee), *row])
    entries = [
        [code(number), *sums.get(number, [0] * 4), *waits.get(number, [0.0] * 4), callees.get(number)]
        for number in sorted({*sums, *waits, *callees})
    ]
    opened = [[code(number), within, own] for number, within, own in table.open.tolist()]
    return [table.native, table.measured, entries, opened]


def main() -> None:
    """Answer the request."""
    found = []
    for path, until in json.load(sys.stdin):
        file = read_tables(Path(path), growing=True)
        assert not file.missed
        found.append([of_thread(file, table) for table in file.threads(until, {}, {})])
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
