"""Functions in NVTX ranges that are opened and closed in every order that a program can think of."""

import os
import sys
import threading
import time

import nvtx

#: Numbers that are a part of a word, and those that are not; see names.c.
NAMES = [
    "at 0x7f1c",
    "at 0xZ1",
    "10x1f",
    "conv1d",
    "conv12d",
    "v1.2.3",
    "2.5x",
    "2.5 x",
    "layer3",
    "a1_b",
    "0",
    "x0y 00",
    "1e5",
    "größe 7 µ",
    "7é",
    "plain",
    "{n}",
    "1." * 3,
]


def work(seconds=0.002):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def decorated_body():
    work()


decorated = nvtx.annotate("decorated")(decorated_body)


def nested():
    for i in range(4):
        with nvtx.annotate(f"outer {i}"):
            work()
            with nvtx.annotate("inner"):
                work()
        decorated()


def recursive(depth):
    with nvtx.annotate("walk"):
        work(0.001)
        if depth:
            recursive(depth - 1)


def leaks():
    try:
        nvtx.push_range("leaked")
        raise ValueError
    except ValueError:
        work()


def clears_up():
    work()
    nvtx.pop_range()  # what leaks() left open
    nvtx.pop_range()  # nothing


def domains_cross():
    one, two = nvtx.get_domain("one"), nvtx.get_domain("two")
    one.push_range(one.get_event_attributes("first"))
    two.push_range(two.get_event_attributes("second"))
    work(0.004)
    one.pop_range()
    work(0.008)
    two.pop_range()


def steps():
    for _ in range(3):
        work(0.001)
        yield


def resumes():
    generator = steps()
    for _ in range(4):
        with nvtx.annotate("resume"):
            next(generator, None)
        work(0.001)


def deep():
    for _ in range(100):
        nvtx.push_range("level")
    work()
    for _ in range(100):
        nvtx.pop_range()
    with nvtx.annotate("after the deep"):
        work()


def names():
    for name in NAMES:
        with nvtx.annotate(name, domain="names"):
            pass


def in_a_thread():
    with nvtx.annotate("in a thread"):
        work()


def spanning():
    """A range that two functions open and close."""
    opens()
    work()
    closes()


def opens():
    nvtx.push_range("spanning")


def closes():
    nvtx.pop_range()


def child():
    with nvtx.annotate("in the child"):
        work()


def forks():
    with nvtx.annotate("around a fork"):
        pid = os.fork()
        if not pid:
            nvtx.pop_range()  # the parent's: of no range in this process
            child()
            sys.exit()
        os.waitpid(pid, 0)


nested()
recursive(3)
leaks()
clears_up()
domains_cross()
resumes()
deep()
names()
spanning()
thread = threading.Thread(target=in_a_thread)
thread.start()
thread.join()
forks()
nvtx.push_range("until the end")
work()
