"""Where a run comes from: the revision of the working directory, and the job whose rank the process is."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Any

from profkit.capture.agent import settings

__all__ = ["git_state", "job"]


def git_state() -> dict[str, Any] | None:
    """Revision of the working directory and whether it has changes; ``None`` outside a repository."""
    # --no-optional-locks: looking must not write to the user's index.
    git = ["git", "--no-optional-locks"]
    try:
        with open(os.devnull, "rb") as nothing:
            head = subprocess.run(
                [*git, "rev-parse", "HEAD"],
                stdin=nothing,
                capture_output=True,
                text=True,
                timeout=5,
                check=False,
            )
            if head.returncode != 0:
                return None
            changes = subprocess.run(
                [*git, "status", "--porcelain", "--untracked-files=no"],
                stdin=nothing,
                capture_output=True,
                text=True,
                timeout=5,
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {"revision": head.stdout.strip(), "dirty": bool(changes.stdout.strip())}


def job() -> dict[str, Any] | None:
    """Which job's rank this launcher is, where a launcher of ranks has started it."""
    rank, size = settings.rank_of(os.environ)
    if rank is None or (size or 1) < 2:
        return None
    for name in (
        "PMIX_NAMESPACE",
        "OMPI_MCA_ess_base_jobid",
        "PMI_JOBID",
        "TORCHELASTIC_RUN_ID",
        "SLURM_JOB_ID",
    ):
        if name in os.environ:
            step = os.environ.get("SLURM_STEP_ID", "") if name == "SLURM_JOB_ID" else ""
            identity = re.sub(r"[^\w.@-]", "_", f"{name}:{os.environ[name]}{'.' + step if step else ''}")
            return {"id": identity, "rank": rank, "world_size": size}
    return {"id": None, "rank": rank, "world_size": size}
