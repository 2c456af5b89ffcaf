"""Members of a run file's archive, read within limits, and its JSON, which holds row ranges of columns."""

from __future__ import annotations

import json
import zipfile
from typing import Any

import numpy as np

from profkit.formats.codec import Codec, MemberError
from profkit.formats.limits import Budget, json_weight
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


_CHUNK = 1 << 20


class Members:
    """The members by name; `sizes` are claimed bytes."""

    def __init__(self, archive: zipfile.ZipFile, file_size: int) -> None:
        self._archive = archive
        self._file_size = file_size
        self._infos = {info.filename: info for info in archive.infolist()}
        self.sizes = {name: info.file_size for name, info in self._infos.items()}
        self.budget = Budget(file_size)

    def most(self, name: str, dtype: np.dtype[Any]) -> int:
        """Return the most numbers that a column can have; `name` is its member's name without suffix."""
        return self.sizes.get(f"{name}.npy", 0) // dtype.itemsize

    def read(self, member: str, most: int) -> bytes:
        """Return a member's bytes; memory grows with its actual data, not with the claimed size."""
        info = self._infos.get(member)
        if info is None:
            raise MemberError(f"{member} is missing")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
            raise MemberError(f"{member} is compressed in an unknown way")
        if info.file_size > most or info.compress_size > self._file_size:
            raise MemberError(f"{member} claims to be too large")
        chunks = []
        with self._archive.open(info) as stream:
            while chunk := stream.read(_CHUNK):
                chunks.append(chunk)
        data = b"".join(chunks)
        if len(data) != info.file_size:
            raise MemberError(f"{member} does not have the size it claims")
        return data

    def json(self, member: str) -> Any:
        """Return the document of a JSON member, weighed before it is built."""
        size = self.sizes.get(member, 0)
        self.budget.spend("bytes of JSON", size)
        text = self.read(member, size)
        self.budget.spend("values of JSON", json_weight(text))
        return decode(member, text)
