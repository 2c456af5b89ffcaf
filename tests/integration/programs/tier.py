"""What a captured program can see of how it is seen; for every Python from 3.8 on."""

import time

from traced_state import traced


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
    while traced() == sampled:
        assert time.monotonic() < deadline, "the tier does not change"
        work()


def samples_for(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        hot()
