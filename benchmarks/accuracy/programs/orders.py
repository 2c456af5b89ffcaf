"""Sorting, searching and heaps with functions that are called back: ``orders.py WORK``.

``compare`` is made slower by the variable SLOWER.
"""

import bisect
import functools
import heapq
import os
import random
import sys

LETTERS = round(30 * float(os.environ.get("SLOWER", "1")))


class Task:
    def __init__(self, rank, name):
        self.rank = rank
        self.name = name

    def __lt__(self, other):
        return (self.rank, self.name) < (other.rank, other.name)

    def __eq__(self, other):
        return self.rank == other.rank

    def __hash__(self):
        return self.rank * 7 + len(self.name)


def natural(name):
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)


def compare(one, other):
    value = 0
    for i in range(LETTERS):
        value = (value * 3 + i) % 11
    return weight(one) - weight(other) or value % 2


@functools.lru_cache(maxsize=64)
def weight(name):
    return sum(ord(c) * (i + 1) for i, c in enumerate(name))


def reversed_name(name):
    return name[::-1]


def rank(task):
    return task.rank


def is_even(task):
    return task.rank % 2 == 0


def merged(one, other):
    result, i, k = [], 0, 0
    while i < len(one) and k < len(other):
        if before(one[i], other[k]):
            result.append(one[i])
            i += 1
        else:
            result.append(other[k])
            k += 1
    return result + one[i:] + other[k:]


def before(one, other):
    return one.rank <= other.rank


def merge_sorted(tasks):
    if len(tasks) < 2:
        return tasks
    middle = len(tasks) // 2
    return merged(merge_sorted(tasks[:middle]), merge_sorted(tasks[middle:]))


def scheduled(tasks):
    heap = []
    for task in tasks:
        heapq.heappush(heap, task)
    return [heapq.heappop(heap) for _ in range(len(heap))]


def placed(limits, tasks):
    return [place(limits, task) for task in tasks]


def place(limits, task):
    return bisect.bisect_left(limits, task.rank)


def grouped(tasks):
    groups = {}
    for task in tasks:
        groups.setdefault(task, []).append(task.name)
    return groups


def inverted(values):
    count = 0
    for i, value in enumerate(values[:-1]):
        count += swapped(value, values[i + 1])
    return count


def swapped(one, other):
    return 1 if one > other else 0


def main():
    rng = random.Random(6)
    names = ["".join(rng.choices("abc", k=3)) + str(rng.randrange(1000)) for _ in range(200)]
    tasks = [Task(rng.randrange(10000), name) for name in names]
    limits = sorted(rng.sample(range(10000), 40))
    total = 0
    for _ in range(300 * int(sys.argv[1])):
        by_weight = sorted(names, key=functools.cmp_to_key(compare))
        by_nature = sorted(names, key=natural) + sorted(names, key=reversed_name)
        total += inverted(by_nature) + len(by_weight)
        total += merge_sorted(tasks)[0].rank + scheduled(tasks)[-1].rank
        total += sum(placed(limits, sorted(filter(is_even, tasks), key=rank))) + len(grouped(tasks))
    print(total)


main()
