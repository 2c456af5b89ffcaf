"""Works for as many seconds as it is told; the functions and their shares are known."""

import sys
import time


def leaf(n):
    return sum(range(n))


def work(seconds):
    end = time.perf_counter() + seconds
    rounds = 0
    while time.perf_counter() < end:
        leaf(2000)
        rounds += 1
    return rounds


if __name__ == "__main__":
    work(float(sys.argv[1]) if len(sys.argv) > 1 else 0.2)
    sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
