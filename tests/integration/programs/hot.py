"""Calls small functions very often, in some ways, for some seconds of CPU; prints how often each was called, as JSON.

    hot.py SECONDS

For every Python from 3.8 on.
"""

import json
import sys
import threading
import time


def tiny(x):
    return x + 1


def calls(n):
    total = 0
    for _ in range(n):
        total = tiny(total)
    return total


def recursive(n):
    return 0 if n == 0 else 1 + recursive(n - 1)


def numbers(n):
    yield from range(n)


def generates(n):
    total = 0
    for number in numbers(n):
        total += number
    return total


twice = lambda x: 2 * x  # noqa: E731


def by_lambda(n):
    for i in range(n):
        twice(i)


class Thing:
    def method(self):
        return self

    def many(self, n):
        for _ in range(n):
            self.method()


def in_c(n):
    items = []
    for _ in range(n):
        items.append(n)


def in_thread(n):
    for _ in range(n):
        by_thread()


def by_thread():
    pass


#: Calls of each function in a step, without the one of `step`.
STEP = {
    "calls": 1,
    "tiny": 300,
    "recursive": 210,
    "generates": 5,
    "numbers": 5 * 41,
    "by_lambda": 5,
    "<lambda>": 250,
    "many": 5,
    "method": 250,
    "in_c": 5,
}


#: Rounds between two looks at the clock. Linux ends a thread's turn on a CPU where that asks for its CPU time, so a
#: thread on a busy machine would mostly wait there.
ROUNDS = 50


def step(thing):
    calls(300)
    for _ in range(10):
        recursive(20)
    for _ in range(5):
        generates(40)
        by_lambda(50)
        thing.many(50)
        in_c(50)


def other(until, counted):
    while time.process_time() < until:
        for _ in range(ROUNDS):
            in_thread(1000)
            counted.append(1000)


def main():
    until, counted, steps = time.process_time() + float(sys.argv[1]), [], 0
    thread = threading.Thread(target=other, args=(until, counted), name="other")
    thread.start()
    thing = Thing()
    while time.process_time() < until:
        for _ in range(ROUNDS):
            step(thing)
            steps += 1
    thread.join()
    made = {name: count * steps for name, count in STEP.items()}
    made.update({"step": steps, "by_thread": sum(counted), "in_thread": len(counted)})
    print(json.dumps(made))


if __name__ == "__main__":
    main()
