"""A run that is still going, read from mapped files, samples and ``/proc``; nothing is written."""

from __future__ import annotations

import glob
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from profkit.capture import records
from profkit.capture.agent import process_facts, settings
from profkit.capture.packer import captures_on, pack_spool
from profkit.capture.proc_files import descendants, words
from profkit.capture.process_tree import ProcessTree
from profkit.capture.record_types import Launcher, Sampled, SeenProcess
from profkit.capture.reservation import spool_prefix
from profkit.capture.source_cache import Sources, cache_file
from profkit.capture.spool import FACTS_NAME
from profkit.errors import FormatError
from profkit.model import Run

_MARK = settings.SPOOL_VARIABLE + "="


def spool_of(named: str | os.PathLike[str]) -> Path | None:
    """Return the spool of a running capture, by directory, run file or process number; else ``None``."""
    path = Path(named)
    if path.is_dir():
        return path if os.path.isfile(path / FACTS_NAME) else None
    if os.path.lexists(path):
        return None
    spools = path.parent.glob(glob.escape(spool_prefix(path)) + "*")
    found = sorted(spools, key=lambda spool: spool.stat().st_mtime_ns)
    if found:  # of a killed one, the reader of the missing file says what to do
        return found[-1] if captures_on(found[-1]) else None
    text = os.fspath(named)
    if not settings.is_number(text):
        return None
    for pid in descendants(int(text)):
        spool = _spool_in_environment(pid)
        if spool is not None:
            return spool
    return None


def read_running(spool: Path) -> Run:
    """Return a run as it is now; raise `FormatError` if there is none, or its capture has just ended."""
    try:
        return pack_spool(spool, sources=Sources(cache_file(os.environ)), now=_seen_now)
    except (FormatError, OSError) as error:
        if spool.is_dir():
            raise
        raise FormatError(
            spool, "is gone: the capture has ended", "show the run file that it wrote"
        ) from error


def _spool_in_environment(pid: int) -> Path | None:
    for word in words(pid, "environ"):
        if word.startswith(_MARK):
            spool = Path(word[len(_MARK) :])
            return spool if (spool / FACTS_NAME).is_file() else None
    return None


def _seen_now(spool: Path, launcher: Launcher | None, sampled: Sampled | None) -> Sampled | None:
    """Return what the sampler saw, updated with the kernel's counters."""
    if launcher is None or launcher.kernel != process_facts.boot_id():
        return sampled
    root = (
        sampled.root
        if sampled is not None
        else next((pid for pid in descendants(launcher.pid) if _spool_in_environment(pid) == spool), None)
    )
    if root is None:
        return sampled
    tree = ProcessTree(root, f"{settings.SPOOL_VARIABLE}={spool}")
    try:
        tree.read(final=True)
        record = {
            "host": launcher.host,
            "boot": launcher.boot,
            "root": root,
            "period_s": None,
            "samples": 1,
            "cpu_s": 0.0,
            "notes": [],
            "machine": None,
            "processes": tree.as_records(),
        }
    finally:
        tree.close()
    now = records.samples_of(record)
    if sampled is None:
        return now
    newest = {(process.pid, process.born): process for process in now.processes}
    known = [_newer(process, newest.pop((process.pid, process.born), None)) for process in sampled.processes]
    return replace(sampled, processes=(*known, *newest.values()))


def _newer(before: SeenProcess, now: SeenProcess | None) -> SeenProcess:
    if now is None:
        return before  # it has ended
    newest = {thread.tid: thread for thread in now.threads}
    threads = [
        thread
        if (newer := newest.pop(thread.tid, None)) is None
        else replace(newer, rows=np.concatenate([thread.rows, newer.rows]))
        for thread in before.threads
    ]
    return replace(
        before,
        cpu_s=max(before.cpu_s, now.cpu_s),
        last_ns=now.last_ns,
        peak_threads=max(before.peak_threads, now.peak_threads),
        alive=now.alive,
        threads=(*threads, *newest.values()),
    )
