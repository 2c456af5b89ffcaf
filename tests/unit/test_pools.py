"""Where the size of a thread pool came from, and what a record's rows become."""

from __future__ import annotations

import pytest

from profkit.capture.pool_records import pool_origin, pools_of
from profkit.model import Host, Pool
from profkit.model.pools import holding_variable, whole_number

HOST = Host(name="node", cpus=8, affinity=4)


@pytest.mark.parametrize(
    ("text", "number"),
    [("4", 4), (" 4 ", 4), ("4,2", 4), ("", None), ("²", None), ("-1", None), ("all", None)],
)
def test_whole_number(text: str, number: int | None) -> None:
    assert whole_number(text) == number


def test_the_library_s_own_variable_holds_over_the_common_one() -> None:
    environment = {"OMP_NUM_THREADS": "8", "OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "0"}
    assert holding_variable("openblas", environment) == ("OPENBLAS_NUM_THREADS", 2)
    assert holding_variable("libgomp", environment) == ("OMP_NUM_THREADS", 8)
    assert holding_variable("torch", environment) == ("OMP_NUM_THREADS", 8), "zero is no number of threads"
    assert holding_variable("opencv", environment) is None


@pytest.mark.parametrize(
    ("library", "threads", "environment", "at_start", "expected"),
    [
        ("openblas", 4, {}, {}, ("default", "")),
        ("openblas", 1, {}, {}, ("program", "")),
        ("openblas", 2, {"OMP_NUM_THREADS": "2"}, None, ("variable", "OMP_NUM_THREADS=2")),
        # Capped: OpenBLAS takes no more threads than it has CPUs, OpenMP does.
        ("openblas", 4, {"OMP_NUM_THREADS": "16"}, None, ("variable", "OMP_NUM_THREADS=16")),
        ("libgomp", 4, {"OMP_NUM_THREADS": "16"}, None, ("program", "OMP_NUM_THREADS=16")),
        ("torch", 3, {"OMP_NUM_THREADS": "2"}, None, ("program", "OMP_NUM_THREADS=2")),
        # Set in the script after the library was loaded.
        ("openblas", 4, {"OMP_NUM_THREADS": "1"}, {}, ("default", "OMP_NUM_THREADS=1")),
        ("openblas", 1, {"OMP_NUM_THREADS": "1"}, {}, ("variable", "OMP_NUM_THREADS=1")),
        ("mkl", None, {"OMP_NUM_THREADS": "1"}, None, ("", "")),
    ],
)
def test_origin(
    library: str,
    threads: int | None,
    environment: dict[str, str],
    at_start: dict[str, str] | None,
    expected: tuple[str, str],
) -> None:
    start = environment if at_start is None else at_start
    assert pool_origin(library, threads, environment, start, HOST) == expected


def test_one_thread_a_core_is_a_default_only_where_there_are_as_many_cores() -> None:
    assert pool_origin("torch", 4, {}, {}, Host(cpus=8, affinity=8), cores=4) == ("default", "")
    assert pool_origin("torch", 4, {}, {}, Host(cpus=8, affinity=8), cores=8) == ("program", "")
    assert pool_origin("torch", 4, {}, {}, Host(cpus=8, affinity=8)) == ("", ""), "another host's cores"


def test_rows_of_a_record() -> None:
    record = {
        "environment": {"OMP_NUM_THREADS": "2"},
        "tasks": [
            [10, "python", 0, 0, 0],
            *([n, "tf_XLAEigen", 0, 0, 0] for n in range(4)),
            [9, "polars-0", 0, 0, 0],
        ],
        "pools": [
            ["mkl", "libmkl_rt.so.2", None, "", None, None],
            ["openblas", "libopenblas.so.0", 2, "0.3.30", 4, 4],
            ["tensorflow", "", 0, "2.20", None, 0],
        ],
    }
    assert pools_of(record, HOST) == (
        Pool("openblas", 2, "variable", "OMP_NUM_THREADS=2", "0.3.30", "libopenblas.so.0", peak=4),
        Pool("polars", 1, "program"),
        Pool("tensorflow", 4, "default", version="2.20"),
        Pool("xla", 4, "default"),
        Pool("mkl", None, file="libmkl_rt.so.2"),
    )
    assert pools_of({**record, "pools": None}, HOST) is None
