"""Makes this Linux look like another system to the Python that imports it: what that system has not is gone.

``PROFKIT_TEST_PLATFORM`` says which: ``macos`` or ``windows``. What the standard library itself binds before or
needs to start a child stays, as a system has its own ways for that; `sys.platform` stays, too, since the
library's choice of implementation hangs on it.
"""

import builtins
import errno
import io
import os
import signal
import sys

#: Neither has what the Linux kernel tells, and what Python offers of its calls.
_BOTH = {
    os: (
        "sched_getaffinity sched_setaffinity sched_getscheduler memfd_create pidfd_open eventfd "
        "posix_fallocate posix_fadvise splice copy_file_range sendfile setns unshare"
    ),
    signal: "sigtimedwait sigwaitinfo SIGRTMIN SIGRTMAX SIGSTKFLT SIGPWR SIGPOLL",
}
_WINDOWS = {
    os: (
        "fork forkpty uname sysconf register_at_fork wait wait3 wait4 waitid getuid geteuid getgid getpgid "
        "getpgrp getpgid killpg setsid setpgid pread pwrite preadv O_CLOEXEC O_NONBLOCK getpriority nice "
        "getloadavg mkfifo mknod chown chroot ctermid openpty tcgetpgrp"
    ),
    signal: (
        "pthread_sigmask pthread_kill sigwait sigpending setitimer getitimer alarm pause siginterrupt "
        "SIGHUP SIGQUIT SIGUSR1 SIGUSR2 SIGCHLD SIGKILL SIGSTOP SIGCONT SIGALRM SIGPIPE SIGTSTP SIG_BLOCK "
        "SIG_UNBLOCK SIG_SETMASK"
    ),
}
_WINDOWS_MODULES = ("resource", "fcntl", "pwd", "grp", "termios", "tty", "pty", "syslog")


def _remove(table):
    for module, names in table.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)


def _hide(function, path_of=lambda path, *_, **__: path):
    def hiding(*arguments, **named):
        path = path_of(*arguments, **named) if arguments or named else "."
        text = os.fspath(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
        text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        if text == "/proc" or text.startswith(("/proc/", "/sys/", "/dev/shm")):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), text)
        return function(*arguments, **named)

    return hiding


def become(platform):
    """Take away what the platform has not."""
    _remove(_BOTH)
    for name in ("open", "listdir", "scandir", "stat", "lstat", "readlink"):
        setattr(os, name, _hide(getattr(os, name)))
    # The modules that were made with these functions look there from now on.
    sys.modules["posix"].open, sys.modules["posix"].listdir = os.open, os.listdir
    builtins.open = io.open = _hide(io.open)
    os.path.exists = lambda path: _is_there(path)
    if platform == "windows":
        _remove(_WINDOWS)
        for name in _WINDOWS_MODULES:
            sys.modules[name] = None


def _is_there(path):
    try:
        os.stat(path)
    except (OSError, ValueError):
        return False
    return True


if os.environ.get("PROFKIT_TEST_PLATFORM"):
    become(os.environ["PROFKIT_TEST_PLATFORM"])
