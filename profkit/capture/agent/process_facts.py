"""Read what a process knows of itself: identity, interpreter, and kernel counters so far."""

from __future__ import annotations

import os
import sys
from os import close, listdir, read
from os import open as open_file
from time import perf_counter, time

from . import settings

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Set, Tuple

    from .native import Tracer


_boot_id: List[str] = []

#: Beginnings of the names of shared objects without pools of threads: of Python, its standard library and profkit.
_WITHOUT_POOLS = (
    *("ld-", "libc.", "libc-", "libm.", "libm-", "libdl", "libpthread", "librt", "libutil", "libpython"),
    *("libbz2", "libcrypt", "libexpat", "libffi", "libgcc_s", "liblzma", "libssl", "libuuid", "libz."),
    *("_tracer.", "_tracer_abi3.", settings.NVTX_LIBRARY),
)


def identity() -> Dict[str, Any]:
    """Return the facts that do not change until the process ends or forks."""
    version = sys.version_info
    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "born": _birth(),
        "host": os.uname().nodename if hasattr(os, "uname") else "",
        "boot": boot_id(),
        "version": "%d.%d.%d" % version[:3],
        "stdlib": os.path.dirname(os.__file__),
        "environment_at_start": settings.recorded_environment(os.environ),
        "begin_time": time(),
        "begin_perf": perf_counter(),
    }


def boot_id() -> str:
    """Return the id of the running kernel, which its containers share; empty if unknown."""
    if not _boot_id:
        try:
            _boot_id.append(read_file("/proc/sys/kernel/random/boot_id").decode("ascii").strip())
        except (OSError, ValueError):
            return ""
    return _boot_id[0]


def file_of_interpreter(spool: str, suffix: str) -> str:
    """Return the path of a file of the spool for processes of this interpreter's version on this machine."""
    name = boot_id() or "unknown", sys.implementation.cache_tag, sys.hexversion, suffix
    return os.path.join(spool, "%s-%s-%x%s" % name)


def usage_of(tracer: Any) -> Callable[[], Tuple[Any, ...]]:
    """Return the function that reads this process's usage: the cheap one of the tracer, or `resource`'s.

    It returns CPU seconds, voluntary and involuntary switches, peak memory in KiB, and minor faults; nothing
    on Windows.
    """
    found: Optional[Callable[[], Tuple[Any, ...]]] = getattr(tracer, "usage", None)
    if found is not None:
        return found
    try:
        import resource
    except ImportError:  # Windows
        return tuple

    def usage() -> Tuple[Any, ...]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = used.ru_utime + used.ru_stime
        # KiB, except on macOS, which has bytes (getrusage(2)).
        memory = used.ru_maxrss // (1024 if sys.platform == "darwin" else 1)
        return cpu_s, used.ru_nvcsw, used.ru_nivcsw, memory, used.ru_minflt

    return usage


def state(final: bool, usage: Callable[[], Tuple[Any, ...]]) -> Dict[str, Any]:
    """Return the facts that may change, for each record; a `final` one has more about each thread."""
    argv = command()
    allowed = affinity()
    rank, world_size, local_rank, node = settings.place_of(os.environ)
    record: Dict[str, Any] = {
        "argv": argv,
        "environment": settings.recorded_environment(os.environ),
        "rank": rank,
        "world_size": world_size,
        "local_rank": local_rank,
        "node": node,
        # As plain strings: some path libraries put subclasses of `str` here, which marshal refuses.
        "path": [str.__str__(entry) for entry in sys.path or () if isinstance(entry, str)],
        "cpus": os.cpu_count(),
        "affinity": len(allowed) or None,
        "affinity_cpus": allowed,
        "cwd": cwd(),
        "worker": _multiprocessing_name(argv),
        "tasks": tasks(final),
        "time": time(),
        "perf": perf_counter(),
    }
    used = usage()
    if used:
        record["cpu_s"], record["voluntary_switches"], record["involuntary_switches"] = used[:3]
        record["peak_memory_bytes"], record["page_faults"] = used[3] * 1024, used[4]
    waited = os.times()
    record["children_s"] = waited.children_user + waited.children_system
    record["read_bytes"], record["storage_bytes"] = _bytes_read()
    return record


def record(
    identity: Dict[str, Any], word: str, usage: Callable[[], Tuple[Any, ...]], own: Set[int], tracer: Tracer
) -> Dict[str, Any]:
    """Return what every record in the state `word` has; `own` are the numbers of the agent's threads."""
    made = dict(identity)
    made.update(state(word != "snapshot", usage))
    made["state"] = word
    made["agent_tids"] = sorted(own)
    made["tasks"] = [task for task in made["tasks"] if task[0] not in own]
    made["tracer"] = tracer.kind
    made["thread_names"] = _thread_names()
    return made


def _thread_names() -> List[List[Any]]:
    """Return numbers and names that `threading` has for threads, also for ended ones that the target still holds."""
    module = sys.modules.get("threading")
    try:
        known = list(module._dangling) if module is not None else []
    except Exception:
        return []  # the set changed during the copy, or this Python lacks it
    # Greenlets that stand for threads have the id of the thread that runs them, mostly the main one's (the
    # pid).
    main = os.getpid(), getattr(module, "_main_thread", None)
    named = [(getattr(t, "native_id", None), t) for t in known]
    return [[tid, str(t.name)] for tid, t in named if tid and (tid != main[0] or t is main[1])]


def script_directory() -> List[str]:
    """Return what Python will put in front of the import path before the program runs."""
    argv = getattr(sys, "argv", None)
    if not argv or sys.flags.isolated or getattr(sys.flags, "safe_path", False):
        return []
    if argv[0] in ("-c", "-m"):
        return [cwd()]
    return [os.path.dirname(os.path.realpath(argv[0]))] if os.path.isfile(argv[0]) else []


def affinity() -> List[int]:
    """Return the CPUs that this process may use, in order; empty if unknown."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def tasks(final: bool) -> List[List[Any]]:
    """Return ``[tid, name, run_ns, wait_ns, timeslices]`` of each living thread but the tracer's own.

    Empty without schedstat.
    The times are those of ``/proc/<pid>/schedstat`` (the kernel's ``sched-stats.rst``). Final rows add user
    and system seconds, voluntary and involuntary switches, which are slower to read.
    """
    rows: List[List[Any]] = []
    try:
        threads = listdir("/proc/self/task")
    except OSError:
        return rows
    for tid in threads:
        task = "/proc/self/task/%s/" % tid
        try:
            run, wait, slices = read_file(task + "schedstat").split()
            name = read_file(task + "comm").decode("utf-8", "replace").rstrip("\n")
        except (OSError, ValueError):
            continue  # the thread has ended, or the kernel keeps no such counters
        if name == settings.TRACER_THREAD:
            continue
        row: List[Any] = [int(tid), name, int(run), int(wait), int(slices)]
        if final:
            try:
                _, fields = read_stat(task + "stat")
                counts = switches(read_file(task + "status"))
                ticks = os.sysconf("SC_CLK_TCK")
                row += [int(fields[11]) / ticks, int(fields[12]) / ticks, *counts]
            except (OSError, ValueError, IndexError):
                pass
        rows.append(row)
    return rows


def shared_objects() -> List[str]:
    """Return the paths of the shared objects that this process has loaded; raise `OSError` without ``/proc``."""
    with open("/proc/self/maps", "rb") as stream:
        data = stream.read()
    found: Dict[str, None] = {}
    for line in data.split(b"\n"):
        start = line.find(b"/")
        if start < 0 or line.find(b".so", start) < 0:
            continue
        path = os.fsdecode(line[start:])
        if path.endswith(" (deleted)"):
            path = path[: -len(" (deleted)")]
        found[path] = None
    return list(found)


def may_have_pools() -> bool:
    """Whether this process has loaded code that may have a pool of threads; true if that is unknown."""
    try:
        for path in shared_objects():
            folder, _, name = path.rpartition("/")
            if not (name.startswith(_WITHOUT_POOLS) or folder.endswith("/lib-dynload")):
                return True
    except OSError:
        return True
    return False


def read_file(path: str, size: int = 4096) -> bytes:
    """Return up to `size` bytes of a file in one read."""
    fd = open_file(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        return read(fd, size)
    finally:
        close(fd)


def read_stat(path: str) -> Tuple[str, List[bytes]]:
    """Return the name and the fields from the third on (index 0 is the state) of a ``stat`` file, proc(5)."""
    data = read_file(path, 2048)
    end = data.rindex(b")")
    name = data[data.index(b"(") + 1 : end].decode("utf-8", "surrogateescape")
    return name, data[end + 2 :].split()


def switches(status: bytes) -> Tuple[Optional[int], Optional[int]]:
    """Return voluntary and involuntary context switches from a thread's ``status``."""
    voluntary, involuntary = (
        status_words(status, key) for key in (b"voluntary_ctxt_switches", b"nonvoluntary_ctxt_switches")
    )
    return int(voluntary[0]) if voluntary else None, int(involuntary[0]) if involuntary else None


def status_words(status: bytes, key: bytes) -> List[bytes]:
    """Return the words of a field of a ``status`` file, proc(5); none if it is not there."""
    _, found, rest = status.partition(b"\n" + key + b":")
    return rest.partition(b"\n")[0].split() if found else []


def _bytes_read() -> Tuple[Optional[int], Optional[int]]:
    """Return the bytes from read(2) and similar calls so far, and those that storage had to deliver (proc(5))."""
    try:
        words = read_file("/proc/self/io").split()
        return int(words[words.index(b"rchar:") + 1]), int(words[words.index(b"read_bytes:") + 1])
    except (OSError, ValueError, IndexError):
        return None, None  # not Linux, or not permitted


def _birth() -> Optional[int]:
    """Return the start time in clock ticks since boot, which tells processes with the same pid apart."""
    try:
        return int(read_stat("/proc/self/stat")[1][19])
    except (OSError, ValueError, IndexError):
        return None


def words_of(line: bytes) -> List[str]:
    """Return the words of a kernel command line, without the zeros that fill up a title written there."""
    words = line.decode("utf-8", "surrogateescape").split("\0")
    if words[-1] == "":
        words.pop()
    if words[-2:] == ["", ""]:
        while words and words[-1] == "":
            words.pop()
    return words


def command() -> List[str]:
    try:
        with open("/proc/self/cmdline", "rb") as stream:
            words = words_of(stream.read())
        if words:
            return words
    except OSError:
        pass
    return list(getattr(sys, "orig_argv", None) or getattr(sys, "argv", None) or [])


def cwd() -> str:
    """Return the working directory; empty if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def name_of_worker(frame: Any) -> str:
    """Return the name of the process that multiprocessing is forking in or around this frame, if it is."""
    launches = os.path.join("multiprocessing", "popen_fork.py")
    name = ""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_launch" and code.co_filename.endswith(launches):
            name = str(getattr(frame.f_locals.get("process_obj"), "name", "")) or name
        frame = frame.f_back
    return name


def _multiprocessing_name(command: List[str]) -> str:
    """Return multiprocessing's name of this process; empty if it did not start it.

    A spawned process is "spawned" until it has imported the main module, which may take seconds; `sys.argv`
    has changed then.
    """
    module = sys.modules.get("multiprocessing.process")
    try:
        if module is not None and module.parent_process() is not None:
            return str(module.current_process().name)
    except Exception:
        pass  # a half-imported module
    return "spawned" if "--multiprocessing-fork" in command else ""
