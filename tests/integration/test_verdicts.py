"""Verdicts on real programs that were judged wrong once; test_seen_wrong.py has the others, by construction."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from profkit.formats.load import load_side
from profkit.verdict.diagnosis import diagnose as diff
from profkit.verdict.types import Diff
from tests.accounts import assert_adds_up
from tests.integration.capturing import captured

#: A loop of images: a step loads one, blurs it by sharpening it a few times, and measures it.
IMAGES = """
import sys
def sharpen(image):
    return [(a + 3 * b) % 251 for a, b in zip(image, image[1:] + image[:1])]
def blur(image):
    for _ in range({turns}):
        image = sharpen(image)
    return image
def load(step):
    return [(i * step) % 251 for i in range(2000)]
def measure(image):
    return sum(a * a for a in image)
def main(steps):
    total = 0
    for step in range(steps):
        total += measure(blur(load(step)))
    return total
print(main(int(sys.argv[1])))
"""


def compared(
    directory: Path, before: tuple[str, ...], after: tuple[str, ...], *, options: tuple[str, ...] = ()
) -> Diff:
    """Capture two programs, source and words, in directories of their own as checkouts are, and compare them."""
    sides = []
    for name, (source, *words) in {"before": before, "after": after}.items():
        (directory / name).mkdir()
        (directory / name / "program.py").write_text(source)
        captured(directory / name, sys.executable, "program.py", *words, options=options)
        sides.append(load_side(directory / name / "run.prof"))
    return diff(*sides)


def largest(found: Diff) -> str:
    """The bucket that holds most of the time that the program added: with --exact, capture may add more."""
    of_program = [bucket for bucket in found.account.buckets if bucket.name != "capture"]
    return max(of_program, key=lambda bucket: bucket.seconds).name


@pytest.mark.alone
def test_a_loop_added_in_blur_is_a_change_of_blur(tmp_path: Path) -> None:
    found = compared(tmp_path, (IMAGES.format(turns=2), "150"), (IMAGES.format(turns=8), "150"))
    assert (found.verdict.cause, found.verdict.rule) == ("code-change", "changed-source")
    assert found.verdict.subject == "blur"
    (origin,) = (piece for piece in found.verdict.evidence if piece.signal == "origin")
    assert (origin.subject, origin.baseline, origin.candidate) == ("sharpen", 2.0, 8.0)
    assert origin.numbers == {"caller": "blur", "calls": 150}
    assert_adds_up(found.account)
    assert largest(found) == "code"


#: An option chooses what blurs: `smooth` or `sharpen`.
CHOSEN = (
    IMAGES.format(turns=8)
    .replace("image = sharpen(image)", "image = (sharpen if int(sys.argv[2]) else smooth)(image)")
    .replace("def sharpen", "def smooth(image):\n    return image[1:] + image[:1]\n\ndef sharpen")
)


@pytest.mark.alone
def test_a_function_that_an_option_chose_is_different_work(tmp_path: Path) -> None:
    """Its definition stands on both sides, so that nothing was changed."""
    found = compared(tmp_path, (CHOSEN, "100", "0"), (CHOSEN, "100", "1"))
    assert (found.verdict.cause, found.verdict.rule) == ("workload-change", "other-function")
    assert found.verdict.subject == "sharpen"
    assert_adds_up(found.account)


@pytest.mark.alone
def test_samples_do_not_show_that_a_function_was_never_called(tmp_path: Path) -> None:
    found = compared(tmp_path, (CHOSEN, "300", "0"), (CHOSEN, "300", "1"), options=("--sampled",))
    # Most often it is `calls-unknown`; on a busy machine it may be contention.
    assert found.verdict.rule != "other-function"
    assert found.verdict.cause != "code-change"
