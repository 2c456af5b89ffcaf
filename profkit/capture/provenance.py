"""Where a run comes from: command, time, revision of the working directory, job, and installed distributions."""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from profkit.capture.agent import process_facts, settings
from profkit.capture.proc_files import pid_namespace


def run_facts(command: Sequence[str], cwd: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the launcher's facts of a run that begins now; `environment` is what to record."""
    return {
        "command": command,
        "cwd": cwd,
        "environment": environment,
        "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds"),
        "clocks": {"time": time.time(), "perf_counter": time.perf_counter(), "monotonic": time.monotonic()},
        "exit_status": None,
        "warnings": [],
    }


def this_process() -> dict[str, Any]:
    """Return facts by which a later merge can tell whether this launcher still runs."""
    own = process_facts.identity()
    known = {key: own[key] for key in ("boot", "host", "pid", "born")}
    return {**known, "pid_namespace": pid_namespace()}


def git_state() -> dict[str, Any] | None:
    """Return the working directory's revision and whether it is modified; ``None`` outside a repository."""
    head = _git("rev-parse", "HEAD")
    # Looking must not write to the user's index.
    changes = _git("status", "--porcelain", "--untracked-files=no") if head else None
    if not head or changes is None:
        return None
    return {"revision": head.strip(), "dirty": bool(changes.strip())}


def _git(*words: str) -> str | None:
    """Return git's output, empty if it refuses; ``None`` without git or an answer."""
    command = ["git", "--no-optional-locks", *words]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",  # names of changed files are any bytes, with core.quotePath off
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else ""


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
    """Return the identity of one start of ranks: Slurm's step, not its job; torchrun's may be ``none``."""
    step = ".".join(environ[name] for name in ("SLURM_JOB_ID", "SLURM_STEP_ID") if environ.get(name))
    parts = []
    for name in ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "TORCHELASTIC_RUN_ID"):
        value = environ.get(name, "")
        if value and (name, value) != ("TORCHELASTIC_RUN_ID", "none"):
            parts.append(f"{name}:{value}")
            break
    # mpirun starts a step on each other node; torchrun is started by the step.
    if step and (not parts or parts[0].startswith("TORCHELASTIC_RUN_ID")):
        parts.append(f"SLURM_JOB_ID:{step}")
    return re.sub(r"[^\w.@-]", "_", " ".join(parts)) or None


def installed_packages(path: Iterable[str]) -> dict[str, str]:
    """Return distributions and versions by ``*.dist-info`` names (PyPA, *Recording installed projects*)."""
    found: dict[str, str] = {}
    for entry in dict.fromkeys(path):
        try:
            names = os.listdir(entry)
        except (OSError, ValueError):  # sys.path may hold anything
            continue
        for name in names:
            base, dot, kind = name.rpartition(".")
            if dot and kind in ("dist-info", "egg-info") and "-" in base:
                distribution, _, version = base.partition("-")
                found.setdefault(distribution.replace("_", "-").lower(), version.partition("-")[0])
    return dict(sorted(found.items()))
