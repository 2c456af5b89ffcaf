"""Plain cProfile files of any size, in the shape of real ones.

A PyTorch training's profile was looked at for the figures: 1.6 callers a function (most have one, few have many),
8 functions a file, and a few functions hold most of the time. Two files made with different seeds have the same
functions with different times, in different directories, as two machines would write them.
"""

from __future__ import annotations

import marshal
import random
from pathlib import Path

_FUNCTIONS_PER_FILE = 8
_CALLERS = (0, 1, 2, 3, 5, 8)
_CALLERS_WEIGHTS = (5, 62, 17, 8, 5, 3)


def write(path: Path, functions: int, seed: int, *, user: int | None = None) -> None:
    """Write a profile of so many functions; the structure is the same for every seed, the times are not.

    `user` is whose directory it is, of each seed another one by default.
    """
    shape, times = random.Random(0), random.Random(seed)
    directory = f"/home/user{seed if user is None else user}/env/lib/python3.11/site-packages"
    files = [
        f"{directory}/package{i % 40}/module{i}.py" for i in range(max(1, functions // _FUNCTIONS_PER_FILE))
    ]
    keys = [
        (files[i % len(files)], 10 + 9 * (i // len(files)), f"function_{i % 997}_{i}")
        for i in range(functions)
    ]
    stats = {}
    for key in keys:
        calls = shape.randint(1, 1000)
        own = times.expovariate(1.0) * shape.paretovariate(0.8) * 1e-5
        callers = {}
        for _ in range(shape.choices(_CALLERS, _CALLERS_WEIGHTS)[0]):
            callers[keys[shape.randrange(functions)]] = (calls, calls, own, own * 2)
        stats[key] = (calls, calls, own, own * 3, callers)
    path.write_bytes(marshal.dumps(stats))
