"""Thread pools of real libraries in captured programs: sizes as the libraries have them, and nothing disturbed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from profkit.model import Pool, Process
from tests.integration.capturing import captured, environment, script
from tests.interpreters import interpreter, packages, python_with

CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def pools(process: Process) -> dict[str, Pool]:
    """Return the pools of a process by library; of several copies of one library the last."""
    return {pool.library: pool for pool in process.pools}


def test_openblas_by_default_by_variable_and_by_the_program(tmp_path: Path) -> None:
    python = python_with("numpy")
    name = script(tmp_path, "import numpy\na = numpy.ones((50, 50))\nprint((a @ a).sum())\n")
    found = pools(captured(tmp_path, python, name).processes[0])
    if "openblas" not in found:
        pytest.skip(f"this NumPy is built on another BLAS: {sorted(found)}")
    assert (found["openblas"].threads, found["openblas"].origin) == (CPUS, "default")
    assert found["openblas"].version

    limited = environment(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="7")
    found = pools(captured(tmp_path, python, name, env=limited).processes[0])
    assert (found["openblas"].threads, found["openblas"].origin) == (1, "variable")
    assert found["openblas"].variable == "OPENBLAS_NUM_THREADS=1"

    # More than there are CPUs: what the library has counts, not what was asked for.
    many = environment(OMP_NUM_THREADS=str(CPUS + 6))
    found = pools(captured(tmp_path, python, name, env=many).processes[0])
    assert found["openblas"].threads == CPUS
    assert found["openblas"].variable == f"OMP_NUM_THREADS={CPUS + 6}"

    late = script(tmp_path, "import numpy, os\nos.environ['OMP_NUM_THREADS'] = '97'\n")
    found = pools(captured(tmp_path, python, late).processes[0])
    assert found["openblas"].threads == CPUS


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_that_a_pool_kills_have_their_pools(tmp_path: Path, method: str) -> None:
    python = python_with("numpy")
    name = script(
        tmp_path,
        "import multiprocessing, sys, time, numpy\n"
        "def work(n):\n"
        "    end = time.time() + 1.0\n"
        "    a = numpy.random.rand(100, 100)\n"
        "    while time.time() < end:\n"
        "        a @ a\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.set_start_method(sys.argv[1])\n"
        "    with multiprocessing.Pool(2) as pool:\n"
        "        pool.map(work, range(2), 1)\n",
    )
    env = environment(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    run = captured(tmp_path, python, name, method, env=env)
    # A worker that was killed before it had imported NumPy has none.
    found = [pool for p in run.processes if p.role == "worker" for pool in p.pools or ()]
    assert found, "workers leave no record of an end; their snapshots have told"
    assert {(pool.threads, pool.origin) for pool in found} == {(1, "variable")}


def test_torch_and_its_loader_s_workers(tmp_path: Path) -> None:
    python = python_with("torch")
    name = script(
        tmp_path,
        "import torch\n"
        "from torch.utils.data import DataLoader\n"
        "def main():\n"
        "    torch.set_num_threads(3)\n"
        "    for batch in DataLoader(torch.rand(64, 50), batch_size=8, num_workers=2):\n"
        "        (batch @ batch.T).sum()\n"
        "    print(torch.get_num_threads(), torch.get_num_interop_threads())\n"
        "    torch.set_num_interop_threads(5)\n"
        "if __name__ == '__main__':\n"
        "    main()\n",
    )
    run = captured(tmp_path, python, name, env=environment(OMP_NUM_THREADS="2"))
    found = pools(run.processes[0])
    assert (found["torch"].threads, found["torch"].origin) == (3, "program")
    assert found["torch-interop"].threads == 5, "reading has fixed no size"
    workers = [p for p in run.processes if p.role == "worker"]
    assert [pools(p)["torch"].threads for p in workers] == [1, 1], "loaders run on one thread each"


@pytest.mark.parametrize(
    ("library", "module", "work", "variables", "threads"),
    [
        ("opencv", "cv2", "import cv2; cv2.setNumThreads(5)", {}, 5),
        ("opencv", "cv2", "import cv2", {"OPENCV_FOR_THREADS_NUM": "3"}, 3),
        ("numexpr", "numexpr", "import numexpr", {"NUMEXPR_NUM_THREADS": "3", "NUMEXPR_MAX_THREADS": "8"}, 3),
        ("libgomp", "sklearn", "import sklearn.cluster", {"OMP_NUM_THREADS": "6"}, 6),
        ("polars", "polars", "import polars; polars.DataFrame({'a': [1]}).lazy().sum().collect()",
         {"POLARS_MAX_THREADS": "3"}, 3),
        ("numba", "numba", ("import numba\n@numba.njit(parallel=True)\ndef f():\n    s = 0\n"
         "    for i in numba.prange(9):\n        s += i\n    return s\nf()\nnumba.set_num_threads(2)"),
         {"NUMBA_NUM_THREADS": "4"}, 2),
    ],
)  # fmt: skip
def test_libraries(
    tmp_path: Path, library: str, module: str, work: str, variables: dict[str, str], threads: int
) -> None:
    python = python_with(module)
    run = captured(tmp_path, python, script(tmp_path, work + "\n"), env=environment(**variables))
    assert pools(run.processes[0])[library].threads == threads


def test_a_library_that_is_only_there_is_not_started(tmp_path: Path) -> None:
    python = python_with("numba")
    count = "import os; print(len(os.listdir('/proc/self/task')))"
    name = script(tmp_path, f"import numba, time\ntime.sleep(0.5)\n{count}\n")
    assert "numba" not in pools(captured(tmp_path, python, name).processes[0])


@pytest.mark.parametrize("version", ["3.8", "3.12"])
def test_other_pythons(tmp_path: Path, version: str) -> None:
    """The agent of the oldest Python and of a newer one, with a NumPy of their time."""
    python = interpreter(version)
    # Not by PYTHONPATH, where profkit's own interpreter would find it too.
    path = str(packages(python, "numpy"))
    program = f"import sys; sys.path.insert(0, {path!r})\nimport numpy; numpy.ones((9, 9)) @ numpy.ones(9)\n"
    run = captured(tmp_path, python, script(tmp_path, program), env=environment(OPENBLAS_NUM_THREADS="1"))
    assert run.processes[0].python.startswith(version + ".")
    assert [pool.threads for pool in pools(run.processes[0]).values() if pool.library == "openblas"] == [1]


@pytest.mark.parametrize("version", ["3.8", "3.15"])
def test_a_program_without_pools_ends_without_an_import(tmp_path: Path, version: str) -> None:
    """Children that live for milliseconds pay for each module that their end imports."""
    text = (
        "import sys\n"
        "file = open('imported', 'w', 1)\n"
        "sys.addaudithook(lambda event, found: event == 'import' and print(found[0], file=file))\n"
    )
    process = captured(tmp_path, interpreter(version), script(tmp_path, text)).processes[0]
    assert process.pools == ()
    assert (tmp_path / "imported").read_text().split() == []
