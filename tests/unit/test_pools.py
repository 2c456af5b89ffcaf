"""Which libraries have pools and when they may be asked, where a size came from, what a record's rows become."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import pytest

from profkit.capture.agent.pool_libraries import MKL, GNUOpenMP, Package
from profkit.capture.agent.thread_pools import Pools, library_of
from profkit.capture.native import nvtx_library
from profkit.capture.pool_records import pool_origin, pools_of
from profkit.model import Host, Pool
from profkit.model.pools import holding_variable
from tests.records import record
from tests.shared import words_of

HOST = Host(name="node", cpus=8, affinity=4)


def test_the_library_s_own_variable_holds_over_the_common_one() -> None:
    environment = {"OMP_NUM_THREADS": "8", "OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "0"}
    assert holding_variable("openblas", environment) == ("OPENBLAS_NUM_THREADS", 2)
    assert holding_variable("libgomp", environment) == ("OMP_NUM_THREADS", 8)
    assert holding_variable("torch", environment) == ("OMP_NUM_THREADS", 8), "zero is no number of threads"
    assert holding_variable("opencv", environment) is None


@pytest.mark.parametrize(
    ("library", "threads", "now", "at_start", "origin"),
    [
        ("openblas", 4, "", "", "default"),
        ("openblas", 1, "", "", "program"),
        ("openblas", 2, "2", "2", "variable"),
        # Capped: OpenBLAS takes no more threads than it has CPUs, OpenMP does.
        ("openblas", 4, "16", "16", "variable"),
        ("libgomp", 4, "16", "16", "program"),
        ("torch", 3, "2", "2", "program"),
        # Set in the script after the library was loaded.
        ("openblas", 4, "1", "", "default"),
        ("openblas", 1, "1", "", "variable"),
        ("mkl", None, "1", "1", ""),
    ],
)
def test_origin(library: str, threads: int | None, now: str, at_start: str, origin: str) -> None:
    """Of a library that has so many threads, with values of ``OMP_NUM_THREADS`` now and at the start."""
    environments = ({"OMP_NUM_THREADS": value} if value else {} for value in (now, at_start))
    detail = f"OMP_NUM_THREADS={now}" if now and origin else ""
    assert pool_origin(library, threads, *environments, HOST) == (origin, detail)


def test_one_thread_a_core_is_a_default_only_where_there_are_as_many_cores() -> None:
    assert pool_origin("torch", 4, {}, {}, Host(cpus=8, affinity=8), cores=4) == ("default", "")
    assert pool_origin("torch", 4, {}, {}, Host(cpus=8, affinity=8), cores=8) == ("program", "")
    assert pool_origin("torch", 4, {}, {}, Host(cpus=8, affinity=8)) == ("", ""), "another host's cores"


def test_rows_of_a_record() -> None:
    facts = {
        "environment": {"OMP_NUM_THREADS": "2"},
        "tasks": [
            [10, "python", 0, 0, 0],
            *([n, "tf_XLAEigen", 0, 0, 0] for n in range(1, 5)),
            [9, "polars-0", 0, 0, 0],
        ],
        "pools": [
            ["mkl", "libmkl_rt.so.2", None, "", None, None],
            ["openblas", "libopenblas.so.0", 2, "0.3.30", 4, 4],
            ["tensorflow", "", 0, "2.20", None, 0],
        ],
    }
    assert pools_of(record(**facts), HOST) == (
        Pool("openblas", 2, "variable", "OMP_NUM_THREADS=2", "0.3.30", "libopenblas.so.0", peak=4),
        Pool("polars", 1, "program"),
        Pool("tensorflow", 4, "default", version="2.20"),
        Pool("xla", 4, "default"),
        Pool("mkl", None, file="libmkl_rt.so.2"),
    )
    assert pools_of(record(**{**facts, "pools": None}), HOST) is None


def test_libraries_are_known_by_their_files() -> None:
    files = {
        "openblas": "libopenblas.so.0 libscipy_openblas64_-56d6093b.so libblas.so.3",
        "libgomp": "libgomp-a34b3233.so.1.0.0",
        "libomp": "libomp.so.5",
        "libiomp5": "libiomp5.so",
        "mkl": "libmkl_rt.so.2 libmkl_intel_lp64.so.2",
        "blis": "libblis.so.4",
        "tbb": "libtbb.so.12",
        None: "libomptarget.so.18 libiompstubs5.so libmkl_intel_thread.so.2 libtbbmalloc.so.2 libm.so.6",
    }
    expected = {file: library for library, names in files.items() for file in words_of(names)}
    assert {file: getattr(library_of(f"/usr/lib/{file}"), "name", None) for file in expected} == expected


def test_mkl_is_asked_only_once_its_threading_layer_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    mkl = MKL("/lib/libmkl_rt.so.2", lambda: 4)
    sequential = ["/lib/libmkl_rt.so.2", "/lib/libmkl_sequential.so.2"]
    intel = ["/lib/libmkl_rt.so.2", "/lib/libmkl_intel_thread.so.2"]
    assert mkl.rows(True, sequential)[0][2] == 4
    assert mkl.rows(False, sequential)[0][2] is None, "a snapshot"
    assert mkl.rows(True, sequential[:1])[0][2] is None, "it has not been used: asking would load its layer"
    assert mkl.rows(True, intel)[0][2] is None, "asking would start Intel's OpenMP"
    monkeypatch.setenv(f"__KMP_REGISTERED_LIB_{os.getpid()}", "x")
    assert mkl.rows(True, intel)[0][2] == 4


def test_torch_computes_with_the_openmp_that_it_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    system, own = "/usr/lib/libgomp.so.1", "/site-packages/torch/lib/libgomp-98df74fd.so.1"
    torch = ModuleType("torch")
    torch.__version__ = "2.9.0+cpu"
    runtimes = [GNUOpenMP(system, lambda: 4), GNUOpenMP(own, lambda: 3)]

    def rows(files: list[str]) -> list[tuple[str, int]]:
        found = [row for runtime in runtimes if runtime.path in files for row in runtime.rows(True, files)]
        return [(row[0], row[2]) for row in found]

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert rows([system]) == [("libgomp", 4)]
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert rows([system]) == [("libgomp", 4), ("torch", 4)]
    assert rows([system, own]) == [("libgomp", 4), ("torch", 3)]


def test_a_new_library_is_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Package, "registered", list(Package.registered))

    class Weaver(Package):
        name = "weaver"
        module = "weaver"

        @classmethod
        def size(cls, module: ModuleType) -> int | None:
            return module.threads

    weaver = ModuleType("weaver")
    weaver.threads, weaver.__version__ = None, "1.2"

    def read() -> list[list[object]]:
        return [row for row in Pools().read(final=False) or () if row[0] == "weaver"]

    assert read() == [], "not imported"
    monkeypatch.setitem(sys.modules, "weaver", weaver)
    assert read() == [], "it has no pool yet"
    weaver.threads = 3
    assert read() == [["weaver", "", 3, "1.2", None, 3]]
    del weaver.threads
    assert read() == [], "a version that does not answer"


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs /proc")
def test_pools_are_looked_for_only_beside_foreign_code() -> None:
    """With the standard library's extension modules and profkit's own libraries loaded, and with NumPy's."""
    library = nvtx_library()
    own = f"import ctypes, hashlib, zlib; ctypes.CDLL({str(library)!r}); " if library else ""
    said = "; print(process_facts.may_have_pools())"
    for code, found in ((own, "False"), ("import numpy; ", "True")):
        command = [sys.executable, "-c", f"{code}from profkit.capture.agent import process_facts{said}"]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == found
