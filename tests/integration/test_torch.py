"""Programs of PyTorch: annotated for GPUs under a build without CUDA (``--nvtx-shim``), and compiled ones."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

from profkit.model.ranges import MARK, PUSHED, STARTED
from tests.integration.capturing import (
    PROGRAMS,
    calls,
    captured,
    codes,
    environment,
    ranges_of,
    rows,
    run_capture,
    script,
)
from tests.interpreters import packages, python_with
from tests.requirements import require
from tests.shared import succeeded

PROGRAM = str(PROGRAMS / "torch_annotated.py")

EXPECTED = [
    *(row for i in range(3) for row in ((f"step {i}", PUSHED), ("forward", PUSHED), ("backward 1", PUSHED))),
    *(("decorated", PUSHED), ("inside", MARK), ("handed over", STARTED)),
]


@functools.cache
def torch_python() -> str:
    """Return an interpreter whose PyTorch was built without CUDA, or skip the calling test."""
    found = python_with("torch")
    code = "import torch, sys; sys.exit(hasattr(torch._C, '_nvtx'))"
    require("torch", subprocess.run([found, "-c", code]).returncode == 0, "this torch has NVTX of its own")
    return found


def test_ranges_are_recorded_beside_another_tool_and_the_program_runs(tmp_path: Path) -> None:
    env = environment(NVTX_INJECTION64_PATH="/opt/nsight/libToolsInjection64.so")
    done = run_capture(tmp_path, torch_python(), PROGRAM, options=("--nvtx-shim",), env=env, timeout=120)
    assert (done.stdout, done.returncode) == ("done -2\n", 0), done.stderr
    (process,) = done.run.processes
    ranges = ranges_of(process)
    assert [(name, kind) for name, _, kind in rows(process)] == EXPECTED
    assert ranges.ended.sum() == len(EXPECTED) - 1, "all but the mark"
    assert ranges.parent.tolist() == [-1, 0, 0, -1, 3, 3, -1, 6, 6, -1, -1, -1]
    assert ranges.unmatched == 1, "the last pop found nothing"
    assert {"torch-nvtx-shimmed", "torch-emit-nvtx"} <= {note.code for note in process.notes}
    assert "nvtx-other-tool" in codes(done.run)


def test_without_the_collector_nothing_is_run(tmp_path: Path) -> None:
    env = environment(PROFKIT_NO_NATIVE="1")
    done = run_capture(
        tmp_path, sys.executable, "-c", "print('run')", options=("--nvtx-shim",), env=env, status=2
    )
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "install a C compiler" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_it_nests_with_the_nvtx_package_and_forked_workers_have_their_own(tmp_path: Path) -> None:
    program = script(
        tmp_path,
        "import nvtx, os, torch\n"
        "torch.cuda.nvtx.range_push('outer')\n"
        "with nvtx.annotate('inner'): torch.cuda.nvtx.mark('here')\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    with torch.cuda.nvtx.range('child'): pass\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "torch.cuda.nvtx.range_pop()\n",
    )
    env = environment(PYTHONPATH=str(packages(torch_python(), "nvtx")))
    run = captured(tmp_path, torch_python(), program, options=("--nvtx-shim",), env=env, timeout=120)
    main, child = run.processes
    assert [name for name, _, _ in rows(main)] == ["outer", "inner", "here"]
    assert ranges_of(main).parent.tolist() == [-1, 0, -1]
    assert [(name, kind) for name, _, kind in rows(child)] == [("child", PUSHED)]
    assert ranges_of(main).ended.tolist() == [True, True, False]
    assert ranges_of(child).ended.all()


def test_without_the_option_nothing_is_changed(tmp_path: Path) -> None:
    done = run_capture(tmp_path, torch_python(), PROGRAM, timeout=120, status=1)
    assert "NVTX functions not installed" in done.stderr
    assert done.run.processes[0].ranges is None


def test_a_torch_that_has_nvtx_is_left_alone(tmp_path: Path) -> None:
    """Its package is imitated here: a build with CUDA does not fit on every machine."""
    for name, text in (
        ("__init__", "from torch import _C\n"),
        ("_C", "class _nvtx:\n    markA = staticmethod(lambda text: 'its own ' + text)\n"),
        ("cuda/__init__", "from torch.cuda import nvtx\n"),
        ("cuda/nvtx", "from torch._C import _nvtx\ndef mark(text):\n    return _nvtx.markA(text)\n"),
        ("autograd/__init__", ""),
        ("autograd/profiler", "class emit_nvtx:\n    def __enter__(self): return 'its own'\n"),
    ):
        path = tmp_path / "torch" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    program = (
        "import torch.cuda, torch.autograd.profiler as p\n"
        "print(torch.cuda.nvtx.mark('mark'), p.emit_nvtx().__enter__())\n"
    )
    env = environment(PYTHONPATH=str(tmp_path))
    done = run_capture(tmp_path, sys.executable, "-c", program, options=("--nvtx-shim",), env=env)
    assert done.stdout == "its own mark its own\n", done.stderr
    assert "--nvtx-shim" not in done.stderr


def test_the_same_is_compiled_and_all_threads_are_traced(tmp_path: Path) -> None:
    # Neither backend needs a compiler of C++.
    command = [python_with("torch"), str(PROGRAMS / "torch_compiled.py"), "eager", "aot_eager"]
    # What one run keeps would make the next one differ.
    env = environment(TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"))
    plain = succeeded(command, env=env, timeout=120)
    expected = [json.loads(line) for line in plain.stdout.splitlines()]
    assert all(found["counted"]["graph_break"] for found in expected), "the program breaks a graph"
    done = run_capture(tmp_path, *command, env=env, timeout=120)
    assert [json.loads(line) for line in done.stdout.splitlines()] == expected
    (process,) = (process for process in done.run.processes if process.role == "main")
    found = calls(process)
    assert (found["by_hand"], found["by_thread"], found["training_step"]) == (200, 200, 10)
    assert done.run.warnings == ()
