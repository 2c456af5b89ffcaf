"""Wait states in Scalasca's terms, and why the rank that the others wait for was late."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from profkit.api.many_runs import Ranks, read_ranks
from profkit.model import Run
from profkit.model.pauses import Pause, PauseKind
from profkit.study.wait_states import WAIT_STATES, wait_state
from tests.rank_files import Did, job, write_job


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("<built-in method mpi4py.MPI.Allreduce>", "Wait at N x N"),
        ("<method 'alltoall' of 'mpi4py.MPI.Comm' objects>", "Wait at N x N"),
        ("<method 'allgather' of 'torch._C._distributed_c10d.ProcessGroup' objects>", "Wait at N x N"),
        ("all_reduce", "Wait at N x N"),
        ("<built-in method mpi4py.MPI.Barrier>", "Wait at Barrier"),
        ("<built-in method mpi4py.MPI.scatter>", "Late Broadcast"),
        ("<built-in method mpi4py.MPI.Reduce>", "Early Reduce"),
        ("<built-in method mpi4py.MPI.recv>", "Late Sender"),
        ("<built-in method mpi4py.MPI.Waitall>", "Late Sender"),
        ("<built-in method mpi4py.MPI.Ssend>", "Late Receiver"),
        ("<method 'wait' of 'torch._C._distributed_c10d.Work' objects>", "Wait"),
        ("<built-in method mpi4py.MPI.call>", "Wait"),
    ],
)
def test_a_call_says_what_it_waits_for(name: str, state: str) -> None:
    assert WAIT_STATES[wait_state(name)] == state


def late(directory: Path, what: PauseKind | None, call: str) -> Ranks:
    """Read a job whose rank 2 is off the CPU for something in `load`, and whose others wait for it in a call."""
    name = f"<built-in method mpi4py.MPI.{call}>"
    waiting = {r: {name: Did(100, 0.1, 0.0, 3.0)} for r in range(8)}
    waiting[2] = {name: Did(100, 0.1), "load": Did(100, 1.0, 0.0, 3.0)}
    return read_ranks([write_job(directory, [_seen(run, what) for run in job(waiting)])])


def _seen(run: Run, what: PauseKind | None) -> Run:
    """Say what a rank's `load`, its first function, waited for."""
    (process,) = run.processes
    (thread,) = process.threads
    seconds = float(thread.profile.blocked[0])
    pauses = None if what is None else (Pause(0, what, seconds, 10),) if seconds else ()
    return replace(run, processes=(replace(process, threads=(replace(thread, pauses=pauses),)),))


@pytest.mark.parametrize(
    ("what", "kind"), [("pipe", "loading"), ("stopped", "stopped"), ("sleep", "blocked"), (None, "blocked")]
)
def test_what_a_late_rank_waited_for_is_the_reason(tmp_path: Path, what: PauseKind | None, kind: str) -> None:
    found = late(tmp_path, what, "recv").study.stragglers
    assert [(s.member, s.kind, s.wait_state) for s in found] == [(2, kind, "Late Sender")]
    assert found[0].wait_s == pytest.approx(3.0, abs=1e-3)
    assert found[0].unknown == ("looks" if what is None else "")


def test_a_sentence_says_wait_state_rank_and_reason_or_what_would_settle_it(tmp_path: Path) -> None:
    said = " ".join(late(tmp_path / "a", "socket", "Ssend").report().split())
    assert "Late Receiver: the others wait" in said
    assert "for rank 2, which is late: it waits for data" in said
    said = " ".join(late(tmp_path / "b", None, "Bcast").report().split())
    assert "Late Broadcast: the others wait" in said
    assert "the reason is not clear: why it was off-CPU was not recorded" in said
