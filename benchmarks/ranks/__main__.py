"""How often ``profkit ranks`` names the late rank of an MPI job, its wait state in Scalasca's terms, and the cause.

``python -m benchmarks.ranks --python PYTHON [--ranks 4 8 16] [--repeats N] [--seconds S]`` runs ``program.py`` with
4, 8 and 16 ranks under ``profkit capture``. One cause is put into a rank that is drawn from a seed. The truth is what
was put in; a job is right where this rank is named first, with this cause and the wait state of the call. The ranks
wait for a device most of the time, so that those of a large job leave each other CPU time where CPUs are few.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import PROFKIT, environment, machine, progress
from profkit.api.many_runs import read_ranks

_PROGRAM = Path(__file__).with_name("program.py")
_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
}
_STATES = {
    "allreduce": "Wait at N x N",
    "bcast": "Late Broadcast",
    "ring": "Late Sender",
    "collect": "Late Receiver",
}
#: What is put in: the cause, the kinds of communication, and the kinds of stragglers that name it.
CASES = (
    ("work", ("allreduce", "ring"), {"work"}),
    ("gc", ("allreduce", "ring"), {"collections"}),
    ("loading", ("allreduce", "ring"), {"loading"}),
    ("neighbour", ("allreduce", "ring"), {"queue"}),
    ("stopped", ("allreduce", "ring"), {"stopped", "slower-cpu", "queue"}),
    ("late", ("bcast", "collect", "ring"), {"blocked"}),
    ("nothing", ("allreduce", "ring"), set()),
)
_HOGS = 3


@contextlib.contextmanager
def _from_outside(cause: str, directory: Path) -> Iterator[None]:
    """Disturb the process whose number appears in the file ``pid``, while the job runs."""
    over = threading.Event()
    hogs: list[subprocess.Popen[bytes]] = []

    def disturb() -> None:
        path = directory / "pid"
        while not (path.exists() and path.read_text()):
            if over.wait(0.02):
                return
        pid = int(path.read_text())
        with contextlib.suppress(ProcessLookupError):
            if cause == "neighbour":
                cpu = max(os.sched_getaffinity(0))
                os.sched_setaffinity(pid, {cpu})
                code = f"import os\nos.nice(-10)\nos.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
                hogs.extend(subprocess.Popen([sys.executable, "-c", code]) for _ in range(_HOGS))
            while cause == "stopped" and not over.is_set():
                os.kill(pid, signal.SIGSTOP)
                time.sleep(0.06)
                os.kill(pid, signal.SIGCONT)
                over.wait(0.06)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for hog in hogs:
            hog.kill()
            hog.wait()


def judge(
    python: str, kind: str, cause: str, ranks: int, late: int, kept: Path | None
) -> tuple[list[int], str, str]:
    """Run one job, unless `kept` has it; return the ranks that are named, and cause and wait state of the first."""
    with tempfile.TemporaryDirectory(prefix="ranks-") as made:
        directory = Path(made)
        run = (kept or directory) / f"{cause}-{kind}-{ranks}-{late}.prof"
        job = ["mpirun", "-n", str(ranks), python, str(_PROGRAM), kind, cause, str(late), made]
        command = [*PROFKIT, "capture", "-q", "-o", str(run), "--", *job]
        inherited = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
        if not run.exists():
            with _from_outside(cause, directory):
                subprocess.run(command, check=True, env={**inherited, **_MPI}, cwd=Path(__file__).parents[2])
        study = read_ranks([run]).study
        named = [study.members[s.member].rank for s in study.stragglers]
        first = study.stragglers[0] if study.stragglers else None
        return (
            [r for r in named if r is not None],
            first.kind if first else "",
            first.wait_state if first else "",
        )


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ranks", description=__doc__)
    parser.add_argument("--python", required=True, help="an interpreter with NumPy and mpi4py")
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--causes", nargs="+", default=[cause for cause, _, _ in CASES])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no job after so long")
    parser.add_argument(
        "--keep", type=Path, help="a directory for the run files; those there are not made again"
    )
    options = parser.parse_args()
    draw, begin = random.Random(options.seed), time.monotonic()
    counts: dict[tuple[str, int], list[int]] = {}
    jobs = [
        (cause, kind, kinds, ranks)
        for _ in range(options.repeats)
        for cause, of, kinds in CASES
        if cause in options.causes
        for kind in of
        for ranks in options.ranks
    ]
    for cause, kind, kinds, ranks in jobs:
        late = draw.randrange(ranks)
        if time.monotonic() - begin > options.seconds:
            progress(f"not run: {cause} {kind} {ranks}")
            continue
        named, why, state = judge(options.python, kind, cause, ranks, late, options.keep)
        right_rank = named[:1] == ([late] if kinds else [])
        right_cause = right_rank and (not kinds or why in kinds)
        right_state = right_rank and (not kinds or state == _STATES[kind])
        of = counts.setdefault((cause, ranks), [0, 0, 0, 0, 0])
        for i, hit in enumerate((True, right_rank, right_cause, right_state, right_rank and len(named) < 2)):
            of[i] += hit
        progress(f"{cause} {kind} {ranks}: rank {late}; named {named} {why} {state!r}")
    print("| put in | ranks | jobs | right rank | right cause | right wait state | no other named |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for (cause, ranks), of in counts.items():
        print(f"| {cause} | {ranks} | {' | '.join(map(str, of))} |")
    whole = [sum(column) for column in zip(*counts.values(), strict=True)]
    print(f"| all | | {' | '.join(map(str, whole))} |\n\n{machine(options.python)}")


if __name__ == "__main__":
    main()
