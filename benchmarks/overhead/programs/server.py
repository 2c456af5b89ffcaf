"""An asyncio server of lines of JSON, and its twenty clients, in one process: ``server.py WORK``."""

import asyncio
import json
import sys

CLIENTS, REQUESTS = 20, 450


async def serve(reader, writer):
    """Answer the requests of one connection."""
    while True:
        line = await reader.readline()
        if not line:
            break
        writer.write(answer(json.loads(line)))
        await writer.drain()
    writer.close()


def answer(request):
    values = request["values"]
    mean = sum(values) / len(values)
    found = {"id": request["id"], "mean": mean, "spread": spread(values, mean)}
    return json.dumps(found).encode() + b"\n"


def spread(values, mean):
    return max(abs(value - mean) for value in values)


async def client(number, port, requests):
    """Ask one thing after the other, and check what comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for i in range(requests):
        values = [(number * 31 + i * 7 + k) % 100 for k in range(20)]
        writer.write(json.dumps({"id": i, "values": values}).encode() + b"\n")
        await writer.drain()
        found = json.loads(await reader.readline())
        assert found["id"] == i
    writer.close()


async def main(work):
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await asyncio.gather(*(client(number, port, REQUESTS * work) for number in range(CLIENTS)))
    server.close()


asyncio.run(main(int(sys.argv[1])))
