"""Makes functions, threads and NVTX ranges until a file is there: the tracer's tables grow all the time."""

import os
import string
import sys
import threading
import time
from itertools import product

try:
    import nvtx
except ImportError:
    nvtx = None

LAST = time.monotonic() + 120


def body(function):
    function()


def grow(worker):
    for n, name in enumerate(product(string.ascii_lowercase, repeat=3)):
        if os.path.exists(sys.argv[1]) or time.monotonic() > LAST:
            break
        time.sleep(0.005)
        names = [f"made_{worker}_{n}_{i}" for i in range(3)]
        space = {}
        code = "\n".join(f"def {each}(then=None): return then and then()" for each in names)
        exec(compile(code, f"made-{worker}-{n}.py", "exec"), space)
        made = [space[each] for each in names]
        made[0](made[1])
        made[1](made[2])
        if nvtx is not None:
            with nvtx.annotate(f"{worker}{''.join(name)}"):
                made[0]()
        # Ended threads are summed up from the hundredth on, and their room is used again.
        thread = threading.Thread(target=body, args=(made[0],))
        thread.start()
        thread.join()


workers = [threading.Thread(target=grow, args=(number,)) for number in range(3)]
for each in workers:
    each.start()
print("ready", flush=True)
for each in workers:
    each.join()
