"""`Sweep`: the results of a study of settings, with their reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from profkit.api.reported import Reported, masker
from profkit.errors import FormatError
from profkit.report.sweepdoc import SweepReport
from profkit.study.cells import results
from profkit.study.journal import read_plan, read_trials
from profkit.study.space import parse_setting

if TYPE_CHECKING:
    from profkit import model
    from profkit.report.reports import Report
    from profkit.study.cells import Results

__all__ = ["Sweep", "read_sweep"]


class Sweep(Reported):
    """The runs of a study so far; made by `read_sweep`."""

    def __init__(self, directory: Path, baseline: str | None) -> None:
        plan = read_plan(directory)
        if plan is None:
            raise FormatError(directory, "holds no study", "name the directory of a sweep")
        self._directory = directory
        self._space = plan.space
        self._trials = read_trials(directory)
        setting = None if baseline is None else parse_setting(baseline, self._space.parameters)
        self._results = results(self._space, self._trials, baseline=setting)

    @property
    def results(self) -> Results:
        """The figures of all settings (`profkit.study.cells`)."""
        return self._results

    def laid_out(
        self, full_paths: bool, drawn: bool, attachment: str = "", *, explain: bool = False
    ) -> Report:
        """See `Reported`."""
        if full_paths:
            return SweepReport(self._results, self._space, str(self._directory))
        mask = masker(())
        space = replace(self._space, command=mask.words(self._space.command))
        return SweepReport(mask.value(self._results), space, self._directory.name)

    def runs(self, full_paths: bool) -> Mapping[str, model.Run]:
        """See `Reported`: an archive has none of them."""
        return {}

    def inputs(self) -> Iterable[str]:
        """See `Reported`."""
        return ()


def read_sweep(directory: Path, *, baseline: str | None = None) -> Sweep:
    """Read a study.

    Parameters
    ----------
    directory
        Where it is.
    baseline
        ``NAME=VALUE,…``: the setting that speed-ups refer to; by default the first.

    Raises
    ------
    FormatError
        There is no study, or its files are damaged.
    UsageError
        There is no such setting.
    """
    return Sweep(directory, baseline)
