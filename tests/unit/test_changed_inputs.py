"""Inputs of the fuzzers, changed at random but alike in every run: read, refused, masked or set as they should be.

What has a right checksum, a known header or a harmless look is not trusted. ``fuzz`` goes on for longer.
"""

from __future__ import annotations

import random

import pytest

from fuzz.mutate import Mutation
from fuzz.target import finding_of, load
from fuzz.work import inputs_of


@pytest.mark.parametrize(
    ("name", "changes"),
    [("masking", 300), ("nvtx_log", 300), ("records", 600), ("tables", 2000), ("texts", 600)],
)
def test_no_change_of_an_input_is_a_finding(name: str, changes: int) -> None:
    target, chance = load(name), random.Random(7)
    mutation = Mutation(chance, lambda data, most: data[:most])
    inputs = [path.read_bytes() for path in inputs_of(name)]
    for _ in range(changes):
        data = target.mutate(chance.choice(inputs), mutation)
        finding = finding_of(target, data, thorough=False)
        assert finding is None, f"{data!r}: {finding.text}"
