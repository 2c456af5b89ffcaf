"""Settings of a run: environment variables that were set explicitly, and the revision of its source."""

from __future__ import annotations

import re
from collections.abc import Mapping

from profkit.model import Git, Run

#: Variables that launchers set themselves, such as a process's rank.
_OF_LAUNCHERS = re.compile(
    r"(?:LOCAL_)?(?:RANK|WORLD_SIZE)$|(?:OMPI_COMM|PMI|PMIX|MPI_LOCAL|MV2_COMM|SLURM|NVTX)_?"
)

_REVISION = re.compile(r"[0-9a-f]{7,64}")


def set_by_hand(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the recorded variables except those that launchers set themselves."""
    return {name: value for name, value in sorted(environment.items()) if not _OF_LAUNCHERS.match(name)}


def revision_of(run: Run) -> str:
    """Return the revision that was run: twelve digits, then `` +`` for changed files; empty if unknown."""
    git = (run.manifest.git if run.manifest is not None else None) or Git()
    revision = git.get("revision", "")
    if not _REVISION.fullmatch(revision):
        return ""
    return f"{revision[:12]}{' +' if git.get('dirty') else ''}"
