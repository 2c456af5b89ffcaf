"""Runs with different numbers of processes and nodes: grouping, efficiencies, slow-downs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profkit.api.many_runs import read_scaling
from profkit.formats.runfile import write_run
from tests.rank_files import Did, rank_run, write_job, write_plain
from tests.shared import check_schema, refused


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


def test_json_follows_its_schema(tmp_path: Path) -> None:
    jobs = [ran(tmp_path, 2, 1, 10.0, useful=8.0), ran(tmp_path, 4, 2, 12.0, useful=4.0)]
    value = json.loads(read_scaling(jobs).report("json"))
    check_schema(value, "scaling-1.json")
    assert value["slowdowns"] == [{"fewer": 0, "more": 1, "factor": pytest.approx(1.2)}]


def test_bad_input_gives_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
