"""Writes, as JSON, what a program can see of its interpreter and process: ``looks_around.py FILE``.

It looks when it begins, after imports, in a forked child and in a thread. The names of what it finds are those of the
table in docs/limitations.md.
"""

import json
import os
import sys


def described(thing):
    """What of an object is the same in each process."""
    kind = thing if isinstance(thing, type) else type(thing)
    return "{}.{} {}".format(kind.__module__, kind.__name__, getattr(thing, "__qualname__", ""))


def functions_in_python(module):
    return sorted(name for name in dir(module) if type(getattr(module, name)).__name__ == "function")


def descriptors():
    """Open descriptors, and of what kind they are; that of the listing is closed by then."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink("/proc/self/fd/" + name)
        except OSError:
            continue
        found.append([int(name), target.partition(":")[0] if ":" in target else "file"])
    return sorted(found)


def stack():
    frame, found = sys._getframe(), []
    while frame is not None:
        found.append(frame.f_code.co_filename)
        frame = frame.f_back
    return found


def code_of_no_function():
    """Whether the code of a function lives on that is no more."""
    import gc
    import weakref

    names = {}
    exec("def passing(): pass\npassing()", names)
    code = weakref.ref(names["passing"].__code__)
    names.clear()
    gc.collect()
    return code() is not None


def threads_of_faulthandler():
    import faulthandler

    read, write = os.pipe()
    faulthandler.dump_traceback(write)
    os.close(write)
    with os.fdopen(read) as pipe:
        return pipe.read().count("(most recent call first)")


def looked():
    # At the begin, nothing is imported before this has looked at what is.
    facts = {
        "sys.modules": sorted(sys.modules),
        "sys.path": sys.path[:],
        "sys.meta_path": [described(finder) for finder in sys.meta_path],
        "sys.path_hooks": [described(hook) for hook in sys.path_hooks],
        "sys.path_importer_cache": sorted(sys.path_importer_cache),
        "dir(sys)": dir(sys),
        "functions of sys": functions_in_python(sys),
        "functions of os": functions_in_python(os),
        "os.supports_fd": sorted(one.__name__ for one in os.supports_fd if one is getattr(os, one.__name__)),
        "functions of builtins": functions_in_python(sys.modules["builtins"]),
        "sys.flags": str(sys.flags),
        "sys._xoptions": sorted(sys._xoptions),
        "sys.warnoptions": sys.warnoptions,
        "sys.getprofile()": repr(sys.getprofile()),
        "sys.gettrace()": repr(sys.gettrace()),
        "hooks of sys": [described(getattr(sys, name)) for name in dir(sys) if name.endswith("hook")],
        "sys.getswitchinterval()": sys.getswitchinterval(),
        "sys.getrecursionlimit()": sys.getrecursionlimit(),
        "files of the stack": stack(),
        "threads with frames": len(sys._current_frames()),
        "os.environ": sorted(os.environ),
        "/proc/self/fd": descriptors(),
        "/proc/self/task": len(os.listdir("/proc/self/task")),
        "cwd, umask, niceness": [os.getcwd(), os.umask(0o22), os.nice(0)],
    }
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None:
        facts["sys.monitoring"] = [[tool, monitoring.get_tool(tool)] for tool in range(6)]
    facts.update(looked_by_modules())
    return facts


def looked_by_modules():
    import atexit
    import cProfile
    import gc
    import linecache
    import multiprocessing
    import resource
    import signal
    import threading
    import tracemalloc
    import warnings

    facts = {
        "gc": [gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.get_freeze_count()],
        "gc.callbacks": [described(callback) for callback in gc.callbacks],
        "signal handlers": [[int(n), str(signal.getsignal(n))] for n in sorted(signal.valid_signals())],
        "signal mask": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
        "signal timer": signal.getitimer(signal.ITIMER_REAL),
        "limits": [resource.getrlimit(n) for n in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)],
        "threading.enumerate()": [thread.name for thread in threading.enumerate()],
        "threading.active_count()": threading.active_count(),
        "threading._dangling": len(threading._dangling),
        "_thread._count()": threading._thread._count() if hasattr(threading, "_thread") else 0,
        "threading.getprofile()": repr(threading._profile_hook).partition(" of ")[0],
        "threading.gettrace()": repr(threading._trace_hook),
        "threading.excepthook": described(threading.excepthook),
        "functions of threading": functions_in_python(threading),
        "warnings.filters": [str(one) for one in warnings.filters],
        "atexit": atexit._ncallbacks(),
        "start method": multiprocessing.get_start_method(),
        "linecache": sorted(linecache.cache),
        "faulthandler": threads_of_faulthandler(),
        "code of a function that is no more": code_of_no_function(),
        "cProfile.Profile.__mro__": [described(base) for base in cProfile.Profile.__mro__],
    }
    if threading.current_thread() is threading.main_thread():
        facts["wakeup descriptor"] = signal.set_wakeup_fd(-1)
    if tracemalloc.is_tracing():
        of_files = tracemalloc.take_snapshot().statistics("filename")
        facts["tracemalloc"] = sorted(one.traceback[0].filename for one in of_files)
    return facts


found = {"begin": looked(), "later": looked()}

read, write = os.pipe()
child = os.fork()
if child == 0:
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        json.dump(looked(), pipe)
    os._exit(0)
os.close(write)
with os.fdopen(read) as pipe:
    found["child"] = json.load(pipe)
os.waitpid(child, 0)

from threading import Thread  # noqa: E402 - what is imported is seen above

thread = Thread(target=lambda: found.update(thread=looked()), name="looks")
thread.start()
thread.join()
try:
    os.execv("/nonexistent", ["nonexistent"])
except OSError as error:
    frame, files = error.__traceback__, []
    while frame is not None:
        files.append(frame.tb_frame.f_code.co_filename)
        frame = frame.tb_next
    found["end"] = {"tracebacks": files}
with open(sys.argv[1], "w") as file:
    json.dump(found, file)
