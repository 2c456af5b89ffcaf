"""Define what `profkit doctor` knows of a library: how it sizes itself, and the limits it honours."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable that sizes a library's pool.

    `cap`: ``default`` (at most as many threads as without it), ``machine`` (at most the CPUs of the machine,
    whatever the affinity), or empty.
    """

    name: str
    cap: str


@dataclass(frozen=True, slots=True)
class Honours:
    """Which limits a library honours.

    `version`: distribution and version that was measured, or read about.
    `python`: ``<3.13`` or ``>=3.13`` if it depends on the interpreter.
    `affinity`: it takes no more than its affinity (``taskset``, cpusets, bindings).
    `quota`: ``ceil`` or ``floor`` of a CPU quota, or empty if ignored.
    `views`: where it finds the quota, ``v1`` and ``v2`` in a container, ``nested`` in a group below the root
    that it sees.
    `variables`: the first one set decides.
    `source`: ``measured``, or the address of the documentation or source code.
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
    """A library, or a default of Python, that starts threads or processes; named as in `profkit.model.Pool`.

    `packages`: distributions that contain it, empty for Python itself.
    `starts`: ``threads`` or ``processes``, as many as `per` ``cpu`` or ``core`` plus `plus`, at most `most`;
    ``fixed`` has `plus` alone.
    `computes`: its threads compute rather than wait, and count as load.
    `automatic`: it starts them unless asked not to; others start them when called.
    `files`: parts of the names of its files, where a package may contain another library instead.
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
