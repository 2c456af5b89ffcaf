"""Processes of one job against each other: stragglers, errors, reports; and jobs of several sizes."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from profkit.api.many_runs import Ranks, read_ranks, read_scaling
from profkit.formats.load import join_ranks
from profkit.formats.runfile import write_run
from profkit.model import Notice, Run
from profkit.model.pauses import Pause, PauseKind
from profkit.study.rank_table import expand, rank_table
from profkit.study.stragglers import threshold
from profkit.study.wait_states import WAIT_STATES, wait_state
from profkit.study.workers import crew
from tests.builders import with_estimates, with_main, with_thread
from tests.programs import on
from tests.rank_files import Did, job, noisy_job, rank_run, write_job, write_plain
from tests.shared import check_schema, refused

ALLREDUCE = "<method 'Allreduce' of 'mpi4py.MPI.Comm' objects>"


def study(directory: Path, **options: object) -> Ranks:
    return read_ranks([directory], **options)  # type: ignore[arg-type]


def labels(found: Ranks) -> list[str]:
    return [found.study.members[s.member].label for s in found.study.stragglers]


@pytest.mark.parametrize("joined", [False, True], ids=["a file a rank", "one file"])
@pytest.mark.parametrize("size", [2, 3, 4, 8, 33])
def test_the_rank_that_works_longer_is_named_and_not_the_ones_that_wait(
    tmp_path: Path, size: int, joined: bool
) -> None:
    slow = {1: {"gradient": Did(100, 6.0), ALLREDUCE: Did(100, 0.01, 0.0, 0.01)}}
    waiting = {r: {ALLREDUCE: Did(100, 2.0, 0.0, 1.0)} for r in range(size) if r != 1}
    found = study(write_job(tmp_path, job({**slow, **waiting}, size=size), joined=joined))
    assert labels(found) == ["rank 1"]
    straggler = found.study.stragglers[0]
    assert straggler.kind == "slower"
    assert straggler.run_s == pytest.approx(2.0, abs=1e-4)
    assert straggler.usual_waits_s == pytest.approx(3.0, abs=1e-4)
    assert [d.function.qualname for d in straggler.deviations if d.function] == ["gradient"]
    # All own 5 s, the slow one 7 s: the 10 s of the job would be 2 s less.
    assert straggler.without_s == pytest.approx(8.0, abs=1e-3)
    assert straggler.faster == pytest.approx(1.25, abs=1e-3)


@pytest.mark.parametrize(
    ("did", "kind"),
    [
        (Did(150, 6.0), "work"),
        (Did(100, 6.0), "slower"),
        (Did(100, 4.0, 3.0), "queue"),
        (Did(100, 4.0, 0.0, 3.0), "blocked"),
        # Most of the excess is collecting garbage, or less than that.
        (Did(100, 6.0, collecting=1.5), "collections"),
        (Did(150, 6.0, collecting=1.5), "collections"),
        (Did(100, 6.0, collecting=0.8), "slower"),
        (Did(100, 4.0, 3.0, collecting=0.1), "queue"),
    ],
)
def test_a_straggler_is_said_to_do_what_it_does(tmp_path: Path, did: Did, kind: str) -> None:
    found = study(write_job(tmp_path, job({5: {"gradient": did}})))
    (straggler,) = found.study.stragglers
    assert (labels(found), straggler.kind) == (["rank 5"], kind)
    assert straggler.collects_s == pytest.approx(did.collecting, abs=1e-4)
    said = " ".join(found.report().split())
    assert ("gc.freeze()" in said) == ("most of it while gradient runs" in said) == (kind == "collections")


@pytest.mark.parametrize(("queue", "kind"), [(4.0, "slower"), (6.0, "queue")])
def test_a_small_part_of_what_a_rank_takes_longer_is_not_why_it_is_late(
    tmp_path: Path, queue: float, kind: str
) -> None:
    """All queue, one of them longer but within the noise of queueing; what is beyond the noise is 0.4 s of work."""
    usual = {"gradient": Did(100, 4.0, 4.0)}
    runs = [rank_run(r, {"gradient": Did(100, 4.4, queue)} if r == 3 else usual) for r in range(8)]
    found = study(write_job(tmp_path, runs)).study.stragglers
    assert [(one.member, one.kind) for one in found] == [(3, kind)]


@pytest.mark.parametrize(("width", "kind"), [(0.1, "work"), (0.5, "longer"), (math.nan, "longer")])
def test_calls_that_were_estimated_coarsely_do_not_say_whether_there_is_more_work(
    tmp_path: Path, width: float, kind: str
) -> None:
    def estimated(run: Run) -> Run:
        exact = run.processes[0].threads[0].profile
        known = [(n * (1 - width), n * (1 + width), 100, 0.01) for n in exact.ncalls.tolist()]
        return with_thread(run, profile=with_estimates(exact, known))

    runs = [estimated(run) for run in job({5: {"gradient": Did(150, 6.0)}})]
    found = study(write_job(tmp_path, runs))
    (straggler,) = found.study.stragglers
    assert (labels(found), straggler.kind) == (["rank 5"], kind)
    check_schema(json.loads(found.report("json")), "ranks-1.json")


def test_collections_that_all_ranks_have_or_that_strike_while_waiting_hold_nobody_up(tmp_path: Path) -> None:
    alike = {r: {"gradient": Did(100, 4.0, collecting=1.5)} for r in range(8)}
    alike[3] = {"gradient": Did(100, 6.0, collecting=1.5), ALLREDUCE: Did(100, 0.5, 0.0, 0.5, 0.4)}
    (straggler,) = study(write_job(tmp_path, job(alike))).study.stragglers
    assert (straggler.kind, straggler.collects_s) == ("slower", pytest.approx(0.0, abs=1e-4))


def test_where_one_rank_did_not_measure_collections_none_is_accused_of_them(tmp_path: Path) -> None:
    runs = job({5: {"gradient": Did(100, 6.0, collecting=1.5)}})
    runs[0] = job(collected=False)[0]
    (straggler,) = study(write_job(tmp_path, runs)).study.stragglers
    assert (straggler.kind, straggler.collects_s) == ("slower", None)


@pytest.mark.parametrize(("queue", "kinds"), [(3.0, ["slower-cpu"]), (0.2, [])])
def test_a_slower_cpu_that_saves_as_much_queueing_holds_nobody_up(
    tmp_path: Path, queue: float, kinds: list[str]
) -> None:
    """Beside other work of the machine: all its functions take longer on a CPU, for which it waits less."""
    usual = {"gradient": Did(100, 4.0, 3.0), "load": Did(100, 1.0)}
    slow = {"gradient": Did(100, 6.0, queue), "load": Did(100, 1.5)}
    runs = [
        rank_run(r, {**(slow if r == 3 else usual), ALLREDUCE: Did(100, 0.1, 0.0, 0.9)}) for r in range(8)
    ]
    assert [one.kind for one in study(write_job(tmp_path, runs)).study.stragglers] == kinds


def test_a_slow_host_is_named(tmp_path: Path) -> None:
    runs = [
        rank_run(r, {"gradient": Did(100, 5.0 if r < 2 else 4.0)}, host="slow" if r < 2 else f"fast{r // 4}")
        for r in range(10)
    ]
    assert study(write_job(tmp_path, runs)).study.slow_host == "slow"


def test_a_rank_that_is_slow_in_one_function_and_fast_in_another_is_still_seen_by_its_order(
    tmp_path: Path,
) -> None:
    swapped = {3: {"gradient": Did(100, 1.0), "load": Did(100, 4.0)}}
    found = study(write_job(tmp_path, job(swapped)))
    assert labels(found) == []
    (one,) = found.study.reordered
    places = {(p.function.qualname, p.place, p.usual) for p in one.places}
    assert (one.member, places) == (3, {("load", 1, 2), ("gradient", 2, 1)})


def test_ranges_that_take_longer_are_found_without_those_of_warming_up(tmp_path: Path) -> None:
    """Rank 2's first forward passes are slow in all ranks; later ones are in rank 2 alone."""
    usual = {"gradient": Did(100, 4.0), "all_reduce": Did(100, 0.0, 0.0, 1.0)}
    runs = [rank_run(r, usual, steps=[0.3] * 3 + [0.06 if r == 2 else 0.04] * 60) for r in range(8)]
    found = study(write_job(tmp_path, runs)).study
    (row,) = [row for row in found.ranges if row.name == "forward {n}"]
    assert [(r.count, r.left_out) for r in row.of if r is not None] == [(60, 3)] * 8
    assert [r.median_s for r in row.of if r is not None] == pytest.approx([0.04, 0.04, 0.06, *[0.04] * 5])


def test_unrecognised_waiting_accuses_nobody_and_can_be_named(tmp_path: Path) -> None:
    """A rank that waits by spinning looks as busy as one that works."""
    usual = {"load": Did(100, 1.0), "gradient": Did(100, 3.0), "exchange": Did(100, 2.0)}
    slow = {**usual, "gradient": Did(100, 4.5), "exchange": Did(100, 0.5)}
    runs = [rank_run(r, slow if r == 2 else usual) for r in range(8)]
    write_job(tmp_path, runs)
    unclear = study(tmp_path)
    assert labels(unclear) == []
    (moved,) = unclear.study.moved
    assert (moved.member, moved.more.qualname, moved.less.qualname) == (2, "gradient", "exchange")
    assert "exchange" in unclear.report()
    assert labels(study(tmp_path, waits=["exch*"])) == ["rank 2"]


def test_a_rank_that_is_done_earlier_and_waits_in_unknown_calls_is_not_accused(tmp_path: Path) -> None:
    """As in the backward pass of gloo, which waits in C++ off the CPU."""
    usual = {"load": Did(100, 1.0), "run_backward": Did(100, 3.0, 0.0, 0.2)}
    fast = {"load": Did(100, 1.0), "run_backward": Did(100, 2.0, 0.0, 1.2)}
    found = study(write_job(tmp_path, [rank_run(r, fast if r == 7 else usual) for r in range(8)]))
    assert labels(found) == []


def test_ranks_that_another_one_started_are_no_helpers_of_it(tmp_path: Path) -> None:
    """As Lightning's first rank starts those of its node."""
    joined = join_ranks(job(size=4))
    first, *others = joined.processes
    started = [replace(p, pid=200 + i, parent=first.pid) for i, p in enumerate(others)]
    write_run(tmp_path / "job.prof", replace(joined, processes=(first, *started)))
    found = study(tmp_path)
    assert labels(found) == []
    assert [member.helpers_run_s for member in found.study.members] == [0.0] * 4


def test_ranges_of_threads_beside_the_main_one_hold_nobody_up(tmp_path: Path) -> None:
    usual = {"gradient": Did(100, 4.0), "all_reduce": Did(100, 0.0, 0.0, 1.0)}
    runs = [rank_run(r, usual, steps=[0.06 if r == 2 else 0.04] * 60) for r in range(8)]
    for run in runs:
        (process,) = run.processes
        beside = replace(process.ranges, thread=process.ranges.thread + 1)
        object.__setattr__(run, "processes", (replace(process, ranges=beside),))
    found = study(write_job(tmp_path, runs))
    assert (labels(found), found.study.ranges) == ([], ())


@pytest.mark.parametrize("size", [4, 24])
def test_noise_is_no_straggler_and_a_fifth_more_is_one(tmp_path: Path, size: int) -> None:
    false = missed = 0
    for seed in range(5):
        where = tmp_path / f"{seed}"
        even = study(write_job(where / "even", noisy_job(size, seed), joined=True))
        false += bool(labels(even)) or "No straggler" not in even.report()
        slow = study(write_job(where / "slow", noisy_job(size, seed, slow={seed % size: 1.2}), joined=True))
        missed += labels(slow) != [f"rank {seed % size}"]
    assert (false, missed) == (0, 0)


@pytest.mark.parametrize(("n", "tests"), [(2, 1), (4, 3), (100, 1), (1000, 5)])
def test_the_threshold_is_the_quantile_that_it_claims(n: int, tests: int) -> None:
    """The tail of Student's t beyond it, integrated, is the chance of one false alarm in as many comparisons."""
    freedom = 8 + (0.37 * n if n >= 4 else 0)
    quantile = threshold(n, tests) / math.sqrt(1 + (1 if n < 4 else math.pi / 2) / (n - 1))
    x = np.linspace(quantile, quantile + 200, 2_000_001)
    log_density = (
        math.lgamma((freedom + 1) / 2)
        - math.lgamma(freedom / 2)
        - 0.5 * math.log(freedom * math.pi)
        - (freedom + 1) / 2 * np.log1p(x**2 / freedom)
    )
    density = np.exp(log_density)
    tail = float(((density[1:] + density[:-1]) / 2 * np.diff(x)).sum())
    assert tail == pytest.approx(0.01 / (n * tests), rel=0.1)


def test_the_result_does_not_depend_on_who_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profkit.study.workers._WORTH_BYTES", 0)
    write_job(tmp_path, noisy_job(24, 1, slow={3: 1.5}))
    assert labels(study(tmp_path)) == ["rank 3"]
    alone, two, three = (
        study(tmp_path, jobs=jobs).report("json", limit=0, full_paths=True) for jobs in (1, 2, 3)
    )
    assert alone == two == three


def test_a_function_that_only_a_few_ranks_have_is_found_by_a_second_reading(tmp_path: Path) -> None:
    """The sample of files that is read first does not have it."""
    odd = {7: {"checkpoint": Did(1, 1.0)}}
    write_job(tmp_path, job(odd, size=24))
    with crew([]) as workers:
        table = rank_table(expand([tmp_path]), workers)
    column = [key.qualname for key in table.functions].index("checkpoint")
    assert np.flatnonzero(table.metric("run")[:, column]).tolist() == [7]
    assert labels(study(tmp_path)) == ["rank 7"]


def test_a_project_that_lies_elsewhere_on_other_machines_is_the_same(tmp_path: Path) -> None:
    for i in range(6):
        file = f"/home/user{i}/checkout{i}/project/train/loop.py"
        times = {(file, f"function_{k}"): 1.0 for k in range(20)}
        times[file, "gradient"] = 40.0 if i == 4 else 20.0
        write_plain(tmp_path / f"part{i}.prof", times)
    found = study(tmp_path)
    assert labels(found) == ["part4.prof"]
    assert len(found.study.functions) == 21


def test_files_that_cannot_be_read_are_skipped_and_said(tmp_path: Path) -> None:
    write_job(tmp_path, job(size=4))
    (tmp_path / "a-broken.prof").write_bytes(b"{")
    found = study(tmp_path)
    assert len(found.study.members) == 4
    assert [n.code for n in found.study.notices] == ["file-skipped"]
    assert "a-broken.prof" in found.report("md")


def test_bad_input_gives_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job_files, again = (write_job(tmp_path / name, job(size=4)) for name in ("job", "again"))
    one, none = job_files / "run-rank0.prof", tmp_path / "none.prof"
    later = write_job(tmp_path / "later", job(size=4, job="4712"))
    wider = write_job(tmp_path / "wider", job(size=8))
    (tmp_path / "y").mkdir()
    for name in ("train", "serve"):
        write_plain(tmp_path / "x" / f"{name}.prof", {(f"/{name}/{name}.py", name): 5.0})
        (tmp_path / "y" / f"{name}.prof").write_bytes(b"")
    for words, said in (
        ([one], "holds one process"),
        ([none], "there is no such file"),
        ([none, one], "only "),
        ([tmp_path / "*.dat"], "matches no file"),
        ([], "name the run files"),
        ([job_files, again], "ranks 0, 1, 2, 3 found more than once"),
        ([one, later / "run-rank1.prof"], "is of another job than"),
        ([one, wider / "run-rank7.prof"], "(size 8, not 4): name the files of one run of the job"),
        ([tmp_path / "x"], "is of a different program"),
        ([tmp_path / "y"], "nor can the 1 other files be read"),
    ):
        assert said in refused(capsys, "ranks", *words)


def test_ranks_of_one_job_may_do_different_work(tmp_path: Path) -> None:
    """As a master and its workers do."""
    runs = [rank_run(r, {"serve" if r == 0 else "work": Did(100, 4.0)}, size=4) for r in range(4)]
    assert len(study(write_job(tmp_path, runs)).study.members) == 4


def test_json_follows_its_schema_and_every_format_names_the_straggler(tmp_path: Path) -> None:
    found = study(write_job(tmp_path, job({3: {"gradient": Did(100, 6.0)}})))
    value = json.loads(found.report("json"))
    check_schema(value, "ranks-1.json")
    assert value["stragglers"][0]["label"] == "rank 3"
    for format in ("terminal", "md", "html"):
        text = found.report(format)
        assert "Rank 3 holds the others up" in text
        assert "gradient" in text


def test_a_straggler_is_named_with_its_node_where_there_are_several(tmp_path: Path) -> None:
    def verdict(name: str, hosts: int, places: bool) -> str:
        runs = []
        for r in range(8):
            did = {"gradient": Did(100, 6.0 if r == 5 else 4.0)}
            run = rank_run(r, did, host=f"n{r * hosts // 8}")
            place = {"local_rank": r % 4, "node": r // 4} if places else {}
            runs.append(with_main(run, **place))
        report = study(write_job(tmp_path / name, runs)).report("md")
        return next(line for line in report.splitlines() if "holds the others up" in line).lower()

    assert "rank 5 (local rank 1 on host-b) holds" in verdict("two hosts", 2, places=True)
    assert "rank 5 (on host-b) holds" in verdict("unsaid", 2, places=False)
    assert "rank 5 (local rank 1 on node 1) holds" in verdict("one host", 1, places=True)
    assert "rank 5 holds" in verdict("old files", 1, places=False)


def test_of_thousands_of_ranks_the_map_shows_those_that_deviate(tmp_path: Path) -> None:
    found = study(write_job(tmp_path, noisy_job(120, 5, slow={110: 1.5}), joined=True))
    assert labels(found) == ["rank 110"]
    text = found.report("md")
    assert "The 16 processes that deviate most, of 120" in text
    assert "110" in text


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("<built-in method mpi4py.MPI.Allreduce>", "Wait at N x N"),
        ("<method 'allgather' of 'torch._C._distributed_c10d.ProcessGroup' objects>", "Wait at N x N"),
        ("all_reduce", "Wait at N x N"),
        ("<built-in method mpi4py.MPI.Barrier>", "Wait at Barrier"),
        ("<built-in method mpi4py.MPI.scatter>", "Late Broadcast"),
        ("<built-in method mpi4py.MPI.Reduce>", "Early Reduce"),
        ("<built-in method mpi4py.MPI.recv>", "Late Sender"),
        ("<built-in method mpi4py.MPI.Waitall>", "Late Sender"),
        ("<built-in method mpi4py.MPI.Ssend>", "Late Receiver"),
        ("<method 'wait' of 'torch._C._distributed_c10d.Work' objects>", "Wait"),
    ],
)
def test_a_call_says_what_it_waits_for(name: str, state: str) -> None:
    assert WAIT_STATES[wait_state(name)] == state


def late(directory: Path, what: PauseKind | None, call: str) -> Ranks:
    """Read a job whose rank 2 is off the CPU for something in `load`, and whose others wait for it in a call."""
    name = f"<built-in method mpi4py.MPI.{call}>"
    waiting = {r: {name: Did(100, 0.1, 0.0, 3.0)} for r in range(8)}
    waiting[2] = {name: Did(100, 0.1), "load": Did(100, 1.0, 0.0, 3.0)}

    def seen(run: Run) -> Run:
        seconds = float(run.processes[0].threads[0].profile.blocked[0])
        return with_thread(run, pauses=what and ((Pause(0, what, seconds, 10),) if seconds else ()))

    return study(write_job(directory, [seen(run) for run in job(waiting)]))


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


# Runs with different numbers of processes and nodes: grouping, efficiencies, slow-downs


def ran(
    where: Path, processes: int, nodes: int, wall: float, *, useful: float, slow: float = 1.0, repeat: int = 0
) -> Path:
    """Write the run of a job in one file: every rank computes, the last one `slow` times as long."""
    job, runs = f"{processes}x{nodes}-{repeat}", []
    for r in range(processes):
        did = {"gradient": Did(100, useful * (slow if r == processes - 1 else 1.0))}
        host = f"node{r * nodes // processes}"
        runs.append(rank_run(r, did, size=processes, job=job, host=host, wall=wall))
    return write_job(where / job, runs, joined=True)


def test_efficiencies_multiply_to_what_they_claim(tmp_path: Path) -> None:
    jobs = [ran(tmp_path, 2, 1, 10.0, useful=8.0), ran(tmp_path, 4, 1, 6.0, useful=4.4, slow=1.25)]
    study = read_scaling(jobs).study
    first, second = study.places
    assert (first.processes, second.processes, study.slowdowns) == (2, 4, ())
    assert (first.parallel, first.speedup) == pytest.approx((0.8, 1.0))
    mean = 4.4 * (3 + 1.25) / 4
    balance, communication, computation = mean / 5.5, 5.5 / 6.0, 16.0 / (4 * mean)
    assert (second.balance, second.communication) == pytest.approx((balance, communication))
    assert (second.parallel, second.computation) == pytest.approx((balance * communication, computation))
    assert (second.whole, second.speedup) == pytest.approx((second.parallel * computation, 10 / 6))
    assert second.ideal == 2.0


def test_of_work_that_grows_the_same_time_is_ideal(tmp_path: Path) -> None:
    jobs = [ran(tmp_path, 2, 1, 10.0, useful=8.0), ran(tmp_path, 8, 2, 10.0, useful=8.0)]
    study = read_scaling(jobs, weak=True).study
    assert [place.ideal for place in study.places] == [1.0, 1.0]
    assert study.places[1].computation == pytest.approx(1.0)


def test_a_second_node_that_makes_it_slower_is_flagged(tmp_path: Path) -> None:
    """Also beyond the noise of repeats; a difference within it is not."""
    for i, (one, two, four) in enumerate([(10.0, 6.0, 8.0), (10.1, 6.1, 8.2), (9.9, 5.9, 7.9)]):
        ran(tmp_path, 4, 1, one, useful=4.0, repeat=i)
        ran(tmp_path, 8, 1, two, useful=2.0, repeat=i)
        ran(tmp_path, 8, 2, four, useful=2.0, repeat=i)
    result = read_scaling([tmp_path / "*" / "*.prof"])
    (slow,) = result.study.slowdowns
    fewer, more = result.study.places[slow.fewer], result.study.places[slow.more]
    assert (fewer.processes, fewer.nodes, more.processes, more.nodes) == (8, 1, 8, 2)
    assert slow.factor == pytest.approx(8.0 / 6.0)
    assert more.runs == 3
    assert more.low_s < 8.0 < more.high_s
    assert "From 1 to 2 nodes the run gets 1.33× slower" in result.report()
    assert "processes ↓  nodes →" in result.report("md")


def test_files_of_single_ranks_are_joined_by_job_and_repetition(tmp_path: Path) -> None:
    for processes in (2, 4):
        for started in ("2026-01-01T00:00:00+00:00", "2026-01-01T01:00:00+00:00"):
            for r in range(processes):
                run = rank_run(r, {"f": Did(1, 1.0)}, size=processes, job=f"job{processes}", started=started)
                write_run(tmp_path / f"{processes}-{started[12]}-{r}.prof", run)
    study = read_scaling([tmp_path]).study
    assert [(p.processes, p.nodes, p.runs) for p in study.places] == [(2, 1, 2), (4, 1, 2)]


def test_runs_that_failed_are_left_out_of_scaling_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran(tmp_path, 2, 1, 10.0, useful=8.0)
    ran(tmp_path, 4, 1, 6.0, useful=4.0)
    one_file = join_ranks([rank_run(r, {"f": Did()}, size=8, job="8", wall=1.0) for r in range(8)])
    (tmp_path / "8").mkdir()
    write_run(tmp_path / "8" / "job.prof", on(one_file, 0, exit_status=1))
    for r in range(2):
        run = rank_run(r, {"f": Did()}, size=2, job="early", wall=1.0)
        write_run(tmp_path / "8" / f"rank{r}.prof", on(run, 0, exit_status=3 * r))
    # Its launcher was killed: the wall is that of what is known.
    killed = replace(one_file, warnings=(Notice("capture-unfinished"),))
    write_run(tmp_path / "8" / "killed.prof", killed)
    result = read_scaling([tmp_path / "*" / "*.prof"])
    places = [(place.processes, place.runs, place.median_s) for place in result.study.places]
    assert places == [(2, 1, 10.0), (4, 1, 6.0)]
    text = " ".join(result.report().split())
    for name, status in (("job", 1), ("rank1", 3)):
        assert f"{name}.prof: left out, since it ended with exit status {status}" in text
    assert "killed.prof: left out, since how it ended is not known" in text
    said = refused(capsys, "scaling", tmp_path / "2x1-0", tmp_path / "8")
    assert "same numbers of processes (2) and nodes (1)" in said
    assert "left out, since it ended with" in said


def test_bad_input_of_scaling_gives_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(tmp_path, 2, 1, 10.0, useful=8.0)
    write_plain(tmp_path / "a.prof", {("a.py", "f"): 1.0})
    (tmp_path / "b.prof").write_bytes(b"")
    for words, expected in (
        (["2x1-0"], "same numbers of processes (2) and nodes (1)"),
        (["a.prof"], "same numbers of processes (1)"),
        (["b.prof"], "is empty"),
        ([], "name the run files"),
    ):
        assert expected in refused(capsys, "scaling", *(tmp_path / word for word in words))
