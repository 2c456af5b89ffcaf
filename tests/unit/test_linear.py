"""Masking takes time in proportion to a text, whatever stands in it: a hostile file must not hold up its reader."""

from __future__ import annotations

import sys

import pytest

from tests.shared import finished, words_of

#: Pieces that expressions divide texts at, repeated between a beginning and an end that fit or do not.
PIECES = (
    *words_of("a 9 1. a. a- - / // a/ ( \" ' ., a= = : a: @ a@ a.b@"),
    *(
        "p=",
        "://",
        ":a",
        " ",
        "\n",
        "a ",
        "AKIA",
        "a://",
        "<",
        "1-",
        "1_",
        "[",
        "_",
        "a_",
        "{}",
        "1 ",
        "+",
        "n_",
        '"a',
    ),
)
#: Ends by itself after seconds of CPU time that linear time needs a part of, and quadratic time several times.
PROGRAM = """
import resource
from profkit.measure.range_stats import pattern_of
from profkit.report.pseudonyms import Pseudonyms
from profkit.report.safety import Masker

resource.setrlimit(resource.RLIMIT_CPU, (40, 40))
mask = Masker(pseudonyms=Pseudonyms(b"secret", ()))
for piece in {pieces!r}:
    for begin, end in (("", "!"), ("a", "x"), ("1", "!x"), ("/home/", "\\n")):
        {way}(begin + piece * (60_000 // len(piece)) + end)
print("done")
"""


@pytest.mark.parametrize(
    "way",
    words_of(
        "mask.name mask.message mask.version mask.outside mask.module mask.user_file "
        "mask.hidden mask._private.add_secret pattern_of"
    ),
)
def test_no_text_holds_up_the_mask(way: str) -> None:
    pytest.importorskip("resource")
    program = PROGRAM.format(pieces=PIECES, way=way)
    done = finished([sys.executable, "-c", program])
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
