"""``profkit demo``: the whole workflow on this machine in about a minute.

A small NumPy training is captured twice with the same work: with as many threads and workers as CPUs, and
with several times as many. It is checked that the runs show what the demo claims.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

import profkit
from profkit.capture.host import cpus_to_use
from profkit.cli import say
from profkit.cli.app import CONTEXT
from profkit.cli.options import directory_option
from profkit.cli.output import ReportOptions
from profkit.cli.progress import Progress
from profkit.errors import ProfkitError, UsageError
from profkit.formats import load_run
from profkit.measure.side_facts import SideFacts, side_facts
from profkit.model import Run, RunSet
from profkit.report import units
from profkit.study.trials import on_cpus, run_once, tail
from profkit.verdict.alone import judge_run
from profkit.verdict.thresholds import value
from profkit.verdict.types import Verdict

#: Most CPUs of both runs. More CPUs would only require more processes to show the same effect.
MOST_CPUS = 4

#: Workers, and BLAS threads of each process, per CPU in the oversubscribed run. From 4 on, the training loop
#: waited for a CPU more than half of its time on 1 and on 2 cores.
PER_CPU = 4

#: Fewest workers in the oversubscribed run: on one CPU BLAS has one thread, and only processes compete.
FEWEST_WORKERS = 8

#: Images in an epoch, and in a step; the training's own defaults.
IMAGES, BATCH = 4096, 64

#: Seconds of the clean run's training loop without the profiler; the oversubscribed run took four to six
#: times as long on two CPUs.
CLEAN_S = 6.0

FEWEST_EPOCHS = 2

#: Exit status if this machine prevented the demo from showing its point.
NOT_SHOWN = 3

#: Variables that set the size of the BLAS thread pools NumPy may have been built with.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_EPOCH = re.compile(r"^epoch (\d+): .*, ([0-9.]+) s$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Side:
    """A configuration: augmenting `workers` (0: the training process), and BLAS `threads` per process."""

    name: str
    workers: int
    threads: int

    @property
    def variables(self) -> dict[str, str]:
        return dict.fromkeys(THREAD_VARIABLES, str(self.threads))

    @property
    def size(self) -> str:
        processes = units.counted(self.workers + 1, "process", "processes")
        return f"{processes} with {units.counted(self.threads, 'BLAS thread')} each"


@dataclass(frozen=True, slots=True)
class Length:
    epochs: int
    images: int


#: The trial that measures a step of the clean configuration. Its first epoch waits for the workers to start,
#: and its last one may find batches ready; both are ignored.
TRIAL = Length(epochs=7, images=1024)


def usable_cpus() -> list[int]:
    """Return up to `MOST_CPUS` allowed CPUs, the highest-numbered: the first serve most interrupts."""
    if not hasattr(os, "sched_getaffinity"):
        raise UsageError("profkit demo needs Linux, where a run can be confined to some of the CPUs")
    allowed = sorted(os.sched_getaffinity(0))
    count = min(MOST_CPUS, max(1, int(cpus_to_use())))
    return allowed[-count:]


def sides_for(cpus: int) -> tuple[Side, Side]:
    """Return the configuration that fits `cpus` CPUs, and one far above them."""
    # One CPU for the training loop, the others for workers; a single CPU leaves none for workers.
    fitting = Side("clean", workers=cpus - 1, threads=1)
    workers = max(FEWEST_WORKERS, PER_CPU * cpus)
    above = Side("oversubscribed", workers, threads=PER_CPU * cpus)
    return fitting, above


def plan_length(step_s: float) -> Length:
    """Choose how much to train from the seconds of one step of the clean configuration."""
    steps = CLEAN_S / max(step_s, 1e-6)
    images = IMAGES if steps >= FEWEST_EPOCHS * IMAGES / BATCH else IMAGES // 4
    return Length(max(round(steps / (images / BATCH)), FEWEST_EPOCHS), images)


def training_command(side: Side, length: Length) -> list[str]:
    return [
        *(sys.executable, "-m", "profkit.demo.train"),
        *("--workers", str(side.workers)),
        *("--epochs", str(length.epochs)),
        *("--images", str(length.images)),
    ]


def capture_arguments(side: Side, length: Length, output: Path) -> list[str]:
    return ["capture", "-o", str(output), "--", *training_command(side, length)]


def shell_line(arguments: Sequence[str], variables: dict[str, str], cpus: Sequence[int] | None) -> str:
    """Return the shell command for ``profkit`` with these arguments, confined to `cpus` unless ``None``."""
    words = [f"{name}={value}" for name, value in variables.items()]
    if cpus is not None:
        words += ["taskset", "-c", ",".join(str(cpu) for cpu in cpus)]
    installed = Path(sys.executable).with_name("profkit")
    if shutil.which("profkit"):
        words.append("profkit")
    elif installed.exists():
        words.append(shlex.quote(_short(installed)))
    else:
        words += [shlex.quote(_short(Path(sys.executable))), "-m", "profkit"]
    replaced = [_short(Path(word)) if word == sys.executable else word for word in arguments]
    return " ".join(words + [shlex.quote(word) for word in replaced])


def _short(path: Path) -> str:
    """Return the path relative to the working directory if it is below it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def train(
    side: Side, length: Length, cpus: Sequence[int], text: str, run_file: Path | None = None
) -> list[float]:
    """Announce a training and run it, captured to `run_file` if given; return the seconds of its epochs.

    A terminal shows the epochs while it runs. Raises `ProfkitError` if it fails.
    """
    print(text, file=sys.stderr, flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="profkit-demo-") as folder,
        Progress("epoch") as show,
        on_cpus(cpus),
    ):
        log = Path(folder, "log")

        def epochs() -> list[tuple[str, str]]:
            return _EPOCH.findall(tail(log, 1 << 16))

        show(lambda: "".join(f"{number} of {length.epochs}" for number, _ in epochs()[-1:]))
        ended = run_once(
            training_command(side, length),
            {**os.environ, **side.variables},
            log=log,
            run_file=run_file,
            timeout_s=None,
        )
        if ended.exit_status:
            last = ended.last_line or "it wrote no message"
            raise ProfkitError(f"the demo's training failed with status {ended.exit_status}: {last}")
        return [float(seconds) for _, seconds in epochs()]


def measure_step(side: Side, cpus: Sequence[int]) -> float:
    """Return the seconds of a training step in this configuration, without the profiler."""
    question = f"trial: how fast is it on {units.counted(len(cpus), 'CPU')}?"
    seconds = train(side, TRIAL, cpus, question)
    if len(seconds) < TRIAL.epochs:
        raise ProfkitError("the demo's training did not report its epochs")
    return statistics.median(seconds[1:-1]) / (TRIAL.images / BATCH)


@click.command(context_settings=CONTEXT)
@directory_option("Where the two run files are kept.  [default: profkit-demo]", "profkit-demo")
def demo(directory: Path) -> None:
    """Show the whole workflow on this machine in about a minute.

    The exit status is 3 if this machine did not permit it, for example because other programs took the CPUs.
    It then says what is wrong and what to do.
    """
    cpus = usable_cpus()
    confined = cpus if len(cpus) < len(os.sched_getaffinity(0)) else None
    clean, above = sides_for(len(cpus))
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot be made ({error.strerror}); choose another place", "dir", directory
        ) from None
    files = {side.name: directory / f"{side.name}.prof" for side in (clean, above)}

    length = plan_length(measure_step(clean, cpus))
    train(clean, length, cpus, f"{clean.name}: {clean.size}", files[clean.name])
    trouble = trouble_of_clean(load_run(files[clean.name]))
    if trouble is not None and trouble.may_pass:
        say(trouble.wrong)
        train(clean, length, cpus, f"{clean.name}, once more", files[clean.name])
        trouble = trouble_of_clean(load_run(files[clean.name]))
    if trouble is None:
        train(above, length, cpus, f"{above.name}: {above.size}", files[above.name])
    if trouble is not None:
        say(trouble.wrong)
        say(f"the demo ends here, since a comparison would be wrong: {trouble.remedy}")
        raise click.exceptions.Exit(NOT_SHOWN)

    print(f"The same training twice on {units.counted(len(cpus), 'CPU')}:")
    print(f"  baseline   {clean.size}\n  candidate  {above.size}\n", flush=True)
    goal = ReportOptions().destination()
    result = profkit.diff(files[clean.name], files[above.name], calls=goal.drawn)
    goal.write(result)
    trouble = trouble_of(result.verdict, load_run(files[above.name], edges=False))
    if trouble is not None:
        print(flush=True)
        say(f"the demo should show contention by the program itself, and did not: {trouble.wrong}")
        say(trouble.remedy)
        raise click.exceptions.Exit(NOT_SHOWN)
    print("\nTo repeat it by hand:\n")
    for side in (clean, above):
        arguments = capture_arguments(side, length, files[side.name])
        print("  " + shell_line(arguments, side.variables, confined))
    print("  " + shell_line(["diff", *map(str, files.values())], {}, None))


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
        told = f"{found.wrong}; the clean run waited for a CPU for {units.share(waited)} of its time"
        return Trouble(told, found.remedy, found.may_pass)
    if effect is not None and effect >= MOST_EFFECT:
        return Trouble(
            f"capturing the clean run made it {units.share(effect)} longer on this CPU, too much for a comparison",
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
    return "all CPUs" if count is None else units.cpus(count)
