"""What `profkit doctor` knows of a library: how it sizes itself, and which limits it was measured to honour."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable that sizes a library's pool.

    Attributes
    ----------
    cap
        What the library takes at most, however much the variable asks for: ``default``, as many as without it;
        ``machine``, as many as the machine has, whatever the affinity; or empty.
    """

    name: str
    cap: str


@dataclass(frozen=True, slots=True)
class Honours:
    """Which limits a library honours.

    Attributes
    ----------
    library
        As in `Library`.
    version
        Distribution and version that was measured, or read about.
    python
        ``<3.13`` or ``>=3.13`` where it depends on the interpreter, otherwise empty.
    affinity
        Whether it takes no more than the CPUs of its affinity (``taskset``, cpusets, bindings).
    quota
        What it makes of a quota of CPU time: ``ceil`` or ``floor`` of it, or empty: it does not look at it.
    views
        Where it finds the quota: ``v1`` and ``v2`` in a container, ``nested`` in a group below the root that it sees.
    variables
        That size it, the one that holds first.
    source
        ``measured``, or the address of the documentation or source that says so.
    """

    library: str
    version: str
    affinity: bool
    quota: str
    views: tuple[str, ...]
    variables: tuple[Variable, ...]
    python: str = ""
    source: str = "measured"


@dataclass(frozen=True, slots=True)
class Library:
    """One library, or one default of Python, that starts threads or processes.

    Attributes
    ----------
    name
        As in `profkit.model.Pool`, where pools are recorded.
    packages
        Distributions of which one brings it; empty: part of Python.
    starts
        ``threads``, or ``processes``.
    per
        ``cpu`` or ``core``: what it takes one thread for; ``fixed``: nothing, its size is `plus`.
    plus, most
        Added to that number; at most so many.
    computes
        Whether its threads compute for one call. Threads that mostly wait are not counted as load.
    automatic
        Whether it starts them unless it is asked not to; the others start them when a program calls it so.
    files
        Parts of names of the files that bring it inside its packages, where a package may bring another.
    """

    name: str
    packages: tuple[str, ...]
    starts: str = "threads"
    per: str = "cpu"
    plus: int = 0
    most: int | None = None
    computes: bool = True
    automatic: bool = True
    files: tuple[str, ...] = ()
