"""What a captured program can see of how it is seen; for every Python from 3.8 on."""

import sys
import time


def is_sampled():
    """Whether nothing of profkit's receives the calls of this thread."""
    if hasattr(sys, "monitoring"):
        return sys.monitoring.get_tool(sys.monitoring.PROFILER_ID) is None
    # What profkit puts into its place up to Python 3.11 does not show profkit's.
    return getattr(sys.getprofile, "__wrapped__", sys.getprofile)() is None


def tiny(x):
    return x + 1


def hot(n=20_000):
    total = 0
    for _ in range(n):
        total = tiny(total)
    return total


def until_sampled():
    """Call small functions until this costs too much to be traced."""
    _until(True, hot)


def until_exact():
    """Compute in C until calls are traced again."""
    _until(False, lambda: sum(range(100_000)))


def _until(sampled, work):
    deadline = time.monotonic() + 45
    while is_sampled() != sampled:
        assert time.monotonic() < deadline, "the tier does not change"
        work()


def samples_for(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        hot()
