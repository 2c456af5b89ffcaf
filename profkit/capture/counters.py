"""The kernel's counters of each process and thread, from agents and sampler, each counted once.

Agents are exact, but lack threads that ended before their last record, and processes without an agent.
Counters only rise, so the greater of two readings is the later one.

Linux 6.18 was seen to count 5 s in which a thread slept as waiting in the run queue, when it woke. Such time is taken
out where looks saw the thread asleep (`_awake_in_queue`).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from profkit.capture import records as record_files
from profkit.capture import sampler
from profkit.capture.agent import settings
from profkit.capture.proc_files import is_alive
from profkit.capture.record_types import Launch, ProcessKey, Record, Sampled, SeenProcess, SeenThread, Task
from profkit.model import Host, Machine, Notice, Process, Profile, Sampler, Thread, ThreadSamples
from profkit.model.arrays import Ints, known, known_sum
from profkit.model.pauses import STOPPED, WAITS

#: Threads listed per process; the rest, those that ran least, are summed up in one row.
MOST_LISTED = 1_000
#: CPU time of unseen processes that is worth a notice: share of the tree's, and seconds.
UNSEEN_SHARE, UNSEEN_S = 0.05, 0.1
#: Most threads of the tracer in a process at a time; after a fork they have other numbers.
_AGENT_THREADS = 2
#: Waiting beyond the time that passed since a reading, from which it was not all waiting: readings are somewhat late.
_JUMP_NS = 100_000_000
#: Pauses in which a thread sleeps.
_ASLEEP = frozenset(WAITS) - {STOPPED}
#: A time later than any reading, ns.
_FOREVER = 2**63 - 1
#: Most characters of a thread's name in the kernel (proc(5), ``comm``).
COMM = 15


def read_sampled(spool: Path) -> tuple[Sampled | None, list[Notice]]:
    """Return what the sampler wrote to a spool directory, and notices of what is wrong with it."""
    try:
        return record_files.read_samples(spool / sampler.SAMPLES_NAME), []
    except FileNotFoundError:
        return None, []
    except (OSError, ValueError) as error:
        return None, [Notice("samples-unreadable", str(error))]


def summary(sampled: Sampled | None, unseen: Notice | None) -> Sampler | None:
    """Return ``Manifest.sampler``, with the notice `unseen` added if there is one."""
    if sampled is None:
        return None
    return Sampler(
        period_s=sampled.period_s,
        samples=sampled.samples,
        cpu_s=sampled.cpu_s,
        notes=sampled.notes if unseen is None else (*sampled.notes, unseen),
    )


def attach(
    sampled: Sampled | None,
    launch: Launch,
    records: Sequence[Record],
    processes: Sequence[Process],
    machine_host: Host,
) -> list[Process]:
    """Add the sampler's counters to `processes`, those of `records` first, and append what only it saw."""
    found = list(processes)
    images: dict[ProcessKey, list[int]] = {}
    for index, record in enumerate(records):
        images.setdefault(record.process, []).append(index)
    collected = {p.pid: i for i, p in enumerate(processes) if i >= len(records)}
    has_main = any(process.role in ("main", "rank") for process in processes)
    if sampled is not None:
        for seen in sampled.processes:
            own = images.get((sampled.kernel, seen.ns_pid, seen.born))
            if own is not None:
                if seen.ns_pid == seen.pid:  # else, in a PID namespace, thread numbers in its records differ
                    found += _with_seen(found, own, records, seen, sampled, launch)
                continue
            role = "main" if seen.pid == sampled.root and not has_main else "child"
            process = _unprofiled(seen, sampled, launch, role, machine_host)
            if seen.pid in collected:
                at = collected[seen.pid]
                found[at] = replace(process, role=found[at].role, ranges=found[at].ranges)
            else:
                found.append(process)
    for own in images.values():
        # The kernel counts on through an exec: subtract what earlier images had.
        read = [found[index] for index in own]
        for index, process, before in zip(own[1:], read[1:], read[:-1], strict=True):
            found[index] = _less(process, before)
    return found


def _with_seen(
    found: list[Process],
    own: Sequence[int],
    records: Sequence[Record],
    seen: SeenProcess,
    sampled: Sampled,
    launch: Launch,
) -> list[Process]:
    """Add what was seen of a process to its images; return the image that followed them, if any."""
    last = own[-1]
    record = records[last]
    hidden = {tid for index in own for tid in records[index].agent_tids}
    hidden |= {thread.tid for thread in seen.threads if thread.name == settings.TRACER_THREAD}
    replaced_ns = int(record.perf * 1e9)
    later = record.state == "replaced" and seen.last_ns > replaced_ns
    later = later and seen.command != record.argv
    samples = _samples(seen, hidden)
    begins = [0, *(int(records[index].begin_perf * 1e9) for index in own[1:])]
    ends = [*begins[1:], replaced_ns if later else _FOREVER]
    for index, begin, end in zip(own, begins, ends, strict=True):
        image = replace(
            found[index],
            samples=_of_image(samples, begin, end, seen.pid),
            peak_threads=max(1, seen.peak_threads - min(len(hidden), _AGENT_THREADS)),
        )
        # The kernel's counters of a process are those of its last image and all before.
        final = index != last or records[index].state != "snapshot"
        found[index] = _merged(image, _in_image(seen, begin, end), hidden, final=final)
    if not later:
        return []
    rest = _unprofiled(_in_image(seen, replaced_ns, _FOREVER), sampled, launch, "child", found[last].host)
    after = _less(rest, found[last])
    wall = (seen.last_ns - replaced_ns) / 1e9
    return [replace(after, wall_s=wall, samples=_of_image(samples, replaced_ns, _FOREVER, seen.pid))]


def _in_image(seen: SeenProcess, begin_ns: int, end_ns: int) -> SeenProcess:
    """Return what was seen in one image; only the main thread outlives an image."""
    threads = []
    for thread in seen.threads:
        last = int(thread.rows[-1, 0]) if len(thread.rows) else _FOREVER - 1
        if begin_ns <= last < end_ns:
            threads.append(thread)
    return replace(seen, threads=tuple(threads))


def _merged(process: Process, seen: SeenProcess, hidden: set[int], *, final: bool) -> Process:
    """Merge a process with the sampler's counters, taking the greater; a `final` record's CPU time counts."""
    by_tid: dict[int, list[SeenThread]] = {}
    for thread in seen.threads:
        if thread.tid not in hidden:
            by_tid.setdefault(thread.tid, []).append(thread)
    threads = []
    for own in process.threads:
        counted = by_tid.get(own.tid, []) if own.tid is not None else []
        # The newest of several threads that had this number.
        threads.append(_awake_in_queue(_greater(own, counted[-1]), counted[-1].rows) if counted else own)
        del counted[-1:]
    others = [thread for rest in by_tid.values() for thread in rest]
    threads += _listed(others, seen)
    waited_s = known_sum(thread.run_queue_wait_s for thread in threads)
    return replace(
        process,
        threads=tuple(threads),
        cpu_s=process.cpu_s if final else max(process.cpu_s or 0.0, seen.cpu_s),
        run_queue_wait_s=process.run_queue_wait_s if waited_s is None else waited_s,
    )


def _awake_in_queue(thread: Thread, rows: Ints) -> Thread:
    """Return a thread without the run-queue wait during which looks saw it asleep; `rows` as in `SeenThread`.

    A jump of that counter alone may be one long wait, which is counted at its end.
    """
    if not thread.pauses or thread.run_queue_wait_s is None or len(rows) < 2:
        return thread
    passed, ran, waited = np.diff(rows, axis=0).T
    beyond = waited - np.maximum(passed - ran, 0)
    jumped_s = float(beyond[beyond > _JUMP_NS].sum()) / 1e9
    if not jumped_s:
        return thread
    asleep_s = sum(pause.seconds for pause in thread.pauses if pause.what in _ASLEEP)
    beyond_s = asleep_s + float((ran + waited - passed).sum()) / 1e9
    left_s = thread.run_queue_wait_s - max(0.0, min(jumped_s, beyond_s))
    return replace(thread, profile=_waiting_at_most(thread.profile, left_s), run_queue_wait_s=left_s)


def _waiting_at_most(profile: Profile, seconds: float) -> Profile:
    """Return the same with no more queueing in functions; what is beyond was blocked."""
    whole = 0.0 if profile.wait is None else float(profile.wait.sum())
    part = seconds / whole if whole > seconds else 1.0
    columns: dict[str, Any] = {}
    for wait, blocked in (("wait", "blocked"), ("cumwait", "cumblocked")):
        queued, off = getattr(profile, wait), getattr(profile, blocked)
        if queued is not None and off is not None:
            columns |= {wait: queued * part, blocked: off + (1.0 - part) * queued}
    return replace(profile, **columns)


def _greater(thread: Thread, counted: SeenThread) -> Thread:
    other = _thread(counted)
    values: dict[str, Any] = {
        name: max(known((getattr(thread, name), getattr(other, name))), default=None) for name in _COUNTERS
    }
    return replace(thread, name=thread.name or other.name, **values)


_COUNTERS = (
    *("run_s", "run_queue_wait_s", "timeslices", "user_s", "system_s"),
    *("voluntary_switches", "involuntary_switches"),
)


def of_task(task: Task | SeenThread) -> dict[str, Any]:
    """Return the counters of a thread as arguments for `Thread`."""
    known = task.run_ns >= 0
    return {
        "run_s": task.run_ns / 1e9 if known else None,
        "run_queue_wait_s": task.wait_ns / 1e9 if known else None,
        "timeslices": task.timeslices if known else None,
        "user_s": task.user_s,
        "system_s": task.system_s,
        "voluntary_switches": task.voluntary,
        "involuntary_switches": task.involuntary,
    }


def _thread(counted: SeenThread) -> Thread:
    return Thread(Profile.empty(), counted.tid, counted.name, **of_task(counted))


def _listed(counted: Sequence[SeenThread], seen: SeenProcess) -> list[Thread]:
    """Return the threads of a process that ran most, and one row for all others."""
    number, run_ns, wait_ns = seen.folded.threads, seen.folded.run_ns, seen.folded.wait_ns
    kept = list(counted)
    if len(kept) > MOST_LISTED:
        kept.sort(key=lambda thread: -thread.run_ns)
        for thread in kept[MOST_LISTED:]:
            number, run_ns = number + 1, run_ns + max(0, thread.run_ns)
            wait_ns += max(0, thread.wait_ns)
        del kept[MOST_LISTED:]
    threads = [_thread(thread) for thread in kept]
    if number:
        threads.append(
            Thread(Profile.empty(), None, f"({number:,} more threads)", run_ns / 1e9, wait_ns / 1e9)
        )
    return threads


def _unprofiled(seen: SeenProcess, sampled: Sampled, launch: Launch, role: str, host: Host | None) -> Process:
    root = seen.pid == sampled.root
    # The main thread first, as everywhere.
    counted = sorted(seen.threads, key=lambda thread: thread.tid != seen.pid)
    threads = _listed(counted, seen)
    wall = launch.wall_s if root else (seen.last_ns - seen.first_ns) / 1e9
    alive = is_alive(sampled.kernel, seen.pid, seen.born) if seen.alive else False
    if alive:
        state = "running"
    elif root and launch.exit_status is not None:
        state = "killed" if launch.killed else "exited"
    else:
        state = "unknown" if alive is None else "ended"
    return Process(
        pid=seen.pid,
        parent=seen.parent,
        role=role,
        command=_command(seen, launch.command if root else ()),
        exit=state,
        wall_s=wall or None,
        cpu_s=seen.all_cpu_s,
        run_queue_wait_s=known_sum(thread.run_queue_wait_s for thread in threads),
        voluntary_switches=known_sum(thread.voluntary_switches for thread in threads),
        involuntary_switches=known_sum(thread.involuntary_switches for thread in threads),
        threads=tuple(threads),
        host=host,
        profiled=False,
        samples=_samples(seen, set()),
        peak_threads=seen.peak_threads,
    )


def _command(seen: SeenProcess, launched: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command of a process; if only its name was seen, that of the launcher if it fits."""
    words = seen.command
    alone = len(words) == 1 and launched and os.path.basename(launched[0])[:COMM] == words[0][:COMM]
    return launched if alone else words


def _samples(seen: SeenProcess, hidden: set[int]) -> ThreadSamples | None:
    parts = [
        (thread.tid, thread.rows) for thread in seen.threads if len(thread.rows) and thread.tid not in hidden
    ]
    if not parts:
        return None
    rows = np.concatenate([part for _, part in parts])
    tid = np.repeat(np.array([tid for tid, _ in parts], np.int64), [len(part) for _, part in parts])
    order = np.lexsort((rows[:, 0], tid))
    return ThreadSamples(tid[order], *(rows[order, column].copy() for column in range(3))).validate()


def _of_image(samples: ThreadSamples | None, begin_ns: int, end_ns: int, main: int) -> ThreadSamples | None:
    """Return the samples of one image; those of the `main` thread, which survives an exec, start at 0."""
    if samples is None:
        return None
    earlier = samples.at((samples.time_ns < begin_ns) & (samples.tid == main))
    own = samples.at((samples.time_ns >= begin_ns) & (samples.time_ns < end_ns))
    if earlier is None or own is None:
        return own
    counted = own.tid == main
    return replace(
        own,
        run_ns=own.run_ns - counted * earlier.run_ns[-1],
        wait_ns=own.wait_ns - counted * earlier.wait_ns[-1],
    )


def _less(process: Process, before: Process) -> Process:
    def rest(name: str, whole: Any, part: Any) -> Any:
        value, taken = getattr(whole, name), getattr(part, name)
        return value if value is None or taken is None else max(type(value)(0), value - taken)

    main = next((t for t in before.threads if t.tid == process.pid), None)
    threads = tuple(
        replace(thread, **{name: rest(name, thread, main) for name in _COUNTERS})
        if main is not None and thread.tid == process.pid
        else thread
        for thread in process.threads
    )
    waited_s = known_sum(thread.run_queue_wait_s for thread in threads)
    return replace(
        process,
        threads=threads,
        run_queue_wait_s=process.run_queue_wait_s if waited_s is None else waited_s,
        **{
            name: rest(name, process, before)
            for name in (
                *("cpu_s", "voluntary_switches", "involuntary_switches"),
                *("page_faults", "read_bytes", "storage_bytes"),
            )
        },
    )


def with_orphans(
    machine: Machine | None, found: Sequence[Record], processes: Sequence[Process]
) -> Machine | None:
    """Return the machine with CPU time that only processes know which the target did not wait for, of their children.

    The server of multiprocessing's ``forkserver`` is one: its workers end between two samples.
    """
    if machine is None or machine.tree_cpu_s is None:
        return machine
    waited = {record.pid: record.children_s or 0.0 for record in found}
    seen, missed = defaultdict[int | None, float](float), defaultdict[int | None, float](float)
    parent_of = {process.pid: process.parent for process in processes}

    def depth(process: Process) -> int:
        above: list[int | None] = []
        at = process.parent
        while at in parent_of and at not in above:
            above.append(at)
            at = parent_of[at]
        return len(above)

    in_order = sorted(enumerate(processes), key=lambda one: (depth(one[1]), one[0]))
    for _, process in reversed(in_order):  # children first, and the last image of a process
        below = seen.pop(process.pid, 0.0)
        more = max(missed.pop(process.pid, 0.0), waited.pop(process.pid or 0, 0.0) - below)
        seen[process.parent] += below + (process.cpu_s or 0.0)
        missed[process.parent] += more
    if not any(missed.values()):
        return machine
    return replace(machine, tree_cpu_s=max(machine.tree_cpu_s, sum(seen.values()) + sum(missed.values())))


def unseen(machine: Machine | None, processes: Sequence[Process]) -> Notice | None:
    """Return a notice of the tree's CPU time, which parents know exactly, that no process was seen to use."""
    if machine is None or machine.tree_cpu_s is None:
        return None
    rest = machine.tree_cpu_s - (known_sum(process.cpu_s for process in processes) or 0.0)
    if rest < max(UNSEEN_S, UNSEEN_SHARE * machine.tree_cpu_s):
        return None
    # It includes the end of large programs after their last reading (PyTorch: a second).
    return Notice("cpu-unseen", "", {"cpu_s": rest})
