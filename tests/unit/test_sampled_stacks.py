"""Stacks of py-spy as threads with functions, and how often py-spy may read."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from profkit.capture import pyspy
from profkit.capture.sampled_stacks import Stack, Stacks, joined, lost_share, read_stacks, threads_of
from tests.builders import times_of

OUTER, MIDDLE, LEAF = ("/p.py", 1, "<module>"), ("/p.py", 5, "middle"), ("/p.py", 9, "leaf")


def sampled(*stacks: Stack, failed: int = 0) -> Stacks:
    return Stacks({"7": ("MainThread", stacks)}, len(stacks), failed)


def test_samples_are_divided_over_the_time_that_was_looked_at() -> None:
    """Four rounds in 8 s, whatever rate was asked for; the second thread was there in one of them."""
    whole = (OUTER, MIDDLE, LEAF)
    threads = {"7": ("MainThread", [whole, whole, (OUTER,), whole]), "9": ("other", [(MIDDLE,)])}
    stacks = Stacks(threads, 4, failed=1)
    main, other = threads_of(stacks, 8.0, {"7": 70})
    assert (main.tid, main.name, other.tid) == (70, "MainThread", None)
    assert times_of(main.profile) == {"<module>": (2.0, 8.0), "middle": (0.0, 6.0), "leaf": (6.0, 6.0)}
    assert times_of(other.profile) == {"middle": (2.0, 2.0)}


TORN: dict[str, Stack] = {
    "leaf alone": (LEAF,),
    "no outermost": (MIDDLE, LEAF),
    "empty": (),
    "unprintable": (OUTER, ("/p.py", 5, "mid\x00dle")),
    "negative line": (OUTER, ("/p.py", (1 << 32) - 3, "middle")),
    "no name": (OUTER, ("/p.py", 3, "")),
}


@pytest.mark.parametrize("torn", TORN.values(), ids=TORN)
def test_a_torn_stack_is_no_function_and_its_time_is_that_of_the_others(torn: Stack) -> None:
    stacks = sampled(*[(OUTER, MIDDLE, LEAF)] * 9, torn)
    (thread,) = threads_of(stacks, 9.0, {})
    assert times_of(thread.profile) == {"<module>": (0.0, 9.0), "middle": (0.0, 9.0), "leaf": (9.0, 9.0)}
    assert lost_share(stacks) == pytest.approx(0.1)


def test_what_is_no_torn_stack() -> None:
    """Recursion, a thread of C that calls several functions of Python, and one that is in none of them."""
    recursive = sampled(*[(MIDDLE, MIDDLE, MIDDLE)] * 3, (MIDDLE,))
    callbacks = sampled(*[(OUTER,)] * 5, (MIDDLE, LEAF), (MIDDLE,))
    idle = sampled((), (), (), (LEAF,))
    for stacks in (recursive, callbacks, idle):
        assert lost_share(stacks) == 0.0
    (thread,) = threads_of(callbacks, 7.0, {})
    assert times_of(thread.profile)["middle"] == (1.0, 2.0)
    (thread,) = threads_of(idle, 4.0, {})
    assert times_of(thread.profile) == {"leaf": (1.0, 1.0)}


def test_failures_count_as_lost_and_times_are_joined() -> None:
    one, two = sampled((OUTER,), (OUTER,), failed=1), sampled((OUTER, LEAF), failed=3)
    both = joined([one, two])
    assert (both.rounds, both.failed) == (3, 4)
    assert lost_share(both) == pytest.approx(4 / 7)
    (thread,) = threads_of(both, 6.0, {})
    assert times_of(thread.profile) == {"<module>": (4.0, 6.0), "leaf": (2.0, 2.0)}
    assert lost_share(Stacks({}, 0)) == 0.0


def written(path: Path, *names: str) -> Path:
    frames = [{"name": "main", "file": "/p.py", "line": 3, "col": None}]
    profiles = [{"name": name, "samples": [[0], [0]], "weights": [0.01, 0.01]} for name in names]
    path.write_text(json.dumps({"shared": {"frames": frames}, "profiles": profiles}))
    return path


def test_files_of_py_spy_are_read(tmp_path: Path) -> None:
    path = written(tmp_path / "stacks.json", 'Thread 12 "a "b""', 'Thread 0x7FEB375F5B80 "c"')
    stacks = read_stacks(path, 5)
    assert stacks.threads["12"] == ('a "b"', [(("/p.py", 3, "main"),)] * 2)
    assert stacks.threads["0x7FEB375F5B80"][0] == "c"
    assert (stacks.rounds, stacks.failed) == (2, 5)
    with pytest.raises(ValueError, match="a profile is called"):
        read_stacks(written(path, "py-spy"))
    endless = '{"shared": {"frames": [{"file": "a.py", "line": Infinity, "name": "f"}]}, "profiles": []}'
    for text in ("{", "[" * 5000, endless):
        path.write_text(text)
        with pytest.raises(ValueError, match="not py-spy's"):
            read_stacks(path)


def sampling_by(directory: Path, script: str) -> pyspy.Sampling:
    command = directory / "py-spy"
    command.write_text(script)
    command.chmod(0o755)
    return pyspy.Sampling(str(command), directory, 20.0)


def look_until(sampling: pyspy.Sampling, happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        sampling.look({1})
        time.sleep(0.02)


def planned_rate(directory: Path, *pids: int) -> int:
    """How often these are to be read at first, by a py-spy that does nothing."""
    sampling = sampling_by(directory, "#!/bin/sh\nexit 1\n")
    sampling.look(pids)
    sampling.finish()
    return sampling.rate_hz


def test_more_threads_are_read_less_often(tmp_path: Path) -> None:
    """At most as often as the budget allows, and never less than once a second, which is py-spy's least."""
    few = planned_rate(tmp_path, 1)
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(40)]
    for thread in threads:
        thread.start()
    try:
        many = planned_rate(tmp_path, os.getpid())
        twice = planned_rate(tmp_path, os.getpid(), 1)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert 1 <= twice <= many < few <= 100


#: Takes all of a CPU, and writes one sample when it is asked to end.
GREEDY = """#!{python}
import json, os, signal, sys
ended = []
signal.signal(signal.SIGINT, lambda *_: ended.append(1))
words = sys.argv[1:]
assert "--nonblocking" in words
with open({starts!r}, "a") as file:
    print(words[words.index("--rate") + 1], file=file)
while not ended:
    pass
frames = [{{"name": "main", "file": "/p.py", "line": 3}}]
profiles = [{{"name": 'Thread %s "MainThread"' % words[words.index("--pid") + 1], "samples": [[0]]}}]
with open(words[words.index("--output") + 1], "w") as file:
    json.dump({{"shared": {{"frames": frames}}, "profiles": profiles}}, file)
print("py-spy> Wrote speedscope file to 'x'. Samples: 1 Errors: 2")
"""


def test_a_py_spy_that_takes_too_much_pauses(tmp_path: Path) -> None:
    """It has used more than the budget of the whole time, so it is not started again."""
    starts = tmp_path / "starts"
    sampling = sampling_by(tmp_path, GREEDY.format(python=sys.executable, starts=str(starts)))
    look_until(sampling, (tmp_path / "stacks-1-0.json").exists)
    for _ in range(20):
        sampling.look({1})
        time.sleep(0.05)
    found = sampling.finish()
    assert len(starts.read_text().split()) == 1
    assert found.share > pyspy.SHARE
    assert found.lost == {1: pytest.approx(2 / 3)}
    assert [thread.tid for thread in found.threads[1]] == [1]
    assert not found.problems


def test_what_py_spy_says_is_kept(tmp_path: Path) -> None:
    script = "#!/bin/sh\necho 'Error: Failed to find a Python'\necho 'Reason: none'\nexit 1\n"
    sampling = sampling_by(tmp_path, script)
    look_until(sampling, lambda: len(list(tmp_path.glob("*.log"))) >= 3)  # it is tried again
    found = sampling.finish()
    assert (found.threads, found.rate_hz) == ({}, 0.0)
    assert found.problems == {"Failed to find a Python": [1]}
