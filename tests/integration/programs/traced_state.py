"""Whether the calling thread is traced, for programs that open windows and close them."""

import sys
import time


def traced():
    """Whether this thread sends events to a profiler."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None:
        return monitoring.get_events(2) != 0
    # What profkit puts into its place does not show profkit's.
    return getattr(sys.getprofile, "__wrapped__", sys.getprofile)() is not None


def wait_until(wanted):
    deadline = time.monotonic() + 60
    while traced() != wanted:
        assert time.monotonic() < deadline, f"not traced: {not wanted}, after a minute"
        time.sleep(0.002)
