"""Gate one test: both revisions run it in separate processes, in turn. Imported only with ``--profkit``."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from profkit.api.diff import diff
from profkit.errors import ProfkitError, UsageError
from profkit.formats.atomic import lock
from pytest_profkit import TASK
from pytest_profkit.gate import BASELINE, CANDIDATE, Gated, gate
from pytest_profkit.stopwatch import Reading

#: Captured runs per side that determine the cause.
CAPTURED = 3
#: Seconds after which a run is ended.
LONGEST_S = 600.0
#: Possible causes of a slow-down between alternating runs, which share the machine and its other programs.
_CAUSES = ("code-change", "workload-change", "data-starvation", "blocked")


class RefusedError(ProfkitError):
    """A test has no baseline: it does not pass there, or it cannot be run."""


@dataclass(frozen=True, slots=True)
class Test:
    """A gated test.

    `name`: its node id, relative to pytest's directory. `least`: the slow-down (1) to detect. `calls`: calls per run.
    """

    name: str
    file: Path
    least: float
    calls: int


class Baselines:
    """The present tree, and the baseline's: another checkout, or a revision that is checked out on first use.

    `checkout`: the directory that `baseline` names, if it names one. `root`: pytest's directory in the present tree.
    `more`: words for the pytest of each side.
    """

    def __init__(self, baseline: str, checkout: Path | None, root: Path, more: Sequence[str] = ()) -> None:
        self.baseline = baseline
        self.root = Path(os.path.realpath(root))
        self.more = tuple(more)
        self._checkout = checkout
        self._open = contextlib.ExitStack()

    def close(self) -> None:
        """Remove the checkout."""
        self._open.close()

    @cached_property
    def trees(self) -> tuple[Path, Path]:
        """The top of the present tree, and of the baseline's."""
        if self._checkout is not None:
            if self._checkout == self.root:
                problem = "is the tree that is tested; name another checkout, or a revision"
                raise UsageError(problem, "baseline", self.baseline)
            return self.root, self._checkout
        top = Path(_git(self.root, "rev-parse", "--show-toplevel"))
        return top, self._open.enter_context(_checked_out(top, self.baseline))

    def judge(self, test: Test) -> Gated:
        """Run a test on both sides, and return whether it became slower.

        Raises `RefusedError` if it fails or cannot run on a side; `ProfkitError` if the baseline cannot be
        checked out.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(_alone())
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="profkit-gate-")))
            top, tree = self.trees
            if not test.file.is_relative_to(top):
                raise RefusedError(f"{test.file} is not in {top}")
            # Both sides run the present test, so that only the tested code differs.
            stack.enter_context(_standing_in(test.file, tree / test.file.relative_to(top)))
            runner = _Runner(self, test, work)
            for side in (BASELINE, CANDIDATE):
                runner.run(side, 0)  # compiles, fills the page cache, and checks that the test passes
            gated = gate(runner.run, test.least)
            if gated.decision.outcome != "slower":
                return gated
            try:
                cause, summary = runner.cause()
            except ProfkitError as error:
                cause, summary = "inconclusive", f"Why is not known: {error}"
            return replace(gated, cause=cause, summary=summary)


class _Runner:
    """Runs one test in separate processes."""

    def __init__(self, baselines: Baselines, test: Test, work: Path) -> None:
        self._baselines, self._test, self._work = baselines, test, work
        self._imported = _import_roots(baselines.trees[0])

    def cause(self) -> tuple[str, str]:
        """Capture some runs of both sides, and return why the candidate is slower, with a sentence."""
        files: dict[str, list[str | os.PathLike[str]]] = {BASELINE: [], CANDIDATE: []}
        for number in range(CAPTURED):
            for side in (BASELINE, CANDIDATE):
                path = self._work / f"{side}-{number}.prof"
                self.run(side, number, str(path))
                files[side].append(path)
        found = diff(files[BASELINE], files[CANDIDATE])
        _, summary = found.said(False)
        if found.verdict.cause in _CAUSES:
            return found.verdict.cause, summary
        for row in found.changed():
            return "code-change", f"The source of {found.table.name[row]} changed."
        return "inconclusive", ""

    def run(self, side: str, number: int, profile: str = "") -> list[Reading]:
        """Run a side once, and return its calls; `profile` is the run file to capture."""
        test = self._test
        top, tree = self._baselines.trees
        base = tree if side == BASELINE else top
        root = base / self._baselines.root.relative_to(top)
        result = self._work / "result.json"
        result.unlink(missing_ok=True)
        task = {
            "name": test.name,
            "calls": 1 if profile else test.calls,
            "result": str(result),
            "profile": profile,
            "own": str(base),
            "foreign": str(top) if side == BASELINE else "",
        }
        words = [sys.executable, "-m", "pytest", "-q", "--rootdir", ".", "-p", "profkit"]
        # Whatever the ini file selects, this test runs, and leaves no cache in the tree.
        cache = self._work / "cache"
        words += ["-m", "", "-k", "", "-o", f"cache_dir={cache}", *self._baselines.more, test.name]
        try:
            done = subprocess.run(
                words,
                cwd=root,
                env=self._environment(base, number, task),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LONGEST_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RefusedError(f"{self._where(side)}: the test took longer than {LONGEST_S:g} s") from None
        try:
            said = json.loads(result.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            last = (done.stdout + done.stderr).strip().splitlines()[-1:]
            raise RefusedError(
                f"{self._where(side)}: the test cannot be run: {' '.join(last)}; try {shlex.join(words)} in {root}"
            ) from None
        if said["strays"]:
            raise RefusedError(
                f"{self._where(side)}: {said['strays'][0]} is imported from the present tree, not from the baseline: "
                "put the directory that it is imported from into pytest's pythonpath"
            )
        if not said["calls"]:
            raise RefusedError(f"{self._where(side)}: the test does not pass: {said['problem']}")
        return [Reading(**call) for call in said["calls"]]

    def _where(self, side: str) -> str:
        return f"at the baseline {self._baselines.baseline}" if side == BASELINE else "in the present tree"

    def _environment(self, base: Path, number: int, task: Mapping[str, object]) -> dict[str, str]:
        paths = [str(base / path) for path in self._imported]
        paths += [path for path in [os.environ.get("PYTHONPATH", "")] if path]
        own = {
            TASK: json.dumps(task),
            "PYTHONPATH": os.pathsep.join(paths),
            # Another order of sets for each pair, but the same on both sides.
            "PYTHONHASHSEED": str(1000 + number),
        }
        xdist = ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT")
        dropped = (*xdist, "PYTEST_CURRENT_TEST", "PYTEST_ADDOPTS")
        return {name: value for name, value in {**os.environ, **own}.items() if name not in dropped}


def _import_roots(top: Path) -> list[Path]:
    """Return the directories of a tree that modules were imported from, relative to it."""
    base = os.path.realpath(top)
    found: dict[Path, None] = {}
    places = [path for path in sys.path if path]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and "." not in name:
            directory = os.path.dirname(os.path.realpath(file))
            is_package = os.path.basename(file).startswith("__init__.")
            places.append(os.path.dirname(directory) if is_package else directory)
    prefixes = {os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix)}
    for place in map(os.path.realpath, places):
        inside = os.path.isdir(place) and os.path.commonpath((base, place)) == base
        if inside and not any(os.path.commonpath((prefix, place)) == prefix for prefix in prefixes):
            found[Path(place).relative_to(base)] = None
    return list(found)


@contextlib.contextmanager
def _standing_in(file: Path, other: Path) -> Iterator[None]:
    """Let a copy of `file` stand in the place of `other`, which is put back; raises `ProfkitError` if it cannot."""
    if other.exists() and other.samefile(file):
        yield
        return
    kept = other.with_name(f".{other.name}.kept-by-profkit")
    if os.path.lexists(kept):
        raise UsageError(
            f"{kept} was left by a gate that was killed: put it back as {other.name}, or remove it"
        )
    made = [parent for parent in other.parents if not parent.exists()]
    copied = False
    try:
        try:
            other.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(other):
                os.replace(other, kept)
            copied = True
            shutil.copyfile(file, other)
        except OSError as error:
            raise RefusedError(f"the present test cannot be copied to {other}: {error.strerror}") from None
        yield
    finally:
        with contextlib.suppress(OSError):
            if os.path.lexists(kept):
                os.replace(kept, other)
            elif copied:
                os.unlink(other)
            if made:
                shutil.rmtree(made[-1])


#: What Git tells its hooks; a command in another directory or work tree must not have it.
_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")


def _git(directory: Path, *words: str) -> str:
    variables = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=directory,
            env=variables,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise ProfkitError(f"git cannot be run: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["failed"]
        raise ProfkitError(f"git {words[0]}: {lines[-1]}")
    return done.stdout.strip()


def is_revision(directory: Path, word: str) -> bool:
    """Return whether Git knows a revision of this name."""
    try:
        _git(directory, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}")
    except ProfkitError:
        return False
    return True


@contextlib.contextmanager
def _checked_out(top: Path, revision: str) -> Iterator[Path]:
    """Check a revision out into a temporary work tree; raises `UsageError` if unknown, or `ProfkitError`."""
    try:
        commit = _git(top, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    except ProfkitError:
        raise UsageError(
            f"{revision}: no such revision in {top}; a shallow clone has only the last one (set fetch-depth: "
            "0)"
        ) from None
    home = Path(tempfile.mkdtemp(prefix="profkit-baseline-"))
    tree = home / "tree"
    try:
        _git(top, "worktree", "add", "--detach", "--quiet", str(tree), commit)
        yield tree
    finally:
        with contextlib.suppress(ProfkitError):
            _git(top, "worktree", "remove", "--force", str(tree))
        shutil.rmtree(home, ignore_errors=True)
        with contextlib.suppress(ProfkitError):
            _git(top, "worktree", "prune")


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Let one gate at a time measure: other pytest-xdist workers would compete for CPUs."""
    path = Path(tempfile.gettempdir()) / f"profkit-gate-{os.getuid() if hasattr(os, 'getuid') else 0}.lock"
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            lock(stack.enter_context(open(path, "ab")))
        yield
