"""Masking takes time in proportion to a text, whatever stands in it: a hostile file must not hold up its reader."""

from __future__ import annotations

import sys

import pytest

from tests.shared import finished, words_of

#: Pieces that expressions divide texts at, repeated between a beginning and an end that fit or do not.
PIECES = (
    *words_of(
        'a 9 1. a. a- - / // a/ ( " \' ., a= = : a: @ a@ a.b@ p= :// :a AKIA a:// < 1- 1_ [ _ a_ {} + n_ "a'
    ),
    *(" ", "\n", "a ", "1 "),
)
#: Beginnings of secrets, and what looks for their ends in vain: a rule that begins again at each would never end.
SECRETS = words_of(
    "eyJ|eyJa.|xoxb-1-|sk-|sk-a_|://|://a:|a@|a.|a@a.|-----BEGIN A|AccountKey=|aws key |password=|?sig=|Bearer |"
    "basic |1234567890:|glpat-|A|a|0| |=|AC|api_key: |ibm-cloud-iam-api-key|hooks.slack.com/services/|"
    "PuTTY-User-Key-File-2|-us1|\n|/",
    "|",
)
#: Ends by itself where a text takes seconds of CPU time: linear time needs hundredths, and quadratic time more.
PROGRAM = """
import signal
from profkit.measure.range_stats import pattern_of
from profkit.report.pseudonyms import Pseudonyms
from profkit.report.safety import Masker
from profkit.report.secrets import masked_by_rules

by_rules = lambda text: masked_by_rules(text, lambda _: "***")
mask = Masker(pseudonyms=Pseudonyms(b"secret", ()))
for piece in {pieces!r}:
    for begin, end in (("", "!"), ("a", "x"), ("1", "!x"), ("/home/", "\\n")):
        signal.setitimer(signal.ITIMER_PROF, 2)
        {way}(begin + piece * (20_000 // len(piece)) + end)
print("done")
"""


@pytest.mark.parametrize(
    "way",
    words_of(
        "mask.name mask.message mask.version mask.outside mask.module mask.user_file "
        "mask.hidden mask._private.add_secret pattern_of by_rules"
    ),
)
def test_no_text_holds_up_the_mask(way: str) -> None:
    pieces = SECRETS if way == "by_rules" else PIECES
    done = finished([sys.executable, "-c", PROGRAM.format(pieces=pieces, way=way)])
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
