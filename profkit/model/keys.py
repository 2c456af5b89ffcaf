"""Types that identify a function on any machine; ``identity.function_keys`` makes them from paths."""

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
        Qualified name if the profile has it, else the plain name; without object addresses.
    """

    root: str
    path: str
    qualname: str

    @property
    def outer(self) -> FunctionKey:
        """The function in which this one is defined; an empty `qualname` if that is none."""
        return self._replace(qualname=self.qualname.rpartition(".<locals>.")[0])


@dataclass(frozen=True, slots=True)
class Roots:
    """Code directories of one interpreter, by which an absolute path becomes ``(root, relative path)``.

    Attributes
    ----------
    stdlib, site, project
        Absolute directories. Where one is empty, the form of the path decides.
    """

    stdlib: tuple[str, ...] = ()
    site: tuple[str, ...] = ()
    project: tuple[str, ...] = ()
