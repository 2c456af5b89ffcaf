"""Functions that a file of the program defines, and that no sample was in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from profkit.model.bounds import Count


@dataclass(frozen=True, slots=True)
class Definition:
    """A function of the program that is in no profile of a sampled run.

    Attributes
    ----------
    beside
        Row in the thread's profile of a function of the same file.
    name
        `name_digest` of its qualified name.
    source_hash
        As in `Profile`.
    """

    beside: Count
    name: str
    source_hash: str


def name_digest(qualname: str) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of a qualified name."""
    return hashlib.sha256(qualname.encode("utf-8", "surrogatepass")).hexdigest()[:16]
