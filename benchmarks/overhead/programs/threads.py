"""A pool of four threads that compute in Python, and so take turns at one GIL: ``threads.py WORK``."""

import random
import sys
from concurrent.futures import ThreadPoolExecutor


def distance(one, other):
    """Return the edit distance of two words."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = next_row(row, i, a, other)
    return row[-1]


def next_row(above, first, letter, word):
    row = [first]
    for j, b in enumerate(word, 1):
        row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (letter != b)))
    return row


def nearest(word, words):
    return min((distance(word, other), other) for other in words if other != word)


rng = random.Random(3)
words = ["".join(rng.choices("abcdef", k=rng.randrange(4, 9))) for _ in range(60)]
with ThreadPoolExecutor(4) as pool:
    for _ in range(15 * int(sys.argv[1])):
        found = list(pool.map(lambda word: nearest(word, words), words))
