"""Fetch documents over TCP with asyncio, decode them in a few threads, index them under a lock."""

import asyncio
import hashlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SETTINGS = json.loads(Path("settings.json").read_text())
INDEX, GUARD = {}, threading.Lock()


async def fetch(key, gate):
    async with gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", SETTINGS["port"])
        writer.write(f"{key} {int(60_000 * SETTINGS['size'])}\n".encode())
        await writer.drain()
        body = await reader.read(-1)
        writer.close()
        return body


def fingerprint(body):
    digest = hashlib.sha256(body)
    for start in range(0, len(body), 4096):
        digest.update(body[start : start + 4096])
    return digest.hexdigest()


def words(body):
    counts = {}
    for start in range(0, len(body) - 8, 24):
        word = body[start : start + 8].hex()
        counts[word] = counts.get(word, 0) + 1
    return counts


def index(key, body):
    counts, name = words(body), fingerprint(body)
    with GUARD:
        for word, count in counts.items():
            INDEX.setdefault(word[:4], {})[name] = count


async def document(key, gate, pool):
    body = await fetch(key, gate)
    await asyncio.get_running_loop().run_in_executor(pool, index, key, body)


async def main():
    gate = asyncio.Semaphore(8)
    with ThreadPoolExecutor(SETTINGS["threads"]) as pool:
        await asyncio.gather(*(document(key, gate, pool) for key in range(SETTINGS["work"])))


asyncio.run(main())
