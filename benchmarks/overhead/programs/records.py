"""Lines of numbers parsed, cleaned and put into batches, in nothing but Python: ``records.py WORK``."""

import random
import sys


def field(text):
    return text.strip()


def parse(line):
    return [field(part) for part in line.split(",")]


def clean(row):
    kept = []
    for value in row:
        if is_number(value):
            kept.append(float(value))
    return kept


def is_number(text):
    return text.replace(".", "", 1).isdigit()


def batches(lines, size):
    batch = []
    for line in lines:
        batch.append(clean(parse(line)))
        if len(batch) == size:
            yield batch
            batch = []


rng = random.Random(2)
lines = [",".join(str(round(rng.random(), 4)) for _ in range(20)) for _ in range(2000)]
total = 0.0
for _ in range(50 * int(sys.argv[1])):
    for batch in batches(lines, 100):
        total += sum(row[0] for row in batch)
