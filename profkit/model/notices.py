"""Warnings as data: a code, a subject, and numbers. Only ``profkit.report.notices`` makes sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast

#: Types of a notice's numbers. Texts are for pairs, such as two versions.
Number: TypeAlias = "float | int | str | tuple[int, ...] | tuple[str, ...]"

#: Most process ids that a notice lists; ``pids_total`` counts the others too.
MOST_PIDS = 4
#: Most ranks that a notice lists.
MOST_RANKS = 8

#: Units and their types. In `CODES`, a ``?`` after the unit marks a number that may be absent.
UNITS: Mapping[str, type | tuple[type, ...]] = {
    "count": int,
    "bytes": int,
    "s": (int, float),
    "Hz": (int, float),
    "CPUs": (int, float),
    "share": (int, float),  # of a whole, 0 to 1
    "factor": (int, float),  # times as much
    "text": str,
    "ids": tuple,  # integers that name something: ranks, processes
}

#: What a notice applies to. Any notice may have these beside its own numbers.
WHERE: Mapping[str, str] = {
    "file": "text?",  # the run file
    "pids": "ids?",  # process ids, at most `MOST_PIDS`
    "pids_total": "count?",  # number of processes if `pids` does not list all
}


class Meaning(NamedTuple):
    """What the fields of a code's notices hold: the subject in words, the unit of each number by name."""

    subject: str = ""
    numbers: Mapping[str, str] = MappingProxyType({})


_UNRECORDED = {"lost_s": "s?", "cpu_s": "s?", "estimated": "count?", "kept": "count?"}

#: Every code. A code never changes its meaning; a new meaning gets a new code.
CODES: Mapping[str, Meaning] = {
    "text": Meaning("a sentence of a run file that was written when warnings were sentences"),
    # About single processes, from their agents.
    "agent-failed": Meaning("the exception"),
    "not-cpython": Meaning("the interpreter's name"),
    "free-threaded": Meaning("", {"python": "text"}),
    "calls-not-counted": Meaning("", {"python": "text"}),
    "snapshots-not-written": Meaning("the system's error"),
    "no-snapshots": Meaning(),
    "no-samples": Meaning(),
    "tracer-missing": Meaning("", {"python": "text"}),
    # `functions`: how many there are, in all threads.
    "tables-full": Meaning("", {"functions": "count?"}),
    "profile-function-replaced": Meaning(),
    "waiting-sampled": Meaning("", {"rate": "Hz"}),
    "waiting-sampling-failed": Meaning("the exception"),
    "nvtx-patched": Meaning(),
    "nvtx-not-patchable": Meaning(),
    "torch-nvtx-shimmed": Meaning(),
    "torch-emit-nvtx": Meaning(),
    # Seconds since the process started; without `end_s`, until it ended.
    "own-cprofile": Meaning("", {"times": "count", "begin_s": "s", "end_s": "s?"}),
    # About processes whose newest record is not their last, from the packer. `lost_s`: time from that record
    # to the end, the longest of all processes. `cpu_s`: their CPU time in that period. `estimated`: processes
    # whose open calls have estimated times. Each is absent if not known.
    "killed-by-signal": Meaning("the signal's name", _UNRECORDED),
    "exited-unrecorded": Meaning("", {"status": "count", **_UNRECORDED}),
    "last-record-failed": Meaning("the system's error", _UNRECORDED),
    "replaced-unrecorded": Meaning("", _UNRECORDED),
    "worker-unrecorded": Meaning("", _UNRECORDED),
    "ended-unrecorded": Meaning("", _UNRECORDED),
    "end-unknown": Meaning("", _UNRECORDED),
    "process-running": Meaning("", _UNRECORDED),
    "functions-throttled": Meaning("", {"functions": "count"}),
    "process-unrecorded": Meaning("the system's error; empty where it is not known"),
    "subinterpreters": Meaning(),
    "threads-in-one-stack": Meaning("", {"python": "text"}),
    # About a whole capture.
    "capture-running": Meaning("", {"so_far_s": "s?"}),
    "capture-unfinished": Meaning(),
    "no-record": Meaning(),
    # Which part of the run was captured. `whole_s`: the whole command.
    "windows-captured": Meaning("", {"windows": "count", "captured_s": "s", "whole_s": "s"}),
    "window-not-reached": Meaning("", {"delay_s": "s", "whole_s": "s"}),
    # `domain`: empty for the default domain, absent for any.
    "window-range-missing": Meaning("the range", {"domain": "text?"}),
    # `steps`: number before the first window.
    "window-steps-missing": Meaning(
        "the range of a step; empty where the program counts them", {"steps": "count", "domain": "text?"}
    ),
    "window-not-started": Meaning(),
    "windows-not-followed": Meaning(),
    "ranks-selected": Meaning("the ranks, as they were given"),
    "ranks-absent": Meaning("the ranks, as they were given"),
    "counters-only": Meaning(),
    # About runs of ``profkit attach``, and why they lack functions.
    "attached": Meaning("", {"seconds": "s"}),
    "attach-not-python": Meaning(),
    "attach-not-traced": Meaning("why functions cannot be traced", {"python": "text?"}),
    "attach-not-reached": Meaning(),
    "attach-sampled": Meaning("", {"rate": "Hz", "share": "share?"}),
    "attach-samples-lost": Meaning("", {"share": "share"}),
    "attach-no-sampler": Meaning(),
    "attach-not-sampled": Meaning("what the sampler said"),
    # Shown before attaching.
    "attach-begins": Meaning("", {"seconds": "s"}),
    "attach-samples": Meaning("", {"rate": "Hz"}),
    "attach-counters-only": Meaning(),
    "record-unreadable": Meaning("the record's file", {"problem": "text"}),
    "rank-missing": Meaning("", {"ranks": "ids", "missing": "count", "size": "count"}),
    "ranks-of-steps": Meaning("", {"steps": "count"}),
    # NVTX.
    "nvtx-missing": Meaning(),
    "nvtx-other-tool": Meaning("what NVTX_INJECTION64_PATH is set to"),
    "nvtx-disabled": Meaning("what NVTX_DISABLE is set to"),
    "nvtx-file-unreadable": Meaning("the collector's file", {"problem": "text"}),
    "nvtx-file-cut": Meaning("", {"read": "bytes"}),
    "nvtx-events-lost": Meaning("", {"events": "count"}),
    "nvtx-events-damaged": Meaning("", {"events": "count"}),
    "nvtx-names-folded": Meaning("", {"events": "count"}),
    "nvtx-names-unreadable": Meaning("the system's error; empty where the file holds something else"),
    "nvtx-names-damaged": Meaning("the file", {"blocks": "count"}),
    # The sampler, which runs outside the target.
    "samples-unreadable": Meaning("the exception"),
    "samples-not-saved": Meaning("the system's error"),
    "sampler-no-proc": Meaning(),
    "sampler-not-started": Meaning("the exception"),
    "sampler-stopped": Meaning("the exception"),
    "sampler-no-schedstat": Meaning(),
    "sampler-no-pressure": Meaning(),
    "samples-thinned": Meaning("", {"times": "count"}),
    "processes-not-listed": Meaning("", {"processes": "count", "cpu_s": "s"}),
    "threads-not-followed": Meaning("", {"threads": "count"}),
    "cpu-unseen": Meaning("", {"cpu_s": "s"}),
    "gpu-package-missing": Meaning(),
    "gpu-not-sampled": Meaning("the driver's error"),
    "gpu-sampling-stopped": Meaning("the driver's error"),
    # Files read together.
    "file-skipped": Meaning("the file", {"problem": "text", "hint": "text?"}),
    "ranks-on-hosts": Meaning("", {"hosts": "count"}),
    "rank-file-missing": Meaning("", {"ranks": "ids", "missing": "count", "size": "count"}),
    # Profiles of other tools.
    "sampled-profile": Meaning(),
    # `assumed`: samples per second if the file does not state it.
    "foreign-samples": Meaning("the tool or its format", {"assumed": "Hz?"}),
    "foreign-trace": Meaning("the tool"),
    "pure-python-profile": Meaning(),
    "trailing-bytes": Meaning("", {"bytes": "count"}),
    # Comparability of two sides. A side is ``baseline`` or ``candidate``.
    "same-capture": Meaning(),
    "one-side-sampled": Meaning("the sampled side"),
    "both-sides-sampled": Meaning(),
    "one-side-mixes-threads": Meaning("the side with all threads in one stack"),
    "cumulative-times-only": Meaning("the side"),
    "one-process-compared": Meaning("the side that holds more than one", {"processes": "count"}),
    "python-differs": Meaning("", {"baseline": "text", "candidate": "text"}),
    "cpu-model-differs": Meaning("", {"baseline": "text", "candidate": "text"}),
    "host-differs": Meaning("", {"baseline": "text", "candidate": "text"}),
    "cpus-differ": Meaning("", {"baseline": "CPUs", "candidate": "CPUs"}),
    "command-differs": Meaning("", {"baseline": "text", "candidate": "text"}),
    "process-count-differs": Meaning("", {"baseline": "count", "candidate": "count"}),
    # Ratio of the candidate's calls to the baseline's, weighted by time.
    "calls-differ": Meaning("", {"calls": "factor"}),
    "functions-folded": Meaning("", {"functions": "count"}),
    "native-functions-folded": Meaning("", {"functions": "count"}),
    "functions-of-one-side": Meaning("the side", {"self_time": "share"}),
    "single-run": Meaning("the side with one run; empty where both have one"),
}

_CODE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+){0,15}")
#: Bound of integers: 64 bits hold them.
_MOST = 1 << 64


@dataclass(frozen=True, slots=True)
class Notice:
    """One fact that limits what a result means.

    Attributes
    ----------
    code
        Stable identifier in kebab case, a key of `CODES`; files of later versions may have others.
    subject
        A file, an error's text, a side, …; empty if the code says all.
    numbers
        By name, with the units of `CODES`; those of `WHERE` name the file or processes. Read-only.
    """

    code: str
    subject: str = ""
    numbers: Mapping[str, Number] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", MappingProxyType(dict(self.numbers)))

    def __hash__(self) -> int:
        return hash((self.code, self.subject, frozenset(self.numbers.items())))

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be copied or pickled.
        return Notice, (self.code, self.subject, dict(self.numbers))

    @property
    def is_complete(self) -> bool:
        """Whether the code is known, and each required number is present and of its unit's type."""
        meaning = CODES.get(self.code)
        return meaning is not None and all(
            self._has(name, unit) for name, unit in (*meaning.numbers.items(), *WHERE.items())
        )

    def _has(self, name: str, unit: str) -> bool:
        if name not in self.numbers:
            return unit.endswith("?")
        value = self.numbers[name]
        if isinstance(value, tuple) and not all(isinstance(item, int) for item in value):
            return False
        return isinstance(value, UNITS[unit.rstrip("?")])

    def at(self, *, file: str = "", pids: Iterable[int | None] = (), pids_total: int = 0) -> Notice:
        """Return the notice with the file and processes that it applies to.

        `pids_total` is the number of processes if `pids` does not list all.
        """
        where: dict[str, Number] = {"file": file} if file else {}
        known = [pid for pid in pids if pid is not None]
        if known:
            where["pids"] = tuple(known[:MOST_PIDS])
        total = max(pids_total, len(known))
        if total > min(len(known), MOST_PIDS):
            where["pids_total"] = total
        return Notice(self.code, self.subject, {**self.numbers, **where})

    def anywhere(self) -> Notice:
        """Return the notice without file and processes."""
        own = {name: value for name, value in self.numbers.items() if name not in WHERE}
        return Notice(self.code, self.subject, own)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object of a notice: ``code``, ``subject``, ``numbers``."""
        return {
            "code": self.code,
            "subject": self.subject,
            "numbers": {k: list(v) if isinstance(v, tuple) else v for k, v in self.numbers.items()},
        }

    @classmethod
    def from_json(cls, value: object) -> Notice:
        """Check and convert what `as_json` returned; ``subject`` and ``numbers`` may be absent.

        Raises
        ------
        ValueError
            It is something else; the message names the field.
        """
        if not isinstance(value, Mapping):
            raise ValueError("is not an object")
        code, subject, numbers = value.get("code"), value.get("subject", ""), value.get("numbers", {})
        if not isinstance(code, str) or not _CODE.fullmatch(code):
            raise ValueError("has no code")
        if not isinstance(subject, str):
            raise ValueError("has a subject that is not a string")
        if not isinstance(numbers, Mapping):
            raise ValueError("has numbers that are not an object")
        return cls(code, subject, {str(name): _number(name, number) for name, number in numbers.items()})


def _number(name: object, value: object) -> Number:
    if isinstance(value, str) or _is_number(value):
        return cast(Number, value)
    if isinstance(value, list | tuple):
        whole = all(type(item) is int and _is_number(item) for item in value)
        if whole or all(isinstance(item, str) for item in value):
            return tuple(value)
    raise ValueError(f"has no usable number in {str(name)[:40]!r}")


def _is_number(value: object) -> bool:
    """Return whether `value` is a finite number that a file may hold."""
    if type(value) is int:
        return abs(value) < _MOST
    return type(value) is float and math.isfinite(value)


def grouped(said: Iterable[tuple[int | None, Notice]]) -> list[Notice]:
    """Join equal notices of several processes, in order of first occurrence.

    `said` are process ids with a notice about each. A process that replaced its program occurs several times,
    and is listed once.
    """
    pids: dict[Notice, list[int | None]] = {}
    for pid, notice in said:
        pids.setdefault(notice, []).append(pid)
    return [notice.at(pids=dict.fromkeys(which)) for notice, which in pids.items()]


def missing_ranks(code: str, present: Iterable[int | None], size: int) -> Notice | None:
    """Return a notice of missing ranks, the first `MOST_RANKS` by number; ``None`` if none is missing.

    `size` is the number of ranks according to the launcher, unchecked.
    """
    size = min(size, _MOST - 1)
    known = {rank for rank in present if rank is not None and 0 <= rank < size}
    missing = size - len(known)
    if missing <= 0:
        return None
    first = tuple(islice((rank for rank in range(size) if rank not in known), MOST_RANKS))
    return Notice(code, "", {"ranks": first, "missing": missing, "size": size})
