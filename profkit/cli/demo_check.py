"""Check that the runs of ``profkit demo`` show what the demo claims; if not, find the reason."""

from __future__ import annotations

from dataclasses import dataclass

from profkit.measure.side_facts import SideFacts, side_facts
from profkit.model import Run, RunSet
from profkit.report.units import share
from profkit.verdict.alone import judge_run
from profkit.verdict.thresholds import value
from profkit.verdict.types import Verdict

#: Part of the wall spent queueing from which a run is not clean; on two idle CPUs it was 0.04 to 0.06.
MOST_QUEUED = 0.15
#: Overhead of capture, relative to the run without it, from which a run is not clean: the demo would show
#: profkit instead of the training.
MOST_EFFECT = 0.10


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with the machine, and the remedy; `may_pass`: the same run may do better in a moment."""

    wrong: str
    remedy: str
    may_pass: bool = False


def _queued(run: Run) -> float | None:
    """Return the fraction of a run's wall spent queueing for a CPU; ``None`` if it was not counted."""
    account = judge_run(run, run.processes).account
    return None if "queue" in account.merged else account.bucket("queue").share


def _effect(run: Run) -> float | None:
    """Return capture's greatest overhead on a process, relative to the run; ``None`` if not estimated."""
    wall = run.wall_s or 0.0
    added = [process.effect.seconds for process in run.processes if process.effect is not None]
    if not added or wall <= 0:
        return None
    return max(added) / max(wall - max(added), 1e-3)


def trouble_of_clean(run: Run) -> Trouble | None:
    """Return why the clean run is not clean; ``None`` if nothing says so. Missing facts are ignored."""
    waited, effect = _queued(run), _effect(run)
    if waited is not None and waited >= MOST_QUEUED:
        facts = _facts(run)
        found = _taken(run, facts) or Trouble(
            f"no other program was found to use the {_cpus(facts.available_cpus)} of the demo",
            "run the demo again, or on another machine",
            may_pass=True,
        )
        told = f"{found.wrong}; the clean run waited for a CPU for {share(waited)} of its time"
        return Trouble(told, found.remedy, found.may_pass)
    if effect is not None and effect >= MOST_EFFECT:
        return Trouble(
            f"capturing the clean run made it {share(effect)} longer on this CPU, too much for a comparison",
            f"please report this as a defect of profkit, with {run.path}",
        )
    return None


def trouble_of(verdict: Verdict, slow: Run) -> Trouble | None:
    """Return why the verdict is not self-oversubscription of the slow run; ``None`` if it is."""
    if verdict.cause == "contention" and verdict.kind == "self-oversubscription":
        return None
    facts = _facts(slow)
    if found := _taken(slow, facts):
        return found
    if facts.available_cpus is not None and facts.available_cpus < 2:
        return Trouble(
            f"the demo has {_cpus(facts.available_cpus)}, on which processes take turns and lose little by it",
            "give it two CPUs or more",
        )
    return Trouble(
        f"the cause of the difference is not clear, though several times as many threads shared "
        f"{_cpus(facts.available_cpus)}",
        "please report this as a defect of profkit, with both run files",
    )


def _facts(run: Run) -> SideFacts:
    return side_facts(RunSet(run.path, (run,)), [run.processes], 0.0)


def _taken(run: Run, facts: SideFacts) -> Trouble | None:
    """Return who took CPUs from a run: a quota, other virtual machines, or other programs."""
    if (facts.throttled or 0.0) >= value("throttled"):
        quota = run.machine.quota_cpus if run.machine is not None else None
        limit = "by a CPU quota" if quota is None else f"to {_cpus(quota)}"
        return Trouble(
            f"this container is limited {limit}",
            "give it two CPUs or more (docker run --cpus 2, or the limit of your job), and run the demo again",
        )
    stolen, others = facts.steal_cores or 0.0, facts.others_cores or 0.0
    cpus = _cpus(run.machine.cpus if run.machine is not None else None)
    if stolen >= value("steal") and stolen >= others:
        return Trouble(
            f"the machine is busy: its hypervisor gave {stolen:.1f} of {cpus} to other virtual machines",
            "run the demo again later, or on another machine",
            may_pass=True,
        )
    if others >= value("others"):
        listed = facts.neighbours.listed if facts.neighbours is not None else ()
        most = f" (the largest: {listed[0].name})" if listed and listed[0].name else ""
        return Trouble(
            f"the machine is busy: other processes used {others:.1f} of {cpus}{most}",
            "run the demo again when they have ended, or on another machine",
            may_pass=True,
        )
    return None


def _cpus(count: float | None) -> str:
    """Return a number of CPUs in words, or "all CPUs" if unknown."""
    if count is None:
        return "all CPUs"
    return f"{count:g} CPU" if count == 1 else f"{count:g} CPUs"
