"""``torch.compile`` beside the tracer: both want to see every frame before it is run."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.capturing import PROGRAMS, calls, environment, run_capture
from tests.interpreters import python_with
from tests.shared import finished


def test_the_same_is_compiled_and_all_threads_are_traced(tmp_path: Path) -> None:
    # Neither backend needs a compiler of C++.
    command = [python_with("torch"), str(PROGRAMS / "torch_compiled.py"), "eager", "aot_eager"]
    # What one run keeps would make the next one differ.
    env = environment(TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"))
    plain = finished(command, env=env, check=True, timeout=120)
    expected = [json.loads(line) for line in plain.stdout.splitlines()]
    assert all(found["counted"]["graph_break"] for found in expected), "the program breaks a graph"
    done = run_capture(tmp_path, *command, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == expected
    (process,) = (process for process in done.run.processes if process.role == "main")
    found = calls(process)
    assert (found["by_hand"], found["by_thread"], found["training_step"]) == (200, 200, 10)
    assert done.run.warnings == ()
