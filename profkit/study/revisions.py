"""Check out another revision of a Git repository temporarily."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from profkit.errors import ProfkitError, UsageError


def _git(directory: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", *words], cwd=directory, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise ProfkitError(f"git cannot be run: {error.strerror}") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["failed"]
        raise ProfkitError(f"git {words[0]}: {lines[-1]}")
    return done.stdout.strip()


def top_of(directory: Path) -> Path:
    """Return the top directory of a repository; raises `ProfkitError` without a repository or Git."""
    return Path(_git(directory, "rev-parse", "--show-toplevel"))


@contextlib.contextmanager
def checked_out(top: Path, revision: str) -> Iterator[Path]:
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
