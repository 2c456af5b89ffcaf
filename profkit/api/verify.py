"""`verify`: try a piece of advice, by running the recorded command with it and without."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from profkit import model
from profkit.api.diff import Diff
from profkit.api.diff import diff as compare
from profkit.api.reported import Studied
from profkit.api.run import Run, read
from profkit.capture.agent.settings import RECORDED_VARIABLES
from profkit.errors import FormatError, UsageError
from profkit.measure.run_settings import set_by_hand
from profkit.report.placeholders import PLACEHOLDER
from profkit.report.sweepdoc import VerifyReport
from profkit.study.journal import Journal
from profkit.study.sweep import Progress, Runner
from profkit.study.trials import on_cpus
from profkit.study.verify import Change, Plan, Tried, advised, plan_of, space_of_two, try_change
from profkit.verdict.types import Advice


def verify(
    run: str | os.PathLike[str],
    candidate: str | os.PathLike[str] | None = None,
    *,
    number: int | None = None,
    profiled: bool = True,
    limit_s: float | None = None,
    timeout_s: float | None = None,
    directory: str | os.PathLike[str] | None = None,
    here: bool = False,
    progress: Callable[[Progress | Plan | Tried], None] = lambda _: None,
) -> Studied[Tried]:
    """Run a recorded command with and without a piece of advice, in turn, until there is a decision.

    The advice comes from `run`, or from comparing `candidate` with it, whose command then runs. `number` counts from
    1 in the report's order; the default is the first advice that can be tried. No round begins after `limit_s`
    (default: 600, or four rounds); a run ends after `timeout_s` (default: several times the recorded wall). A
    `directory` keeps the runs, and an interrupted study continues from it. `here` permits a run of another machine.
    `progress` is called with the plan, before and after each run, and with the result after each round.

    Raises `FormatError` if a file cannot be read, or its command cannot be repeated here; `UsageError` if
    there is no such advice, or the CPUs are missing; `Interrupted` if the user stopped it before both had run.
    """
    result: Run | Diff = read(run) if candidate is None else compare(run, candidate)
    whole = result.whole if isinstance(result, Run) else result.pictured[1]
    manifest = _repeatable(whole, here)
    recorded = {n: v for n, v in manifest.environment.items() if n in RECORDED_VARIABLES}
    cwd, variables = Path(manifest.cwd), set_by_hand(recorded)
    wall_s = manifest.wall_s if manifest.whole_s is None else manifest.whole_s
    roots = dict.fromkeys(Path(root) for process in whole.processes for root in process.roots.project)
    verdict = result.verdict
    every = verdict.advice if verdict is not None else ()
    number, change = _chosen(every, number, manifest.command, (*roots, cwd))
    chosen = every[number - 1]
    space = space_of_two(change, variables)
    plan = plan_of(wall_s, chosen.predicted_gain_s, limit_s, timeout_s)
    # Without this process's own thread variables: those that the run did not have were unset in it.
    mine = set_by_hand({n: v for n, v in os.environ.items() if n in RECORDED_VARIABLES})
    environment = {n: v for n, v in os.environ.items() if n not in mine} | variables
    with tempfile.TemporaryDirectory(prefix="profkit-verify-") as temporary:
        # Absolute: runs have another working directory.
        place = Path(temporary) if directory is None else Path(directory).absolute()
        with on_cpus(manifest.host.affinity_cpus), Journal(place, space, profiled=profiled) as journal:
            runner = Runner(space, journal.runs, profiled, environment, plan.timeout_s, cwd=cwd)
            tried = try_change(journal, runner, plan, progress=progress)
    report = VerifyReport(tried, chosen, number, change, wall_s)
    return Studied(tried, report, [str(path) for path in (run, candidate) if path is not None], [whole])


def _repeatable(run: model.Run, here: bool) -> model.Manifest:
    """Return how the command was run; raises `FormatError` if it cannot be repeated."""

    def refused(problem: str, hint: str) -> FormatError:
        return FormatError(run.path, problem, hint)

    manifest = run.manifest
    if manifest is None or not manifest.command:
        raise refused("holds no command that could be run", "capture it with profkit capture")
    masked = (*manifest.command, manifest.cwd, *manifest.environment.values())
    if any(map(_is_masked, masked)):
        raise refused("its command is masked", "use the file that profkit capture wrote")
    if manifest.job is not None:
        hint = "try the advice where you start the job"
        raise refused("is one part of a job that other commands also started", hint)
    if any(notice.code == "attached" for notice in run.warnings):
        raise refused(
            "was captured from a program that was already running", "capture its command from the start"
        )
    host = manifest.host.name
    if host != platform.node() and not here:
        hint = "run this there, or say that it is to run here"
        raise refused(f"was captured on another machine ({host or 'whose name it lacks'})", hint)
    cwd = Path(manifest.cwd)
    if not cwd.is_dir():
        raise refused(f"its working directory is not here: {manifest.cwd}", "run this where it ran")
    program = manifest.command[0]
    found = shutil.which(program if os.sep not in program else str(cwd / program))
    missing = program if found is None else _missing_script(manifest.command, cwd)
    if missing:
        raise refused(f"its command needs {missing}, which is not here", "run this where it ran")
    return manifest


def _is_masked(word: str) -> bool:
    """Return whether a word contains a placeholder of masking; ``--job-name`` or a directory ``job-logs`` is none."""
    return any(
        found[0] == word or not found[0].startswith(("host-", "job-")) for found in PLACEHOLDER.finditer(word)
    )


def _missing_script(command: Sequence[str], cwd: Path) -> str:
    """Return the first argument that names a Python script, if there is no such file."""
    script = next((word for word in command[1:] if word.endswith(".py") and not word.startswith("-")), "")
    return "" if not script or (cwd / script).is_file() else script


def _chosen(
    every: Sequence[Advice], number: int | None, command: Sequence[str], roots: Sequence[Path]
) -> tuple[int, Change]:
    """Return the number of the advice to try, and what it changes; `UsageError` if none can be tried."""
    if not every:
        raise UsageError("there is no advice: the run lacked nothing that settings would give it")
    changes = [advised(advice, command, roots) for advice in every]
    if number is None:
        number = next((place for place, change in enumerate(changes, 1) if change is not None), None)
        if number is None:
            raise UsageError("none of the advice changes the command or a line of the program")
    if not 1 <= number <= len(every):
        raise UsageError(f"there is no advice {number}: the report lists {len(every)}")
    change = changes[number - 1]
    if change is None:
        raise UsageError(
            f"advice {number} is no change of the command, or of a line of the program that is here"
        )
    return number, change
