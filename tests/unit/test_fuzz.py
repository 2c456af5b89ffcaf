"""The fuzzers' committed inputs, replayed: every seed, and everything that was a finding once; and the oracles."""

from __future__ import annotations

import random
import warnings

import pytest

from fuzz import oracles
from fuzz.mutate import Mutation
from fuzz.target import CRASHES, TARGETS, Target, Wrong, finding_of, load
from fuzz.work import inputs_of

#: The others take seconds for each input: tests/integration/test_fuzz.py.
FAST = [name for name in TARGETS if name not in ("commands", "spool")]
JSON_SCRIPT = '<script type="application/json">'


@pytest.mark.parametrize("name", FAST)
def test_seeds(name: str) -> None:
    inputs = inputs_of(name)
    assert inputs
    target = load(name)
    for path in inputs:
        # What was a finding once is tried in all ways.
        finding = finding_of(target, path.read_bytes(), thorough=CRASHES in path.parents)
        assert finding is None, f"{path}: {finding.text}"


def fails(data: bytes, thorough: bool) -> None:
    if data == b"raises":
        raise KeyError("x")
    if data == b"warns":
        warnings.warn("overflow", RuntimeWarning, stacklevel=1)
    if data == b"hoards":
        bytearray((600 << 20) + 20 * len(data))
    if data == b"is wrong":
        raise Wrong("a thing is wrong: 5")


@pytest.mark.parametrize(
    ("data", "signature"),
    [
        (b"raises", "KeyError-"),
        (b"warns", "RuntimeWarning-"),
        (b"hoards", "MemoryError-"),
        (b"is wrong", "wrong-a-thing-is-wrong"),
    ],
)
def test_the_oracle_sees(data: bytes, signature: str) -> None:
    assert finding_of(Target(fails), data).signature.startswith(signature)


@pytest.mark.parametrize(
    ("check", "wrong", "right"),
    [
        (oracles.check_text, "a\x1b[2Jb", "a\nb"),
        (oracles.check_text, "a\u202eb", "é中"),
        (oracles.check_json, '{"a": NaN}', '{"a": null}'),
        (oracles.check_json, '{"a": 1', "[]"),
        (oracles.check_markdown, "```sh\nls\n", "```sh\nls\n```\n"),
        (oracles.check_markdown, "<img src=x>", "<code>&#60;img&#62;</code>"),
        (oracles.check_markdown, "<details><summary>a</summary>", "<details><summary>a</summary></details>"),
        (oracles.check_markdown, "see https://e.example", "see <code>https://e.example</code>"),
        (oracles.check_markdown, "x" * 70_000, "x" * 60_000),
        (oracles.check_html, "<p><img src=x></p>", "<p>&lt;img src=x&gt;</p>"),
        (oracles.check_html, "<script>alert(1)</script>", "<p>alert(1)</p>"),
        (oracles.check_html, "<p onclick=a>", "<p>onclick=a"),
        (oracles.check_html, f"{JSON_SCRIPT}[inf]</script>", f"{JSON_SCRIPT}[1]</script>"),
        (oracles.check_svg, "<svg><a/></svg>", "<svg><g/></svg>"),
        (oracles.check_svg, "<svg>\x00</svg>", "<svg>x</svg>"),
    ],
)
def test_an_output_that_is_wrong_is_seen(check: object, wrong: str, right: str) -> None:
    check(right)  # type: ignore[operator]
    with pytest.raises(Wrong):
        check(wrong)  # type: ignore[operator]


# Inputs of the fuzzers, changed at random but alike in every run: read, refused, masked or set as they should be


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *(("foreign", 600), ("masking", 300), ("nvtx_log", 300), ("pstats", 3000), ("records", 4000)),
        *(("run_file", 400), ("tables", 2000), ("texts", 600)),
    ],
)
def test_no_change_of_an_input_is_a_finding(name: str, changes: int) -> None:
    target, chance, damage = load(name), random.Random(7), random.Random(8)

    def bytes_of(data: bytes, most: int) -> bytes:
        """Leave the bytes as they are, or change some of them."""
        changed = bytearray(data[:most])
        for _ in range(damage.choice((0, 0, 1, 2, 8)) if changed else 0):
            changed[damage.randrange(len(changed))] = damage.randrange(256)
        return bytes(changed)

    mutation = Mutation(chance, bytes_of)
    inputs = [path.read_bytes() for path in inputs_of(name)]
    for _ in range(changes):
        data = target.mutate(chance.choice(inputs), mutation)
        if damage.random() < 0.1:
            data = data[: damage.randrange(len(data) + 1)]
        finding = finding_of(target, data, thorough=False)
        assert finding is None, f"{data!r}: {finding.text}"
