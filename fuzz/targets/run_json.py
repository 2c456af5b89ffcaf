"""The JSON members of a run file: whatever their records take is written and read again as the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fuzz.mutate import Mutation
from fuzz.oracles import check_text
from fuzz.target import Target, Wrong
from profkit.formats import run_json
from profkit.formats.codec import Codec, MemberError
from profkit.model import Manifest, Notice, Process, Profile, Run, Thread
from profkit.report.notices import notice_text
from profkit.report.text import clean

#: Codecs, and what makes the record of the fields that they read.
_RECORDS: tuple[tuple[Codec[Any], Callable[..., Any]], ...] = (
    (run_json.MANIFEST, Manifest),
    (run_json.RUN, partial(Run, "x", ())),
    (run_json.PROCESS, Process),
    (run_json.THREAD, partial(Thread, Profile.empty())),
)


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    try:
        document = run_json.decode("input.json", data)
    except MemberError:
        return
    for value in document if isinstance(document, list) else [document]:
        for codec, record in _RECORDS:
            _check_record(codec, record, value)


def _check_record(codec: Codec[Any], record: Callable[..., Any], value: Any) -> None:
    try:
        fields = codec.read_fields("input", value)
    except MemberError:
        return
    for found in fields.values():
        for notice in found if isinstance(found, tuple) else ():
            if isinstance(notice, Notice):
                check_text(clean(notice_text(notice)))
    if type(value) is not dict:
        raise Wrong("a record is read from what is no object")
    written = run_json.encode(codec.write(record(**fields)))
    again = codec.read_fields("input", run_json.decode("again.json", written))
    if any(again[name] != item for name, item in fields.items()):
        raise Wrong("a record is read as another one after it was written")


def mutate(data: bytes, mutation: Mutation) -> bytes:
    """Change values, keys and nesting of the document."""
    return mutation.json_bytes(data)


TARGET = Target(
    check,
    mutate,
    8192,
    (b'{"":', b"1e999", b"-0", b"NaN", b"[[", b"\\ud800", b"9223372036854775808"),
    quick=5000,
)
