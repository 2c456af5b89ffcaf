"""Compress and hash chunks of a file in threads; both let go of the interpreter lock."""

import contextlib
import hashlib
import json
import random
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SETTINGS = json.loads(Path("settings.json").read_text())
TURN = threading.Lock() if SETTINGS.get("serial") else contextlib.nullcontext()


def make_chunk(seed):
    rng = random.Random(seed)
    words = [rng.randbytes(6).hex() for _ in range(300)]
    return " ".join(rng.choices(words, k=int(9000 * SETTINGS["size"]))).encode()


def squeeze(chunk):
    return zlib.compress(chunk, 5)


def digest(chunk):
    return hashlib.pbkdf2_hmac("sha256", chunk[:64], b"salt", 4000).hex()


def boundaries(chunk):
    value, found = 0, 0
    for byte in chunk[:3000]:
        value = ((value << 1) ^ byte) & 0xFFFF
        found += value % 509 == 0
    return found


def store(chunk):
    with TURN:
        return digest(chunk), len(squeeze(chunk)), boundaries(chunk)


def main():
    chunks = [make_chunk(seed) for seed in range(6)]
    with ThreadPoolExecutor(SETTINGS["threads"]) as pool:
        for _ in range(SETTINGS["work"]):
            list(pool.map(store, chunks))


main()
