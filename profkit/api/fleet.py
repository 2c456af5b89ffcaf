"""`Fleet`: a store of many run files, and queries on it with reports."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from profkit import model
from profkit.api.diff import Diff, diff
from profkit.api.reported import Layout, Studied
from profkit.fleet.hosts import Hosts, hosts
from profkit.fleet.query import Answer, query, selected
from profkit.fleet.slowest import Slowest, Trends, slowest, trend
from profkit.fleet.store import Added, Store, add
from profkit.report.fleetdoc import AnswerReport, FleetReport
from profkit.report.safety import Masker
from profkit.study.rank_table import expand


class FleetAnswer(Studied[Answer]):
    """The rows of a query in SQL."""

    def __init__(self, answer: Answer) -> None:
        # Mask all hosts of the store, whichever columns contain one.
        hosts = tuple(model.Process(host=model.Host(name=host)) for host in answer.hosts)
        super().__init__(answer, AnswerReport(answer), known=[model.Run("", hosts)])

    def laid_out(self, layout: Layout) -> AnswerReport:
        """Implement `Reported`: mask columns by name, and columns of other names as messages."""
        if layout.full_paths:
            return AnswerReport(self.study)
        masks = [_MASKS.get(name, type(self._masker).message) for name in self.study.columns]
        rows = tuple(
            tuple(_masked(self._masker, mask, value) for mask, value in zip(masks, row, strict=True))
            for row in self.study.rows
        )
        return AnswerReport(replace(self.study, rows=rows))


_HEX = re.compile(r"[0-9a-f]{7,64}")
#: How texts of the tables' columns are masked, by column name.
_MASKS: Mapping[str, Callable[[Any, str], str]] = {
    "path": lambda masker, text: masker.user_file(text),
    "file": lambda masker, text: masker.key_path(text),
    "host": lambda masker, text: masker.host(text),
    "cpu_model": lambda masker, text: masker.label(text),
    "launcher_job": lambda masker, text: masker.hidden(text),
    **dict.fromkeys(("job", "name", "domain"), lambda masker, text: masker.name(text)),
    **dict.fromkeys(("run", "revision"), lambda masker, text: masker.formed(text, _HEX)),
}


def _masked(masker: Masker, mask: Callable[[Any, str], str], value: Any) -> Any:
    if isinstance(value, str):
        return mask(masker, value)
    if isinstance(value, list):
        return [_masked(masker, mask, item) for item in value]
    if isinstance(value, dict):
        return {key: _masked(masker, mask, item) for key, item in value.items()}
    return value


class Fleet:
    """A store of many run files: Parquet, queried by DuckDB. Needs the extra ``profkit[fleet]``.

    Its directory is by default in the variable ``PROFKIT_FLEET``, else ``fleet``.
    """

    def __init__(self, store: str | os.PathLike[str] | None = None) -> None:
        self._store = Store(store)

    @property
    def name(self) -> str:
        """The last part of the store's directory."""
        return self._store.directory.absolute().name

    def add(
        self,
        runs: Sequence[str | os.PathLike[str]],
        *,
        job: str = "",
        workers: int | None = 1,
        dask: str | None = None,
        told: Callable[[str], None] = lambda doing: None,
    ) -> Added:
        """Add files, directories and patterns of run files and plain profiles, except those added before.

        `job` and `dask` as for `profkit.fleet.store.add`; `workers` is the number of reading processes, ``None``
        for one per CPU. Raises `FormatError` if a directory or pattern has no file, or the store is of another
        version; `UsageError` if it cannot be written, the extra is missing, or no scheduler answers.
        """
        return add(self._store, expand(runs), job=job, workers=workers, dask=dask, told=told)

    def compact(self) -> tuple[int, int]:
        """Merge the files of each job and day; return the numbers of parts before and after."""
        return self._store.compact()

    def query(self, sql: str) -> FleetAnswer:
        """Answer one query in SQL; raises `UsageError` if it is not read-only or fails, or without a store."""
        return FleetAnswer(query(self._store, sql))

    def slowest(self, job: str = "") -> Studied[Slowest]:
        """Find jobs, functions and runs that got slower."""
        study = slowest(self._store, job)
        return Studied(study, FleetReport(study))

    def trend(self, function: str, job: str = "") -> Studied[Trends]:
        """Follow one function over days: NAME or FILE:NAME."""
        study = trend(self._store, function, job)
        return Studied(study, FleetReport(study))

    def hosts(self, job: str = "") -> Studied[Hosts]:
        """Compare hosts at the same work."""
        study = hosts(self._store, job)
        return Studied(study, FleetReport(study))

    def compare(self, baseline: str, candidate: str, **asked: Any) -> Diff:
        """Compare the run files of two selections, ``JOB`` or ``JOB@WHEN``; `asked` as for `profkit.diff`."""
        sides = [selected(self._store, selection) for selection in (baseline, candidate)]
        return diff(sides[0], sides[1], **asked)
