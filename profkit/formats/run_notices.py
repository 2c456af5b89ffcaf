"""Notices in a run file: objects, or sentences in files older than notice objects.

A sentence becomes a notice of the code ``text``. Only sentences on which results depend are recognised, by
their beginning: that a profile was sampled, and that it mixes threads. No other module reads sentences of
ours.
"""

from __future__ import annotations

import re

from profkit.model import Notice

#: How old files name the processes that a sentence is about, in front of it.
_PROCESSES = r"(?:process (\d{1,9})|(\d{1,9}) processes \((\d{1,9}(?:, \d{1,9})*)(?:, …)?\))(: | )"
#: How sentences of old files begin that results depend on, and the code of what they say; the version of
#: Python that a notice needs stands right behind.
_PREFIXES = {
    "written by the sampling profiler: ": "sampled-profile",
    "cProfile of Python ": "threads-in-one-stack",
    "ran several threads under Python ": "threads-in-one-stack",
}
_VERSION = re.compile(r"\d+\.\d+")


def read_notices(name: str, value: object) -> tuple[Notice, ...]:
    """Return notices from objects (`Notice.as_json`) or sentences; `name` is the field's name in messages.
    Raise `ValueError` for anything else."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} is not a list")
    found = []
    for number, item in enumerate(value):
        try:
            found.append(_of_sentence(item) if isinstance(item, str) else Notice.from_json(item))
        except ValueError as error:
            raise ValueError(f"{name} {number} {error}") from None
    return tuple(found)


def _of_sentence(sentence: str) -> Notice:
    of = re.match(_PROCESSES, sentence)
    said = sentence[of.end() :] if of else sentence
    for prefix, code in _PREFIXES.items():
        if said.startswith(prefix):
            version = _VERSION.match(said, len(prefix))
            notice = Notice(code, "", {"python": version.group()} if version else {})
            if notice.is_complete:
                return _at(notice, of)
    # A colon ends what was only put in front; without one, the sentence needs it.
    return _at(Notice("text", said), of) if of and of[4] == ": " else Notice("text", sentence)


def _at(notice: Notice, of: re.Match[str] | None) -> Notice:
    """Return the notice with the processes that the sentence began with."""
    if of is None:
        return notice
    return notice.at(pids=map(int, (of[1] or of[3]).split(", ")), pids_total=int(of[2] or 0))
