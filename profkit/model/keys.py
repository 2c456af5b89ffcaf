"""What a function is, wherever it runs: the types only; how a path becomes a key is in ``identity.function_keys``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

STDLIB = "stdlib"
SITE = "site"
PROJECT = "project"
BUILTIN = "builtin"
GENERATED = "generated"

#: Every root that a `FunctionKey` can have.
ROOTS = (STDLIB, SITE, PROJECT, BUILTIN, GENERATED)


class FunctionKey(NamedTuple):
    """Identity of a function across machines, environments, Python versions and checkouts.

    Attributes
    ----------
    root
        One of `ROOTS`.
    path
        Path relative to that root, with ``/`` between its parts; empty for built-in functions.
    qualname
        Qualified name where the profile has it, else the plain name; object addresses are removed.
    """

    root: str
    path: str
    qualname: str


@dataclass(frozen=True, slots=True)
class Roots:
    """Where one interpreter finds its code: what turns an absolute path into ``(root, relative path)``.

    Attributes
    ----------
    stdlib, site, project
        Directories, absolute; any may be empty, and then the path's own form decides.
    """

    stdlib: tuple[str, ...] = ()
    site: tuple[str, ...] = ()
    project: tuple[str, ...] = ()
