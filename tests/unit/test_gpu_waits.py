"""Time in calls that wait for a GPU: its bucket, and the verdicts on samples of a training on one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import profkit
from profkit.formats.runfile import read_run
from profkit.model import RunSet
from profkit.verdict.diagnosis import diagnose

GPU = Path(__file__).resolve().parents[2] / "sample_profiles" / "gpu_lm"


@pytest.mark.parametrize(
    ("condition", "cause", "kind", "subject"),
    [
        ("external-load", "contention", "shared-gpu", ""),
        ("code-change", "code-change", None, "attend"),
        ("doubled-work", "workload-change", None, "torch._C.TensorBase.item"),
    ],
)
def test_why_the_gpu_takes_longer(condition: str, cause: str, kind: str | None, subject: str) -> None:
    found = profkit.diff(GPU / "clean-1.prof", GPU / f"{condition}.prof")
    assert (found.verdict.cause, found.verdict.kind, found.verdict.subject) == (cause, kind, subject)
    bucket = found.account.bucket("gpu")
    assert bucket.seconds > 0.9 * found.account.added_s > 0
    assert bucket.parts[0].name == "torch._C.TensorBase.item"
    assert sum(one.seconds for one in found.account.buckets) == pytest.approx(found.account.added_s)
    turned = profkit.diff(GPU / f"{condition}.prof", GPU / "clean-1.prof")
    assert turned.verdict.cause == "faster"


def side(name: str, without: str, *, on_gpu: bool = True) -> RunSet:
    """A run without some readings of its machine, and with none of its processes on a GPU if it is not."""
    run = read_run(GPU / f"{name}.prof")
    columns = {of: column for of, column in run.series.columns.items() if not of.startswith(without)}
    if not on_gpu:
        columns["gpu_processes"] = np.zeros(len(run.series.time_ns))
    return RunSet(name, (replace(run, series=replace(run.series, columns=columns)),))


def test_who_used_the_gpu_may_be_unknown() -> None:
    """In a container NVML's process numbers mean nothing: then nobody is accused."""
    verdict = diagnose(*(side(name, "gpu_others") for name in ("clean-1", "external-load"))).verdict
    assert (verdict.cause, verdict.rule) == ("inconclusive", "gpu-waits")


@pytest.mark.parametrize(("without", "on_gpu"), [("gpu_", True), ("gpu_others", False)])
def test_without_a_gpu_nothing_waits_for_one(without: str, on_gpu: bool) -> None:
    """The same functions compute there, also beside another program that uses the machine's GPU."""
    found = diagnose(*(side(name, without, on_gpu=on_gpu) for name in ("clean-1", "doubled-work")))
    assert "gpu" not in {bucket.name for bucket in found.account.buckets}
    assert found.account.seconds("speed") > 0.9 * found.account.added_s
