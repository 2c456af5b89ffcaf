"""The pytest plugin: ``--profkit`` gates the tests marked with ``@pytest.mark.profkit``.

pytest imports this module wherever profkit is installed, so it imports only pytest until it has work to do.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_profkit import TASK

if TYPE_CHECKING:
    from pytest_profkit.baselines import Baselines, Test
    from pytest_profkit.gate import Gated

_MARK = "profkit"
#: Arguments of the marker, with defaults.
_DEFAULTS: dict[str, Any] = {"min_slowdown": 1.05, "fail_on": "any", "calls": 3}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("profkit", "profkit: tests that must not become slower")
    group.addoption(
        "--profkit",
        action="store_true",
        help="run tests marked with profkit at the baseline too, in turn, and fail those that are slower",
    )
    group.addoption(
        "--profkit-baseline",
        metavar="REVISION|DIR",
        help="a Git revision, or a directory with another checkout (default: profkit_baseline of the ini, else HEAD)",
    )
    parser.addini("profkit_baseline", "what tests marked with profkit are compared with", default="HEAD")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and the hooks of a gate or of a process that a gate started."""
    config.addinivalue_line(
        "markers",
        "profkit(min_slowdown=1.05, fail_on='any', calls=3): with --profkit, must not be slower than at the baseline",
    )
    task = os.environ.get(TASK)
    if task:
        config.pluginmanager.register(_Worker(json.loads(task)), "profkit-worker")
    elif config.getoption("--profkit"):
        baseline = config.getoption("--profkit-baseline")
        beside = Path.cwd() if baseline else (config.inipath or config.rootpath / "ini").parent
        baseline = baseline or config.getini("profkit_baseline")
        config.pluginmanager.register(_Gates(config, baseline, beside / baseline), "profkit-gates")


def _asked(item: pytest.Item) -> dict[str, Any] | None:
    """Return the marker's arguments, ``None`` without one; raises `pytest.UsageError` if invalid."""
    mark = item.get_closest_marker(_MARK)
    if mark is None:
        return None
    unknown = set(mark.kwargs) - set(_DEFAULTS)
    if mark.args or unknown:
        raise pytest.UsageError(
            f"{item.nodeid}: @pytest.mark.profkit takes {', '.join(_DEFAULTS)} by name, not {(*mark.args, *unknown)}"
        )
    found = {**_DEFAULTS, **mark.kwargs}
    if not isinstance(found["min_slowdown"], (int, float)) or not found["min_slowdown"] > 1:
        raise pytest.UsageError(f"{item.nodeid}: min_slowdown is a factor above 1, such as 1.05")
    if not isinstance(found["calls"], int) or found["calls"] < 1:
        raise pytest.UsageError(f"{item.nodeid}: calls is a number from 1 on")
    return found


class _Gates:
    """In the user's pytest: gates marked tests when they have passed."""

    def __init__(self, config: pytest.Config, baseline: str, place: Path) -> None:
        from pytest_profkit.baselines import is_revision

        self._config = config
        self._baseline = baseline
        directory = place.is_dir() and not ("/" not in baseline and is_revision(config.rootpath, baseline))
        # Tests may change the working directory.
        self._checkout = Path(os.path.realpath(place)) if directory else None
        self._baselines: Baselines | None = None
        self._lines: list[str] = []
        self._none_marked = False

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Check all markers before any test runs."""
        from profkit.verdict.types import CAUSES

        marked = [(item, asked) for item in items if (asked := _asked(item)) is not None]
        self._none_marked = bool(items) and not marked
        for item, asked in marked:
            for cause in _named(asked["fail_on"]):
                if cause not in (*CAUSES, "any"):
                    raise pytest.UsageError(
                        f"{item.nodeid}: fail_on={cause!r} is no cause; they are any, {', '.join(CAUSES)}"
                    )

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, None]:
        """Gate a test after its own run."""
        outcome = yield
        asked = _asked(item)
        if asked is None or outcome.excinfo is not None:
            return
        message = self._gated(item, asked)
        if message:
            try:
                pytest.fail(message, pytrace=False)
            except BaseException as failure:
                outcome.force_exception(failure)

    def _gated(self, item: pytest.Item, asked: dict[str, Any]) -> str:
        """Gate a test, and return why it fails; empty if it passes."""
        from unittest import TestCase

        from profkit.errors import ProfkitError
        from pytest_profkit.baselines import Baselines, RefusedError, Test

        if issubclass(getattr(item, "cls", None) or object, TestCase):
            self._say(
                item, "not compared: it is a method of a unittest.TestCase, whose calls pytest does not make"
            )
            return ""
        if self._baselines is None:
            # Where the ini file asks for pytest-xdist's workers, these would run the test.
            more = ("-n0",) if self._config.pluginmanager.hasplugin("xdist") else ()
            self._baselines = Baselines(self._baseline, self._checkout, self._config.rootpath, more)
        root = self._config.rootpath
        inside = item.path.is_relative_to(root)
        file = self._baselines.root / item.path.relative_to(root) if inside else item.path.resolve()
        test = Test(item.nodeid, file, float(asked["min_slowdown"]) - 1, asked["calls"])
        try:
            gated = self._baselines.judge(test)
        except RefusedError as refused:
            self._say(item, f"not compared: {refused}")
            return ""
        except ProfkitError as error:
            return f"profkit: {error}"
        said, failed = _said(test, gated, asked["fail_on"], self._baseline)
        self._say(item, said)
        return f"profkit: {said}" if failed else ""

    def _say(self, item: pytest.Item, line: str) -> None:
        said = f"{item.nodeid}: {line}"
        self._lines.append(said)
        # With pytest-xdist, only reports reach the process that prints.
        item.user_properties.append(("profkit", said))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        lines = self._lines or [
            value
            for reports in terminalreporter.stats.values()
            for report in reports
            for name, value in getattr(report, "user_properties", ())
            if name == "profkit" and report.when == "call"
        ]
        if self._none_marked:
            lines = ["none of these tests is marked with @pytest.mark.profkit: none was compared"]
        if lines:
            terminalreporter.section("profkit")
            for line in lines:
                terminalreporter.write_line(line)

    def pytest_unconfigure(self) -> None:
        """Remove the checkout."""
        if self._baselines is not None:
            self._baselines.close()


def _named(fail_on: Any) -> tuple[Any, ...]:
    return tuple(fail_on) if isinstance(fail_on, list | tuple | set | frozenset) else (fail_on,)


def _said(test: Test, gated: Gated, fail_on: Any, baseline: str) -> tuple[str, bool]:
    """Return the gate's result in a sentence, and whether the test fails."""
    decision, repeated = gated.decision, gated.repeated
    more = f", {repeated} repeated" if repeated else ""
    measured = (
        f"{decision.ratio:.3f} times the time at {baseline} [{decision.low:.3f}, {decision.high:.3f}], "
        f"{decision.pairs} pairs of runs{more}"
    )
    if decision.outcome == "no-slower":
        return f"no slower: {measured}", False
    if decision.outcome == "undecided":
        return f"not shown to be slower, and the noise hides {100 * test.least:g} %: {measured}", False
    why = f"{gated.cause}. {gated.summary}".strip()
    named = _named(fail_on)
    if "any" in named or gated.cause in named:
        return f"slower: {measured}: {why}", True
    return f"slower, but for another cause than {' or '.join(named)}: {measured}: {why}", False


class _Worker:
    """In a process that a gate started: runs one test, and writes the times of its calls."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._task = task
        self._inside = False
        self._calls: list[dict[str, Any]] = []
        self._problem = ""

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, Any, None]:
        """Measure the calls of the test; the first is pytest's own, the others are made here."""
        if self._inside:
            yield
            return
        from pytest_profkit.stopwatch import Stopwatch

        gc.collect()
        captured: Any = nullcontext()
        if self._task["profile"]:
            from profkit.capture.block import Block

            captured = Block(self._task["profile"], charged=False)
        with captured:
            watch = Stopwatch()
            outcome = yield
            reading = watch.stop()
        if outcome.excinfo is not None:
            return
        readings = [reading]
        self._inside = True
        for _ in range(self._task["calls"] - 1):
            gc.collect()
            watch = Stopwatch()
            try:
                pyfuncitem.ihook.pytest_pyfunc_call(pyfuncitem=pyfuncitem)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise
                break  # it cannot be called twice: its first call counts
            readings.append(watch.stop())
        from dataclasses import asdict

        self._calls = [asdict(reading) for reading in readings]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep why a file cannot be imported."""
        if report.failed:
            lines = report.longreprtext.strip().splitlines() or ["it cannot be collected"]
            self._problem = lines[-1].removeprefix("E").strip()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep why a test did not pass."""
        if not report.passed:
            self._problem = str(getattr(report.longrepr, "reprcrash", None) or report.outcome)

    def pytest_sessionfinish(self) -> None:
        said = {"calls": self._calls, "problem": self._problem or "it did not run", "strays": self._strays()}
        with open(self._task["result"], "w", encoding="utf-8") as file:
            json.dump(said, file)

    def _strays(self) -> list[str]:
        """Return the modules that were imported from the other side's tree."""
        foreign = self._task["foreign"]
        if not foreign:
            return []
        base = os.path.realpath(foreign) + os.sep
        but = [os.path.realpath(sys.prefix) + os.sep]
        own = os.path.realpath(self._task["own"]) + os.sep
        if own.startswith(base):  # the baseline is checked out in the present tree
            but.append(own)
        found = []
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            path = os.path.realpath(file) if file else ""
            if path.startswith(base) and not path.startswith(tuple(but)):
                found.append(name)
        return sorted(found)
