"""Prints what a program can see of the interpreter that it runs in; must not differ under profkit."""

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings


def descriptors():
    """Numbers that are open each time: one that the snapshot thread reads a file through is closed at once."""
    seen = []
    for _ in range(4):
        listed = {int(fd) for fd in os.listdir("/proc/self/fd")}
        seen.append({fd for fd in listed if fd < 512 and is_open(fd)})
        time.sleep(0.03)
    return sorted(set.intersection(*seen))


def thresholds():
    """Those that stay: while a snapshot is made, no collection begins."""
    deadline = time.monotonic() + 20
    while gc.get_threshold()[0] == 2**31 - 1 and time.monotonic() < deadline:
        time.sleep(0.03)
    return gc.get_threshold()


def is_open(fd):
    """Whether it still is: not the one that the listing itself took."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


threads = [t.name for t in threading.enumerate()]
facts = {
    "argv": sys.argv,
    "path": sys.path,
    "flags": str(sys.flags),
    "modules": sorted(m for m in sys.modules if "profkit" in m or "sitecustomize" in m),
    "threads": threads,
    "excepthook": sys.excepthook is sys.__excepthook__,
    "trace": sys.gettrace(),
    "handlers": [str(signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
    "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    # The one that measures collections is there to be seen (docs/architecture.md).
    "gc": (gc.isenabled(), thresholds(), [c for c in gc.callbacks if c.__name__ != "collects"]),
    "warnings": [str(w) for w in warnings.filters],
    "cwd": os.getcwd(),
    "umask": os.umask(0o22),
    # The native tracer reads each thread's counters through a descriptor far above those that programs use.
    "fds": descriptors(),
    "exit": os._exit.__name__,
    "start": multiprocessing.get_start_method(),
    "environment": sorted(
        k
        for k in os.environ
        if not k.startswith("PROFKIT_") and k not in ("PYTHONPATH", "NVTX_INJECTION64_PATH", "_")
    ),
    "importable": __import__("importlib.util").util.find_spec("profkit") is not None,
}
pid = os.fork()  # warns from Python 3.12 on where the process has a second thread
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
for name, value in facts.items():
    print(name, value)
print("stdin", sys.stdin.read())
print("stderr too", file=sys.stderr)
