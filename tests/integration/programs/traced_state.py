"""Whether the calling thread is traced, for programs that open windows and close them."""

import sys
import time


def traced():
    """Whether this thread sends events to a profiler."""
    monitoring = getattr(sys, "monitoring", None)
    return sys.getprofile() is not None if monitoring is None else monitoring.get_events(2) != 0


def wait_until(wanted):
    deadline = time.monotonic() + 60
    while traced() != wanted:
        assert time.monotonic() < deadline, f"not traced: {not wanted}, after a minute"
        time.sleep(0.002)
