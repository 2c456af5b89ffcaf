"""Strings and numbers of reports: made safe, made to fit, given their units."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profkit.report import units
from profkit.report.text import clean, pad, shorten_middle, shorten_start, wrap, wrap_some
from tests.shared import words_of


def test_what_is_readable_is_kept_and_of_what_is_shortened_both_ends_or_the_end_of_a_path() -> None:
    assert clean("Füße_函数.<locals>.<lambda>") == "Füße_函数.<locals>.<lambda>"
    assert clean("a\tb\x1b[1m\udc80\u202e") == "a\\tb\\x1b[1m\\udc80\\u202e"
    assert shorten_middle("abcdefghij", 7) == "abc…hij"
    assert shorten_middle("abcdefghij", 10) == "abcdefghij"
    assert shorten_start("model/blocks.py:88", 12) == "…locks.py:88"
    assert shorten_middle("函数函数函数", 7) == "函数…数"
    for shorten in (shorten_middle, shorten_start):
        assert [shorten(text, width) for text in ("ab", "函") for width in (0, 1)] == ["", "…"] * 2


def test_a_number_keeps_its_unit_and_long_texts_are_cut_in_their_middle() -> None:
    assert wrap("it waited 57 % of it", 13) == ["it waited", "57 % of it"]
    assert wrap("– took 3.5 µs of it", 12) == ["– took", "3.5 µs of it"]
    assert wrap("step 12 shows a", 8) == ["step 12", "shows a"]
    assert wrap_some("a b c d e f", 1, 4) == ["a", "b", "…", "f"]
    assert wrap_some("a b", 1, 4) == ["a", "b"]
    assert (pad("函", 4), pad("7", 3, right=True)) == ("函  ", "  7")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 s"),
        (0.9996e-3, "1.00 ms"),
        (0.9999, "1.00 s"),
        (123_456.0, "123,456 s"),
        (1e300, "1e+300 s"),
        (-0.25, "-250 ms"),
        (None, "–"),
        (math.nan, "–"),
    ],
)
def test_seconds(value: float | None, text: str) -> None:
    assert units.seconds(value) == text


@given(st.floats(1e-9, 1e6))
def test_seconds_keep_three_digits(value: float) -> None:
    number, unit = units.seconds(value).split()
    read = float(number.replace(",", "")) * {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]
    assert read == pytest.approx(value, rel=0.006)
    assert len(number.replace(",", "").replace(".", "")) >= 3


def test_changes_shares_counts_and_factors() -> None:
    assert units.change(1.0, 3.5) == "+2.50 s"
    assert units.change(3.5, 1.0) == "-2.50 s"
    assert units.change(1.0, 1.0) == "0 s"
    assert units.change(None, 1.0) == "–"
    shares = [units.share(v) for v in (0.0, 0.0004, 0.123, 1.0, None)]
    assert shares == ["0 %", "<0.1 %", "12.3 %", "100 %", "–"]
    confidences = [units.confidence(v) for v in (0.5, 0.984, 0.99, 0.996, 1.0)]
    assert confidences == ["50 %", "98 %", "99 %", "99 %", "99 %"]
    counts = [units.count(v) for v in (0, 1234567, 25_000_000, 3e10, 2e18)]
    assert counts == ["0", "1,234,567", "25.0 M", "30.0 G", "2e+18"]
    factors = [units.factor(v) for v in (0.0, 0.001, 0.5, 3.0, 25.04, 290.6, 51_815.4, 1e200)]
    assert factors == words_of("0× <0.01× 0.50× 3.00× 25.0× 291× 51,815× 1e+200×")
