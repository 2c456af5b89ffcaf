"""JSON members of the run file; for what is stored as columns, they hold row ranges."""

from __future__ import annotations

import json
from typing import Any

from profkit.formats.codec import Codec, MemberError
from profkit.model import Manifest, Process, Run, Thread

MANIFEST = Codec(Manifest)


def read_manifest(document: dict[str, Any]) -> Manifest:
    """Read a manifest; older files have a single yardstick, as fields of the host."""
    host = document.get("host")
    if isinstance(host, dict) and isinstance(host.get("probe"), str) and host["probe"]:
        document = {**document, "yardsticks": [{"name": host["probe"], "before_s": host.get("probe_s")}]}
    return MANIFEST.read("manifest", document)


#: Fields of the run that are stored in the manifest's object.
RUN = Codec(Run, elsewhere=("path", "processes", "manifest", "series"))
PROCESS = Codec(Process, elsewhere=("threads", "ranges", "samples"))
THREAD = Codec(Thread, elsewhere=("profile", "range_calls", "paths"))


def encode(document: Any, *, in_one_line: bool = False) -> bytes:
    """Write JSON: ASCII, so that paths with undecodable bytes survive."""
    layout: dict[str, Any] = {"separators": (",", ":")} if in_one_line else {"indent": 1}
    return json.dumps(document, allow_nan=False, **layout).encode("ascii")


def _no_constant(text: str) -> Any:
    raise MemberError(f"{text} is not JSON")


def decode(member: str, data: bytes) -> Any:
    """Read JSON; raise `MemberError` if it is invalid or nested too deeply."""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise MemberError(f"{member} is not valid JSON ({str(error)[:80]})") from None
