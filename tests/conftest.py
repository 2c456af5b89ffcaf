"""Switches of the test suite: ``pytest --update-golden`` writes the expected outputs anew.

``pytest -n auto`` runs several tests at a time, except those marked ``alone``.
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.shared import VARIABLE, held

GOLDEN = Path(__file__).parent / "golden"

# Tests assert behaviour, never times: a busy machine may take longer over an example.
hypothesis.settings.register_profile("profkit", hypothesis.settings.default, deadline=None)
hypothesis.settings.load_profile("profkit")


def pytest_configure(config: pytest.Config) -> None:
    """Make the directory that the workers share, and set the signals of programs under test."""
    if VARIABLE not in os.environ:
        shared = tempfile.TemporaryDirectory(prefix="profkit-tests-")
        os.environ[VARIABLE] = shared.name
        config.add_cleanup(shared.cleanup)
        config.add_cleanup(lambda: os.environ.pop(VARIABLE))
    # What captures keep of source files is the tests' own, and not the user's.
    os.environ["XDG_CACHE_HOME"] = os.path.join(os.environ[VARIABLE], "cache")
    usual_signals()


def usual_signals() -> None:
    """Give programs under test the signals that a user's have: background jobs of a shell ignore some."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGQUIT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one more than there are CPUs: a third of the time, tests wait for programs, pipes and clocks."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cpus + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Keep the garbage collector from tests and modules, all of which stay: it would look at them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put last what runs alone: few tests then wait for another to end."""
    items.sort(key=lambda item: item.get_closest_marker("alone") is not None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run a test beside those of other workers, or alone, fixtures included."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    with held(Path(__file__), alone=item.get_closest_marker("alone") is not None):
        return (yield)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden from what the code does now"
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a run that has every member: of 60 functions and ranges, 83 readings of threads and 38 of the machine."""
    from profkit.formats import write_run
    from tests.hostile_files import small_run

    write_run(tmp_path / "run.prof", small_run())
    return tmp_path / "run.prof"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with a file of tests/golden, or write that file under ``--update-golden``."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        assert path.is_file(), f"{path} is missing; run pytest --update-golden, and read what it wrote"
        assert text == path.read_text(encoding="utf-8")

    return check
