"""Members of a run file's archive, read within limits."""

from __future__ import annotations

import zipfile
from typing import Any

import numpy as np

from profkit.formats import run_json
from profkit.formats.codec import MemberError
from profkit.formats.limits import Budget, json_weight

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
        return run_json.decode(member, text)
