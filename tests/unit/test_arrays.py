"""`profkit.model.arrays` against NumPy, and that a comparison imports no masked arrays."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from profkit.model.arrays import median
from tests.shared import finished


@pytest.mark.parametrize("shape", [(1, 4), (2, 3), (5, 7), (30, 11), (65, 3), (64, 2)])
def test_middles_of_tables_are_those_of_numpy(shape: tuple[int, int]) -> None:
    values = np.random.default_rng(1).lognormal(size=shape)
    for axis in (0, 1):
        assert np.array_equal(median(values, axis), np.median(values, axis=axis))
        kept = median(values, axis, keepdims=True)
        assert np.array_equal(kept, np.median(values, axis=axis, keepdims=True))
    values[0, 0] = np.nan
    assert np.array_equal(median(values, 0), np.median(values, axis=0), equal_nan=True)


def test_a_comparison_imports_no_masked_arrays() -> None:
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, '.')\n"
        "from benchmarks import big_profiles\n"
        "import tempfile, profkit\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    names = [Path(folder, name) for name in ('a.prof', 'b.prof')]\n"
        "    for seed, name in enumerate(names, 1): big_profiles.write(name, 300, seed)\n"
        "    print(profkit.diff(*names).verdict.cause, 'numpy.ma' in sys.modules)\n"
    )
    assert finished([sys.executable, "-c", code], check=True).stdout.split()[-1] == "False"
