"""Parse access logs, sessionise them and count: pure Python, one thread."""

import json
import random
import re
from collections import Counter, defaultdict
from pathlib import Path

SETTINGS = json.loads(Path("settings.json").read_text())
LINE = re.compile(r'(\S+) - (\S+) \[(\d+)\] "(\w+) (\S+)" (\d{3}) (\d+)')


def make_lines(count, seed):
    rng = random.Random(seed)
    return [
        f"10.0.{rng.randrange(20)}.{rng.randrange(200)} - u{rng.randrange(400)} [{i * 3}] "
        f'"GET /a/{rng.randrange(90)}/b?q={rng.randrange(1000)}" {rng.choice((200, 200, 200, 404, 500))} '
        f"{rng.randrange(9000)}"
        for i in range(count)
    ]


def parse(line):
    host, user, when, _, path, status, size = LINE.match(line).groups()
    return {
        "host": host,
        "user": user,
        "when": int(when),
        "path": path,
        "status": int(status),
        "size": int(size),
    }


def query(path):
    _, _, text = path.partition("?")
    return dict(part.partition("=")[::2] for part in text.split("&") if part)


def sessions(records, gap):
    by_user = defaultdict(list)
    for record in records:
        seen = by_user[record["user"]]
        if seen and record["when"] - seen[-1][-1] <= gap:
            seen[-1].append(record["when"])
        else:
            seen.append([record["when"]])
    return by_user


def score(record):
    weight = 0
    for character in record["path"]:
        weight = (weight * 31 + ord(character)) % 65521
    return weight


def tally(records):
    paths, errors, size = Counter(), Counter(), 0
    for record in records:
        paths[record["path"].partition("?")[0]] += 1
        size += record["size"]
        if record["status"] >= 400:
            errors[record["host"]] += 1
        query(record["path"])
    return paths.most_common(10), errors.most_common(10), size


def main():
    for part in range(SETTINGS["work"]):
        records = [parse(line) for line in make_lines(int(2500 * SETTINGS["size"]), part)]
        sessions(records, 1800)
        sum(score(record) for record in records)
        tally(records)


main()
