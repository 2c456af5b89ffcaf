"""Groups of columns in a run file: edges, ranges, functions inside ranges, calling contexts, samples of threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from profkit.formats.limits import text_sizes
from profkit.formats.run_columns import Array, read_group, read_strings, stored
from profkit.formats.run_json import Rows
from profkit.formats.run_members import Members
from profkit.model import Edges, Paths, RangeCalls, Ranges, ThreadSamples
from profkit.model.columns import column_dtypes
from profkit.model.merge import Strings


@dataclass(frozen=True, slots=True)
class Group:
    """Columns in members below `name`.

    `what` is the key in `limits.WEIGHTS`; `texts` are columns of indices into the group's string table.
    """

    name: str
    dtypes: Mapping[str, np.dtype[Any]]
    what: str
    texts: tuple[str, ...] = ()

    def gather(self, parts: Sequence[Any], tables: Mapping[str, Strings]) -> Iterator[tuple[str, Array]]:
        """Concatenate the columns of parts; `tables` are string tables by member prefix.

        Yield member names without suffix, and values.
        """
        places = tables[f"{self.name}/"].join([part.strings for part in parts]) if self.texts else ()
        for name, dtype in self.dtypes.items():
            columns = [getattr(part, name) for part in parts]
            if name in self.texts:
                columns = [table[column] for table, column in zip(places, columns, strict=True)]
            yield f"{self.name}/{name}", stored(np.concatenate(columns), dtype)


_CONTEXTS, _INSIDE = RangeCalls.columns()
EDGES = Group("edges", column_dtypes(Edges), "caller–callee sums")
RANGES = Group("ranges", column_dtypes(Ranges), "NVTX ranges", ("name", "domain", "category"))
CONTEXTS = Group("range_contexts", _CONTEXTS, "range contexts", ("name", "domain"))
INSIDE = Group("range_functions", _INSIDE, "functions inside ranges")
PATHS = Group("paths", column_dtypes(Paths), "calling contexts")
SAMPLES = Group("samples", column_dtypes(ThreadSamples), "samples of threads")


class Table:
    """The columns of a group being read; each row belongs to one process or thread."""

    def __init__(self, group: Group, members: Members) -> None:
        """Read all rows, if any; errors as for `run_columns.read_group`."""
        first = next(iter(group.dtypes))
        there = f"{group.name}/{first}.npy" in members.sizes
        self._columns = (
            read_group(members, group.name, group.dtypes, group.what)
            if there
            else {name: np.zeros(0, dtype) for name, dtype in group.dtypes.items()}
        )
        self.strings = read_strings(members, f"{group.name}/") if there and group.texts else ("",)
        self.sizes = text_sizes(self.strings)
        self._rows = Rows(len(self._columns[first]))

    def take(self, name: str, value: Any) -> dict[str, Any]:
        """Return the rows of a ``[start, stop]`` pair; errors as for `Rows.take`."""
        rows = self._rows.take(name, value)
        return {key: column[rows] for key, column in self._columns.items()}
