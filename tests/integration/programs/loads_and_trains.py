"""A training loop with NVTX ranges and a loader; arguments: in_turn or overlapped, milliseconds to load, to compute.

The loader's work is sleeping and the consumer's arithmetic, so that the two do not compete for a CPU.
"""

import queue
import sys
import threading
import time

import nvtx

STEPS = 30


def busy(seconds):
    end = time.perf_counter() + seconds
    total = 0
    while time.perf_counter() < end:
        total += sum(range(200))
    return total


def read_batch(seconds):
    time.sleep(seconds)
    return list(range(64))


class Trainer:
    def __init__(self, compute):
        self.compute = compute

    def forward(self, batch):
        return busy(self.compute * 0.4)

    def backward(self, batch):
        return busy(self.compute * 0.5)

    def update(self):
        return busy(self.compute * 0.1)

    def step(self, batch):
        with nvtx.annotate("forward"):
            self.forward(batch)
        with nvtx.annotate("backward"):
            self.backward(batch)
        with nvtx.annotate("optimizer step"):
            self.update()


def in_turn(trainer, load):
    for i in range(STEPS):
        with nvtx.annotate(f"iteration {i}", payload=64):
            with nvtx.annotate("load batch"):
                batch = read_batch(load)
            trainer.step(batch)


def overlapped(trainer, load, loaders=2):
    ready = queue.Queue(4)

    def work(count):
        for _ in range(count):
            with nvtx.annotate("load batch"):
                batch = read_batch(load * loaders)
            ready.put(batch)

    threads = [
        threading.Thread(target=work, args=(STEPS // loaders,), name=f"loader-{n}") for n in range(loaders)
    ]
    for thread in threads:
        thread.start()
    for i in range(STEPS):
        with nvtx.annotate(f"iteration {i}", payload=64):
            with nvtx.annotate("wait for batch"):
                batch = ready.get()
            trainer.step(batch)
    for thread in threads:
        thread.join()


mode, load, compute = sys.argv[1], float(sys.argv[2]) / 1e3, float(sys.argv[3]) / 1e3
(in_turn if mode == "in_turn" else overlapped)(Trainer(compute), load)
