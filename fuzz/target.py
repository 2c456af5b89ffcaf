"""What a target is, and the oracle that every input of every target has to pass.

A target checks one input: it calls profkit, lets the errors of profkit pass (`ProfkitError`, or what the target
names) and raises `Wrong` where a property does not hold. Whatever else comes out of it is a finding: an exception, a
warning, more memory than 500 MB and 40 times the input, more than 10 s of CPU time.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import os
import re
import resource
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fuzz.mutate import Mutation

__all__ = ["CRASHES", "SEEDS", "TARGETS", "Finding", "Target", "Wrong", "finding_of", "load"]

FOLDER = Path(__file__).resolve().parent
#: Inputs that are committed: small real files, and every input that was a finding once.
SEEDS, CRASHES = FOLDER / "seeds", FOLDER / "crashes"

#: Bytes of address space that an input may take beyond what the process has: so many, and for each of its own.
MOST_MEMORY, MOST_MEMORY_PER_BYTE = 500 << 20, 40
#: Seconds of CPU time that an input may take.
MOST_SECONDS = 10.0

#: Every target written in Python, each a module of its name in ``fuzz.targets``.
TARGETS = (
    "pstats",
    "foreign",
    "run_json",
    "run_file",
    "nvtx_log",
    "texts",
    "masking",
    "reports",
    "sources",
    "records",
    "tables",
    "baselines",
    "paths",
    "spool",
    "commands",
)


class Wrong(AssertionError):  # noqa: N818 - it is said in sentences: wrong, and why
    """A property that must hold for every input does not."""


@dataclass(frozen=True, slots=True)
class Target:
    """One target.

    Attributes
    ----------
    check
        Takes an input, and whether to try everything: a replay does, a fuzzing run may pick one way by the input.
    mutate
        Changes an input where its structure allows; ``None`` for inputs whose bytes may be changed anywhere.
    most_bytes
        Longest input that is made.
    words
        Dictionary of the engine: byte strings that mean something in the input.
    quick
        Inputs of a bounded run, as continuous integration has it: a few seconds.
    """

    check: Callable[[bytes, bool], None]
    mutate: Callable[[bytes, Mutation], bytes] | None = None
    most_bytes: int = 4096
    words: tuple[bytes, ...] = ()
    quick: int = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with an input.

    Attributes
    ----------
    signature
        The same for inputs that show the same defect: kind of error and where it was raised.
    text
        For people: the traceback.
    """

    signature: str
    text: str


def load(name: str) -> Target:
    """Return a target by its name."""
    target: Target = importlib.import_module(f"fuzz.targets.{name}").TARGET
    return target


def finding_of(target: Target, data: bytes, *, thorough: bool = True) -> Finding | None:
    """Check one input; ``None`` where nothing is wrong.

    Parameters
    ----------
    target, data
        What is checked.
    thorough
        As `Target.check` takes it.
    """
    began = time.process_time()
    try:
        with _memory_limit(len(data)), warnings.catch_warnings():
            warnings.simplefilter("error")
            target.check(data, thorough)
    except Exception as error:
        return Finding(_signature(error), "".join(traceback.format_exception(error)))
    finally:
        if not gc.isenabled():  # the commands switch it off, as they expect to end
            gc.enable()
    took = time.process_time() - began
    if took > MOST_SECONDS:
        return Finding(f"slow-{hashlib.sha256(data).hexdigest()[:8]}", f"took {took:.1f} s of CPU time\n")
    return None


@contextmanager
def _memory_limit(size: int) -> Iterator[None]:
    """Let allocations fail beyond what an input may take."""
    pages = int(Path("/proc/self/statm").read_bytes().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = pages * os.sysconf("SC_PAGE_SIZE") + MOST_MEMORY + MOST_MEMORY_PER_BYTE * size
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _signature(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/profkit/" in frame.filename] or list(frames)
    frame = ours[-1]
    place = re.sub(r".*/(?:profkit|fuzz)/", "", frame.filename).removesuffix(".py").replace("/", ".")
    if isinstance(error, Wrong):
        place = re.sub(r"[^a-z]+", "-", str(error).partition(":")[0].lower())[:60].strip("-")
        return f"wrong-{place}"
    return f"{type(error).__name__.strip('_')}-{place}-{frame.name.strip('<>')}-{frame.lineno}"
