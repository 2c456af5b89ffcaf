"""A small object store over TCP for the programs that fetch: ``python store.py PORT-FILE LATENCY_S``.

Answers ``KEY SIZE`` with so many bytes after a wait, as slow storage does. Runs outside of what is captured.
"""

import asyncio
import hashlib
import os
import sys


async def serve(reader, writer):
    key, size = (await reader.readline()).decode().split()
    await asyncio.sleep(float(sys.argv[2]))
    block = hashlib.sha256(key.encode()).digest()
    writer.write((block * (int(size) // len(block) + 1))[: int(size)])
    await writer.drain()
    writer.close()


async def main():
    parent = os.getppid()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    with open(sys.argv[1], "w") as file:
        file.write(str(server.sockets[0].getsockname()[1]) + "\n")
    # Nobody else ends it where the harness is killed.
    while os.getppid() == parent:
        await asyncio.sleep(1)


asyncio.run(main())
