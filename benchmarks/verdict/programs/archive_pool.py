"""Compress, check and index documents in worker processes: bz2, lzma and hashing under concurrent.futures."""

import bz2
import contextlib
import fcntl
import hashlib
import json
import lzma
import random
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

SETTINGS = json.loads(Path("settings.json").read_text())


@contextlib.contextmanager
def turn():
    """Hold the lock of a file, where one process at a time may write to the archive."""
    with Path("settings.json").open() as file:
        if SETTINGS.get("serial"):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def make_document(seed, words):
    rng = random.Random(seed)
    known = [rng.randbytes(3).hex() for _ in range(200)]
    return " ".join(rng.choices(known, k=words))


def squeeze(data):
    return min(len(bz2.compress(data)), len(lzma.compress(data, preset=0)))


def index(text):
    return Counter(word[:3] for word in text.split()).most_common(5)


def archive(text):
    data = text.encode()
    with turn():
        return hashlib.sha256(data).hexdigest(), squeeze(data), index(text)


def merge(results):
    found = Counter()
    for _, size, words in results:
        found["bytes"] += size
        for word, count in words:
            found[word] += count
    return found


def main():
    documents = [make_document(seed, int(2600 * SETTINGS["size"])) for seed in range(8)]
    with ProcessPoolExecutor(SETTINGS["workers"]) as pool:
        for _ in range(SETTINGS["work"]):
            merge(pool.map(archive, documents))


if __name__ == "__main__":
    main()
