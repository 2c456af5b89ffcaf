"""What the run file's JSON members hold: their records, row ranges, and JSON itself.

Used by `runfile` and the modules of its groups of columns. The records are written and read as their dataclasses say
(`codec`). Profiles, ranges and samples are columns; the objects carry their row ranges.
"""

from __future__ import annotations

import json
from typing import Any

from profkit.formats.codec import Codec, MemberError, as_list, as_object, whole
from profkit.formats.run_notices import read_notices
from profkit.model import Manifest, Notice, Process, Run, Thread

__all__ = ["MANIFEST", "PROCESS", "RUN", "THREAD", "decode", "encode", "row_range"]


def _notices(name: str, value: Any) -> tuple[Notice, ...]:
    try:
        return read_notices(name, value)
    except ValueError as error:
        raise MemberError(str(error)) from None


def _sampler(name: str, value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    known = as_object(name, value)
    return {**known, "notes": _notices(f"{name}.notes", known["notes"])} if "notes" in known else known


MANIFEST = Codec(Manifest, readers={"sampler": _sampler})
#: Beside the manifest in the same object.
RUN = Codec(Run, elsewhere=("path", "processes", "manifest", "series"), readers={"warnings": _notices})
PROCESS = Codec(Process, elsewhere=("threads", "ranges", "samples"), readers={"notes": _notices})
THREAD = Codec(Thread, elsewhere=("profile", "range_calls"))


def row_range(name: str, value: Any, rows: int) -> slice:
    """Check a ``[start, stop]`` pair against the number of rows there are."""
    pair = as_list(name, value)
    if len(pair) != 2 or not 0 <= whole(name, pair[0]) <= whole(name, pair[1]) <= rows:
        raise MemberError(f"{name} is not a range of its {rows} rows")
    return slice(pair[0], pair[1])


def encode(document: Any) -> bytes:
    """Write JSON: ASCII, so that paths with undecodable bytes survive; one line per top-level field."""
    return json.dumps(document, indent=1, allow_nan=False).encode("ascii")


def _no_constant(text: str) -> Any:
    raise MemberError(f"{text} is no JSON")


def decode(member: str, data: bytes) -> Any:
    """Read JSON.

    Raises
    ------
    MemberError
        It is not JSON, or nested too deeply.
    """
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise MemberError(f"{member} is not valid JSON ({str(error)[:80]})") from None
