"""Notices in a run file: objects, or sentences in older files.

Sentences on which results depend are recognised by their beginning; others become notices of code ``text``.
"""

from __future__ import annotations

import re

from profkit.model import Notice

#: How old files name a sentence's processes, in front of it.
_PROCESSES = r"(?:process (\d{1,9})|(\d{1,9}) processes \((\d{1,9}(?:, \d{1,9})*)(?:, …)?\))(: | )"
#: Beginnings of old sentences on which results depend, with the version of Python, and their codes.
_BEGINNINGS = {
    "written by the sampling profiler: ": "sampled-profile",
    r"(?:cProfile of|ran several threads under) Python (?P<python>\d+\.\d+)": "threads-in-one-stack",
}


def notice_of(value: object) -> Notice:
    """Return a notice from its object (`Notice.as_json`) or sentence; raise `ValueError` for anything else."""
    return _of_sentence(value) if isinstance(value, str) else Notice.from_json(value)


def _of_sentence(sentence: str) -> Notice:
    of = re.match(_PROCESSES, sentence)
    said = sentence[of.end() :] if of else sentence
    for beginning, code in _BEGINNINGS.items():
        if found := re.match(beginning, said):
            return _at(Notice(code, "", found.groupdict()), of)
    # A prefix with a colon can be removed; without one it is part of the sentence.
    return _at(Notice("text", said), of) if of and of[4] == ": " else Notice("text", sentence)


def _at(notice: Notice, of: re.Match[str] | None) -> Notice:
    """Return the notice with the processes named at the sentence's beginning."""
    if of is None:
        return notice
    return notice.at(pids=map(int, (of[1] or of[3]).split(", ")), pids_total=int(of[2] or 0))
