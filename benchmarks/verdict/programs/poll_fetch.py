"""Fetch objects over many sockets with select and a short timeout, and digest them between polls: one thread."""

import json
import select
import socket
import zlib
from pathlib import Path

SETTINGS = json.loads(Path("settings.json").read_text())
SIZE = int(40_000 * SETTINGS["size"])
AT_ONCE = 6


def ask(key):
    connection = socket.create_connection(("127.0.0.1", SETTINGS["port"]))
    connection.sendall(f"{key} {SIZE}\n".encode())
    connection.setblocking(False)
    return connection


def drain(connection, parts):
    while True:
        try:
            part = connection.recv(1 << 14)
        except BlockingIOError:
            return False
        if not part:
            connection.close()
            return True
        parts.append(part)


def entropy(body):
    counts = {}
    for value in body[::16]:
        counts[value] = counts.get(value, 0) + 1
    return sum(count * count for count in counts.values())


def digest(body):
    return zlib.crc32(body), len(zlib.compress(body[:8000], 9)), entropy(body)


def main():
    keys = iter(range(SETTINGS["work"]))
    waiting, found = {}, []
    while True:
        while len(waiting) < AT_ONCE and (key := next(keys, None)) is not None:
            waiting[ask(key)] = []
        if not waiting:
            break
        readable, _, _ = select.select(list(waiting), [], [], 0.001)
        for connection in readable:
            if drain(connection, waiting[connection]):
                found.append(digest(b"".join(waiting.pop(connection))))


main()
