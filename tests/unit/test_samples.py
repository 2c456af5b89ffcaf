"""The code changes of the sample profiles apply, and change the source of one function and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from sample_profiles.changes import CHANGES, Change

ROOT = Path(__file__).resolve().parents[2]


def source_of(workload: str) -> str:
    if workload == "train_mlp":
        return (ROOT / "profkit" / "demo" / "train.py").read_text(encoding="utf-8")
    return (ROOT / "sample_profiles" / "workloads" / f"{workload}.py").read_text(encoding="utf-8")


def functions(source: str) -> dict[str, str]:
    return {
        node.name: ast.dump(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("workload", sorted(CHANGES))
def test_a_change_touches_one_function(workload: str) -> None:
    change = CHANGES[workload]
    before, after = functions(source_of(workload)), functions(change.apply(source_of(workload)))
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == {change.function}


def test_a_change_that_does_not_fit_is_refused() -> None:
    change = Change("f", "", "x = 1\n", "x = 2\n")
    with pytest.raises(ValueError, match="occur 2 times"):
        change.apply("x = 1\nx = 1\n")
