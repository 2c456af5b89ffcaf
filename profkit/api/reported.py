"""Reports of a run or comparison (`Reported`) and of a study (`Studied`), masked unless asked otherwise."""

from __future__ import annotations

import getpass
import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from profkit.api.files import keep_inputs, write_file
from profkit.errors import UsageError
from profkit.report.renderers import Renderer, renderer_for, renderer_named

if TYPE_CHECKING:
    from profkit import model
    from profkit.report.reports import Report
    from profkit.report.safety import Masker

Study = TypeVar("Study")


@dataclass(frozen=True, slots=True)
class Layout:
    """Contents of a report: `drawn` adds figures, `attachment` is the archive's name (empty without one)."""

    full_paths: bool = False
    explain: bool = False
    drawn: bool = False
    attachment: str = ""


class Reported(ABC):
    """A result with reports in every format."""

    def report(
        self,
        format: str | Renderer = "terminal",
        *,
        limit: int | None = None,
        full_paths: bool = False,
        explain: bool = False,
    ) -> str:
        """Return a report.

        Parameters
        ----------
        format
            ``terminal`` (text of 80 columns), ``md``, ``html``, ``json`` or ``svg``, or a renderer of
            `profkit.report.renderers`.
        limit
            Most rows of a list, 0 for all; the default depends on the format.
        full_paths
            Do not mask paths, users, host names and command lines.
        explain
            List every condition of every rule, with its value, its threshold and the margin.

        Raises
        ------
        UsageError
            The format is unknown, or the limit is negative.
        """
        renderer = renderer_named(format)() if isinstance(format, str) else format
        laid = self.laid_out(Layout(full_paths, explain, renderer.draws))
        fits = limit is None and not explain  # an explanation is never cut
        return renderer.fitted(laid) if fits else renderer.render(laid, rows_of(limit, renderer))

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | Renderer | None = None,
        limit: int | None = None,
        full_paths: bool = False,
        explain: bool = False,
    ) -> None:
        """Write a report to a file, completely or not at all.

        Parameters
        ----------
        path
            The file; its suffix names the format (``.html``, ``.md``, ``.json``, ``.svg``, ``.txt``).
        format, limit, full_paths, explain
            As for `report`; `format` overrides the suffix.

        Raises
        ------
        UsageError
            As for `report`, or the file cannot be written, or it is an input.
        """
        output = Path(path)
        chosen = renderer_for(output)() if format is None else format
        keep_inputs(self.inputs(), output)
        text = self.report(chosen, limit=limit, full_paths=full_paths, explain=explain)
        write_file((text.encode("utf-8", "backslashreplace"),), output)

    def notebook_html(self, *, full_paths: bool = False) -> str:
        """Return the HTML of a notebook: the essentials of the page, as a fragment without scripts."""
        from profkit.report.fragment import MOST_ROWS, fragment

        return fragment(self.laid_out(Layout(full_paths)).document(MOST_ROWS))

    def _repr_html_(self) -> str:
        return self.notebook_html()

    # For profkit's own packages

    #: Options of `masker` for its reports.
    _masking: Mapping[str, bool] = {}

    def mask(self, **how: bool) -> None:
        """Mask reports with further options of `masker` from now on."""
        self._masking = {**self._masking, **how}
        for name in ("_masker", "_masked"):
            self.__dict__.pop(name, None)

    @cached_property
    def _masker(self) -> Masker:
        return masker(self.known(), **self._masking)

    @cached_property
    def _masked(self) -> dict[Layout, Report]:
        return {}

    def laid_out(self, layout: Layout) -> Report:
        """Return the input of renderers, masked unless `layout.full_paths`."""
        if layout.full_paths:
            return self.unmasked(layout)
        if layout not in self._masked:
            self._masked[layout] = self._masker.value(self.unmasked(layout))
        return self._masked[layout]

    @abstractmethod
    def unmasked(self, layout: Layout) -> Report:
        """Return what `laid_out` masks."""

    def whole_runs(self) -> Mapping[str, model.Run]:
        """Return the runs of an archive, by their names in it, unmasked; none for a study."""
        return {}

    def runs(self, full_paths: bool) -> Mapping[str, model.Run]:
        """Return the runs of an archive, masked unless `full_paths`."""
        found = self.whole_runs()
        return found if full_paths else {name: self._masker.run(run) for name, run in found.items()}

    def known(self) -> Iterable[model.Run]:
        """Return the runs that determine what is masked."""
        return self.whole_runs().values()

    def inputs(self) -> Iterable[str]:
        """Return the paths of the files read."""
        return [run.path for run in self.whole_runs().values()]


class Studied(Reported, Generic[Study]):
    """A result of `profkit.study` on several runs or processes, with its report."""

    def __init__(
        self, study: Study, report: Report, inputs: Iterable[str] = (), known: Iterable[model.Run] = ()
    ) -> None:
        self.study = study
        self._report, self._inputs, self._known = report, tuple(inputs), tuple(known)

    def unmasked(self, layout: Layout) -> Report:
        return self._report

    def known(self) -> Iterable[model.Run]:
        return self._known

    def inputs(self) -> Iterable[str]:
        return self._inputs


def rows_of(limit: int | None, renderer: Renderer) -> int:
    """Return the most rows of a list; raises `UsageError` if the limit is negative."""
    if limit is not None and limit < 0:
        raise UsageError("give the number of rows, 0 for all", "limit", limit)
    return renderer.default_rows if limit is None else limit


def masker(runs: Iterable[model.Run], *, posted: bool = False, names_hidden: bool = False) -> Masker:
    """Return what masks users, hosts and secrets of these runs and of this machine in a report.

    `posted` masks the machine's other programs as well; `names_hidden` replaces the program's names by pseudonyms.
    """
    from profkit.report.safety import Masker

    runs = list(runs)
    pseudonyms = None
    if names_hidden:
        from profkit.api.name_secret import name_secret
        from profkit.report.placeholders import Pseudonyms

        pseudonyms = Pseudonyms(name_secret(os.environ), runs)

    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user ID without a name, as in a container
        user = ""
    home = os.path.expanduser("~")
    owner = {"home": "" if home == "~" else home, "user": user, "host": platform.node()}
    return Masker(runs, **owner, posted=posted, pseudonyms=pseudonyms)
