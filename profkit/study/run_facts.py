"""What is known of one run among several: how it was started, how long it took, and what its time consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profkit.measure.iterations import iteration_model
from profkit.measure.run_settings import set_by_hand
from profkit.model import Run
from profkit.verdict.account import RUN_BUCKETS
from profkit.verdict.alone import judge_run


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run; `files` has one file, or one per rank. What a foreign profile lacks is empty.

    `started`: UTC, ISO 8601. `wall_s`: self time where the wall is unknown. `iteration_s`: median, ``None``
    without NVTX ranges of iterations. `buckets`: seconds, in the order of `RUN_BUCKETS`.
    """

    files: tuple[str, ...]
    started: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    cpus: float | None
    revision: str
    dirty: bool
    host: str
    failed: bool
    wall_s: float
    iteration_s: float | None
    buckets: tuple[float, ...]
    cause: str
    kind: str

    def seconds(self, metric: str) -> float | None:
        """Return the time of ``wall``, ``own``, ``iteration`` or a bucket of the account; ``None`` if unknown."""
        if metric == "wall":
            return self.wall_s
        if metric == "iteration":
            return self.iteration_s
        if metric == "own":
            return self.wall_s - self.buckets[RUN_BUCKETS.index("queue")]
        return self.buckets[RUN_BUCKETS.index(metric)]


def facts_of(run: Run, files: Sequence[str] = ()) -> RunFacts:
    """Return the facts of a run that was read from `files`, by default its own."""
    manifest, host = run.manifest, run.host
    git = (manifest.git if manifest is not None else None) or {}
    judged = judge_run(run, run.processes)
    verdict = judged.verdict
    iterations = iteration_model(run)
    return RunFacts(
        files=tuple(files) or (run.path,),
        started="" if manifest is None else manifest.started,
        command=run.command,
        environment={} if manifest is None else set_by_hand(manifest.environment),
        cpus=None if host is None else host.available_cpus,
        revision=git.get("revision", ""),
        dirty=git.get("dirty", False),
        host="" if host is None else host.name,
        failed=bool(run.exit_status),
        # Positive, for its logarithm.
        wall_s=run.wall_s or max(sum(profile.total for profile in run.profiles), 1e-12),
        iteration_s=None if iterations is None else iterations.duration.median_s,
        buckets=tuple(judged.account.whole(name) for name in RUN_BUCKETS),
        cause="" if verdict is None else verdict.cause,
        kind="" if verdict is None else verdict.kind or "",
    )
