"""Where a run comes from: the revision of the working directory, and the job whose rank the process is."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from typing import Any

from profkit.capture.agent import settings


def git_state() -> dict[str, Any] | None:
    """Return the working directory's revision and whether it is modified; ``None`` outside a repository."""
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
    """Return the job that this launcher is a rank of; ``None`` if no launcher of ranks started it."""
    rank, size, local_rank, node = settings.place_of(os.environ)
    if rank is None or (size or 1) < 2:
        return None
    return {
        "id": _job_identity(os.environ),
        "rank": rank,
        "world_size": size,
        "local_rank": local_rank,
        "node": node,
    }


def _job_identity(environ: Mapping[str, str]) -> str | None:
    """Return the identity of one start of ranks, ``None`` if the launcher gives none.
    For Slurm it is a step: the commands of a batch script share the job, and are different programs.
    torchrun's is ``none`` unless the user sets one."""
    step = ".".join(environ[name] for name in ("SLURM_JOB_ID", "SLURM_STEP_ID") if environ.get(name))
    parts = []
    for name in ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "TORCHELASTIC_RUN_ID"):
        value = environ.get(name, "")
        if value and (name, value) != ("TORCHELASTIC_RUN_ID", "none"):
            parts.append(f"{name}:{value}")
            break
    # mpirun starts its own step on each node but its own; torchrun is started by the step.
    if step and (not parts or parts[0].startswith("TORCHELASTIC_RUN_ID")):
        parts.append(f"SLURM_JOB_ID:{step}")
    return re.sub(r"[^\w.@-]", "_", " ".join(parts)) or None
