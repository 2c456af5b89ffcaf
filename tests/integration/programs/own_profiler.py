"""Profiles a part of itself with cProfile, as its users know it, and prints what it found."""

import cProfile
import io
import pstats
import time


def inside(n):
    return sum(range(n))


def measured():
    for _ in range(100):
        inside(100)


def outside():
    end = time.perf_counter() + 0.1
    while time.perf_counter() < end:
        inside(10)


outside()
profiler = cProfile.Profile()
profiler.enable()
measured()
profiler.disable()
outside()
with cProfile.Profile() as second:
    measured()
outside()
for each in (profiler, second):
    each.create_stats()
    for (file, line, name), (cc, nc, _tt, _ct, callers) in sorted(each.stats.items()):
        print(
            file.rpartition("/")[2],
            line,
            name,
            cc,
            nc,
            sorted((c[0].rpartition("/")[2], *c[1:]) for c in callers),
        )
pstats.Stats(profiler, stream=io.StringIO()).print_stats()
