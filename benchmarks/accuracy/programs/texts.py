"""Regular expressions and JSON: lines of a log parsed, counted and written: ``texts.py WORK``.

``checksum`` is made slower by the variable SLOWER.
"""

import json
import os
import random
import re
import sys

ROUNDS = round(10 * float(os.environ.get("SLOWER", "1")))
LINE = re.compile(
    r"(?P<host>[\d.]+) \[(?P<time>[^\]]+)\] \"(?P<verb>[A-Z]+) (?P<path>\S+)\" (?P<status>\d{3}) (?P<size>\d+)"
)
WORD = re.compile(r"[A-Za-z]+|\d+")
SECRET = re.compile(r"(token|key)=\w+")


def line(rng):
    path = "/".join(rng.choice(("api", "users", "items", "search", "v2")) for _ in range(4))
    host = ".".join(str(rng.randrange(256)) for _ in range(4))
    clock = f"{rng.randrange(24):02d}:{rng.randrange(60):02d}"
    query = f"?token={rng.randrange(1 << 40):x}&page={rng.randrange(90)}"
    return f'{host} [{clock}] "GET /{path}{query}" {rng.choice((200, 404))} {rng.randrange(9999)}'


def parse(text):
    found = LINE.match(text)
    return found.groupdict() if found else {}


def masked(path):
    return SECRET.sub(hidden, path)


def hidden(found):
    return found.group(1) + "=***"


def words(path):
    return [word.lower() for word in WORD.findall(path)]


def typed(fields):
    fields["status"], fields["size"] = int(fields["status"]), int(fields["size"])
    fields["minute"] = minute(fields["time"])
    return fields


def minute(clock):
    hours, _, minutes = clock.partition(":")
    return int(hours) * 60 + int(minutes)


def checksum(text):
    value = 0
    for _ in range(ROUNDS):
        for code in text[:12]:
            value = (value * 33 + code) & 0xFFFF
    return value


def record(fields):
    fields["path"] = masked(fields["path"])
    fields["words"] = words(fields["path"])
    return fields


def written(fields):
    return json.dumps(fields, sort_keys=True)


def read(text):
    return json.loads(text, object_hook=hook)


def hook(found):
    found.pop("time", None)
    return found


def counted(counts, fields):
    for word in fields["words"]:
        counts[word] = counts.get(word, 0) + 1


def classed(fields):
    return "bad" if fields["status"] >= 400 else "large" if fields["size"] > 5000 else "usual"


def indented(counts):
    return json.dumps(counts, indent=1, sort_keys=True)


def main():
    rng = random.Random(4)
    lines = [line(rng) for _ in range(600)]
    total, counts, classes = 0, {}, {}
    for _ in range(60 * int(sys.argv[1])):
        for text in lines:
            fields = record(typed(parse(text)))
            again = read(written(fields))
            counted(counts, again)
            kind = classed(again)
            classes[kind] = classes.get(kind, 0) + 1
            total ^= checksum(text.encode())
        total ^= len(indented(counts))
    print(total, classes["usual"])


main()
