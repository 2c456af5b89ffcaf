"""A consumer fed by a prefetching thread, both annotated with NVTX ranges: NumPy and a store over TCP."""

import json
import queue
import socket
import threading
from pathlib import Path

import numpy as np
import nvtx

SETTINGS = json.loads(Path("settings.json").read_text())
SIDE = int(96 * SETTINGS["size"])


def read_object(key, size):
    with socket.create_connection(("127.0.0.1", SETTINGS["port"])) as connection:
        connection.sendall(f"{key} {size}\n".encode())
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
        return b"".join(parts)


@nvtx.annotate("load", domain="data")
def load(key):
    return np.frombuffer(read_object(key, SIDE * SIDE), np.uint8).reshape(SIDE, SIDE).astype(np.float64)


def prefetch(ready):
    for key in range(SETTINGS["work"]):
        ready.put(load(key))
    ready.put(None)


@nvtx.annotate("filter", domain="train")
def whiten(image):
    spectrum = np.fft.rfft2(image)
    return np.fft.irfft2(spectrum / (np.abs(spectrum) + 1.0))


@nvtx.annotate("update", domain="train")
def update(weights, image):
    for _ in range(4):
        weights = 0.99 * weights + 0.01 * np.tanh(image * weights)
    return weights


def next_item(ready):
    with nvtx.annotate("wait", domain="train"):
        return ready.get()


def main():
    ready = queue.Queue(4)
    threading.Thread(target=prefetch, args=(ready,), daemon=True).start()
    weights = np.ones((SIDE, SIDE))
    while (image := next_item(ready)) is not None:
        weights = update(weights, whiten(image))


main()
