"""All calls are traced while that costs little; else stacks are sampled. The program does what it does without."""

from __future__ import annotations

import ctypes
import json
import math
import platform
import struct
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from profkit.model import Process, Run, Thread
from tests.integration.capturing import (
    PROGRAMS,
    calls,
    captured,
    codes,
    column,
    environment,
    in_process,
    names,
    run_capture,
    script,
)
from tests.integration.tracing import NEW, OLD
from tests.interpreters import BOTH_WAYS, interpreter
from tests.requirements import require
from tests.shared import succeeded

HOT = str(PROGRAMS / "hot.py")
SECONDS = "1.5"
#: Captures of which one must have bursts of events, or enough samples: on a busy machine they may find no CPU.
TRIES = 3

#: Every call that a function of hot.py makes to another one of it.
EDGES = {
    ("<module>", "main"),
    ("main", "step"),
    ("step", "calls"),
    ("calls", "tiny"),
    ("step", "recursive"),
    ("recursive", "recursive"),
    ("step", "generates"),
    ("generates", "numbers"),
    ("step", "by_lambda"),
    ("by_lambda", "<lambda>"),
    ("step", "many"),
    ("many", "method"),
    ("step", "in_c"),
    ("run", "other"),
    ("other", "in_thread"),
    ("in_thread", "by_thread"),
}
#: What makes a class, which a sampled stack may not have.
CLASS = {("<module>", "Thing"), ("<built-in method builtins.__build_class__>", "Thing")}
#: What runs once, before 3.12: a sample may meet it.
ONCE = {("main", "<dictcomp>")}


def kinds(process: Process) -> list[str]:
    return [tier.kind for tier in process.tiers]


def edges_of(thread: Thread, file: str) -> set[tuple[str, str]]:
    """Callers and callees of the functions of a file."""
    profile, edges, found = thread.profile, thread.profile.edges, names(thread.profile)
    return {
        (found[caller], found[callee])
        for caller, callee in zip(edges.caller.tolist(), edges.callee.tolist(), strict=True)
        if profile.strings[profile.file[callee]].endswith(file)
    }


def intervals(process: Process, file: str) -> dict[str, tuple[float, float]]:
    """Least and most calls of each function of a file, by the only thread that made any."""
    found = {}
    for thread in process.threads:
        profile = thread.profile
        low, high = profile.calls_low, profile.calls_high
        for row, name in enumerate(names(profile)):
            if profile.strings[profile.file[row]].endswith(file):
                exact = float(profile.ncalls[row])
                found[name] = (
                    exact if low is None else float(low[row]),
                    exact if high is None else float(high[row]),
                )
    return found


def samples(process: Process) -> int:
    found = (thread.profile.samples for thread in process.threads)
    return sum(int(column.sum()) for column in found if column is not None)


@pytest.mark.alone
@pytest.mark.parametrize("version", OLD + NEW)
def test_what_costs_too_much_to_trace_is_sampled(tmp_path: Path, version: str) -> None:
    for _ in range(TRIES):
        done = run_capture(tmp_path, interpreter(version), HOT, SECONDS, options=("--overhead", "5%"))
        truth, main = json.loads(done.stdout), done.run.processes[0]
        stated = intervals(main, "hot.py")
        right = [
            name for name in truth if name in stated and stated[name][0] <= truth[name] <= stated[name][1]
        ]
        if len(right) > 0.5 * len(truth) and any(math.isfinite(high) for _, high in stated.values()):
            break
    assert kinds(main)[0] == "exact"
    assert kinds(main)[-1] == "sampled"
    assert main.effect.low_s <= main.effect.seconds <= main.effect.high_s

    # Functions and calls are those of the program, and no others.
    thread, other = (next(t for t in main.threads if t.name == name) for name in ("MainThread", "other"))
    found = edges_of(thread, "hot.py") | edges_of(other, "hot.py")
    assert found - CLASS - ONCE == EDGES

    # Time is whole.
    for one in (thread, other):
        whole = one.profile.tottime.sum() + (one.tracer_s or 0.0)
        assert 0.75 * float(SECONDS) <= whole <= 1.05 * (main.wall_s or 0.0)
        assert (one.profile.cumtime <= 1.05 * (main.wall_s or 0.0)).all()

    # The truth is in most of what is stated, in one of the captures: few bursts find a CPU on a busy machine, and
    # one that met a slow moment moves all functions alike.
    assert set(truth) <= set(stated)
    assert len(right) > 0.5 * len(truth), {name: (stated[name], truth[name]) for name in truth}


#: The body of a loop is in nearly every sample, and the program is inside it when tracing ends. The program takes a
#: hundred times as long as the interpreter's end.
BODY = """
def cheap(): pass
def body(times):
    for _ in range(times): cheap()
def main():
    for _ in range(5): body(10)
    for _ in range(100): body(400_000)
main()
"""


def test_the_body_of_a_loop_is_not_called_once_because_each_sample_has_it(
    tmp_path: Path, both_ways: str
) -> None:
    words = both_ways, script(tmp_path, BODY)
    for _ in range(TRIES):
        main = captured(tmp_path, *words, options=("--overhead", "5%")).processes[0]
        assert kinds(main)[-1] == "sampled"
        stated = intervals(main, "program.py")
        assert stated["body"][0] <= 105 <= stated["body"][1]
        if stated["main"] == (1, 1):
            break
    assert stated["main"] == (1, 1)


SHORT_TURNS = """
import ctypes, os, struct, sys, time
libc, number = ctypes.CDLL(None), {"x86_64": 315, "aarch64": 275}[os.uname().machine]
def turn(thread):
    found = ctypes.create_string_buffer(48)
    done = libc.syscall(number, thread, found, 48, 0)
    return struct.unpack("IIQiIQQQ", found.raw)[5] if done == 0 else 0
def work():
    until = time.process_time() + 0.3
    while time.process_time() < until: sum(range(1000))
work()
print(*[turn(int(thread)) for thread in sorted(os.listdir("/proc/self/task"), key=int)])
"""


def test_looks_interrupt_the_thread_wherever_it_is(tmp_path: Path) -> None:
    """With turns of equal length on a CPU they find it where the kernel lets turns end: in certain system calls."""
    done = run_capture(tmp_path, sys.executable, script(tmp_path, SHORT_TURNS), options=("--sampled",))
    main, *others = map(int, done.stdout.split())
    require("short-turns", main > 0, "this kernel has no lengths of turns (Linux 6.12)")
    assert others.count(100_000) == 1 < len(others)


#: Number of the system call `process_vm_readv`.
READV = {"x86_64": 310, "aarch64": 270}
_C = ctypes.CDLL(None, use_errno=True)


def refuse_reading_memory() -> None:
    """Have the system refuse `process_vm_readv` to this process and its children, as a container may."""
    load, equal, give_back = 0x20, 0x15, 0x06
    allowed, refused = 0x7FFF0000, 0x00050001  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO with EPERM
    steps = [
        (load, 0, 0, 0),
        (equal, 0, 1, READV[platform.machine()]),
        (give_back, 0, 0, refused),
        (give_back, 0, 0, allowed),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    new_privileges, filtered = (38, 1, 0, 0, 0), (22, 2, program)
    for words in (new_privileges, filtered):
        if _C.prctl(*words):
            raise OSError(ctypes.get_errno(), "prctl")


def test_a_container_that_refuses_to_read_memory(tmp_path: Path, each_way: str) -> None:
    """Where CPUs are contended for, a dozen samples or two say of a capture how long it was in ``step``."""
    options = {"options": ("--sampled",), "preexec_fn": refuse_reading_memory}
    seconds = 0.6
    in_step = []
    while len(in_step) < TRIES and max(in_step, default=0.0) < 0.5 * seconds:
        run = captured(tmp_path, each_way, HOT, str(seconds), **options)
        main = run.processes[0]
        assert kinds(main)[-1] == "sampled"
        assert "no-samples" not in codes(run)
        assert edges_of(main.threads[0], "hot.py") - CLASS - ONCE <= EDGES
        in_step.append(column(main, "step", "cumtime"))
    assert max(in_step) >= 0.5 * seconds, in_step


TIERED = environment(PYTHONPATH=str(PROGRAMS))


def capture_of(directory: Path, python: str, text: str, *words: str) -> Run:
    """Capture a program, which may import `tier`, with the usual budget."""
    command = (python, script(directory, text), *words)
    return captured(directory, *command, options=("--overhead", "5%"), env=TIERED)


def test_a_thread_that_waits_while_the_tier_changes_waits_from_then_on(
    tmp_path: Path, both_ways: str
) -> None:
    main = capture_of(
        tmp_path,
        both_ways,
        "import threading, tier\n"
        "def work():\n"
        "    tier.until_sampled()\n"
        "    tier.samples_for(0.5)\n"
        "thread = threading.Thread(target=work)\n"
        "thread.start()\n"
        "thread.join()\n",
    ).processes[0]
    assert kinds(main)[:2] == ["exact", "sampled"]
    total = {thread.name: thread.profile.total for thread in main.threads}
    (worked,) = (total[name] for name in total if name.startswith("Thread-1"))
    assert total["MainThread"] > 0.9 * worked


@pytest.mark.parametrize("version", BOTH_WAYS)
def test_a_program_that_calls_little_later_is_traced_again(tmp_path: Path, version: str) -> None:
    main = capture_of(
        tmp_path,
        interpreter(version),
        "import tier\n"
        "def before(): pass\n"
        "def after(): pass\n"
        "before()\n"
        "tier.until_sampled()\n"
        "tier.until_exact()\n"
        "for _ in range(10): after()\n",
    ).processes[0]
    assert kinds(main)[:3] == ["exact", "sampled", "exact"]
    times = [tier.begin_s for tier in main.tiers]
    assert all(one < other for one, other in pairwise(times))
    found, stated = calls(main), intervals(main, "program.py")
    assert (found["before"], found["after"]) == (1, 10)
    assert stated["after"][0] <= 10 <= stated["after"][1]
    assert found["until_sampled"] == found["until_exact"] == 1
    if version in NEW:  # it began in one tier, where it was counted, and ended in the other
        assert intervals(main, "tier.py")["until_exact"] == (1, 1)


#: Calls of C code that keep the GIL for long, so that the tracer waits for it while it changes the tier.
LONG_CALLS = """
def tiny(i): return i
def calls(n):
    for i in range(n): tiny(i)
calls(150_000)
for _ in range(20):
    sum(range(4_000_000))
    calls(2_000)
"""


def test_no_time_is_lost_while_the_tier_changes(tmp_path: Path, each_way: str) -> None:
    name = script(tmp_path, LONG_CALLS)
    for options in ((), ("--sampled",)):
        main = captured(tmp_path, each_way, name, options=options).processes[0].threads[0]
        measured = main.profile.tottime - main.profile.wait - main.profile.blocked
        assert float(measured.sum()) >= 0.85 * main.run_s, options


SELDOM = """
import sys, threading, tier
if len(sys.argv) > 1: sys.monitoring.use_tool_id(sys.monitoring.OPTIMIZER_ID, "own")
def seldom(): pass
def in_c(x): return x
def recursive(n): return n and recursive(n - 1)
def raises(): raise ValueError
def in_thread(): pass
def generates(): yield 1
def turns_hot(): pass
seldom()
tier.until_sampled()
for number in range(12):
    tier.hot()
    seldom()
    sorted([2, 1, 3], key=in_c)
    recursive(3)
    list(generates())
    turns_hot()
    try: raises()
    except ValueError: pass
    if number % 4 == 0:
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()
for _ in range(200_000): turns_hot()
"""


@pytest.mark.parametrize(("version", "taken"), [("3.12", False), ("3.15", False), ("3.12", True)])
def test_functions_that_are_called_seldom_stay_exact(tmp_path: Path, version: str, taken: bool) -> None:
    """But where the program itself has the place by which they are counted."""
    main = capture_of(tmp_path, interpreter(version), SELDOM, *(["taken"] if taken else [])).processes[0]
    assert kinds(main) == ["exact", "sampled"]
    stated = intervals(main, "program.py")
    truth = {"seldom": 13, "in_c": 36, "recursive": 48, "raises": 12}
    exact = {name for name, (low, high) in stated.items() if low == high}
    assert not exact & {"generates", "turns_hot"}
    if taken:
        assert not exact & truth.keys()
        return
    assert {name: stated[name] for name in truth} == {name: (n, n) for name, n in truth.items()}
    assert calls(main)["in_thread"] == 3
    profile = main.threads[0].profile
    assert profile.primitive_calls[names(profile).index("recursive")] == 12


IMPORTS = """
import tier
def work(): pass
def first(): pass
first()
tier.until_sampled()
for number in range(8_000):
    source = f"class C{number}:\\n def f{number}(self): pass\\nC{number}().f{number}()"
    exec(compile(source, "/somewhere/site-packages/large/module.py", "exec"))
for _ in range(60): work()
"""


def test_what_imports_call_once_leaves_room_for_the_program(tmp_path: Path) -> None:
    """A large package has thousands of functions, which may not use up what counting may cost."""
    main = capture_of(tmp_path, interpreter("3.12"), IMPORTS).processes[0]
    assert kinds(main)[:2] == ["exact", "sampled"]
    assert intervals(main, "program.py")["work"] == (60, 60)
    once = {name: limits for name, limits in intervals(main, "module.py").items() if name.startswith("f")}
    assert list(once.values()).count((1, 1)) > 100
    assert not [name for name, (low, high) in once.items() if low > 1 or high < 1]  # NaN: not known


LETS_GO_OF_THE_GIL = """
import hashlib
block = bytes(1 << 20)
def behind(x): return x
def elsewhere(x): return x
for _ in range(200):
    hashlib.sha256(block)
    for x in range(3_000): behind(x)
    for x in range(40_000): elsewhere(x)
"""


@pytest.mark.alone
@pytest.mark.parametrize("version", ["3.8", "3.11"])
def test_bursts_come_at_times_that_do_not_depend_on_the_gil(tmp_path: Path, version: str) -> None:
    """A thread that takes the GIL gets it where the program lets go of it, and would see only what follows there."""
    command = (interpreter(version), script(tmp_path, LETS_GO_OF_THE_GIL))
    # In truth, 0.6 and 8 million; few bursts see them, and perhaps none sees the former, or one of them most of it.
    counts = []
    while len(counts) < 4:
        counted = calls(captured(tmp_path, *command, options=("--sampled",)).processes[0])
        counts.append((counted.get("behind", 0), counted["elsewhere"]))
        behind, elsewhere = map(sum, zip(*counts, strict=True))
        if behind < elsewhere:
            break
    assert behind < elsewhere
    assert 200 * 10_000 < elsewhere / len(counts) < 200 * 160_000


#: Both are called at one instruction in turn, several times in a burst.
WRAPPER = """
import time
def call(function, values): return function(values)
def main():
    values, until = range(3_000), time.perf_counter() + 0.7
    while time.perf_counter() < until:
        call(sum, values)
        call(max, values)
main()
"""


def test_what_a_wrapper_calls_in_turn_is_not_guessed(tmp_path: Path, both_ways: str) -> None:
    command = both_ways, script(tmp_path, WRAPPER)
    process = captured(tmp_path, *command, options=("--sampled",)).processes[0]
    own = column(process, "call", "tottime")
    assert own > 0.8 * column(process, "call", "cumtime") > 0.3


SHARES_A_CPU = """
import os, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for _ in range(int(sys.argv[1])):
    if os.fork() == 0: break
until = time.process_time() + 0.25
while time.process_time() < until: sum(range(1_000))
"""


@pytest.mark.alone
def test_looks_come_by_the_cpu_time_that_a_process_gets(tmp_path: Path) -> None:
    """Not by its wall time, which is eight times as long where eight share a CPU: all would take it for looks."""
    program = script(tmp_path, SHARES_A_CPU)

    def looks(others: int) -> float:
        command = interpreter("3.12"), program, str(others)
        return median(map(samples, captured(tmp_path, *command, options=("--sampled",)).processes))

    alone = sum(looks(0) for _ in range(3)) / 3  # one process: between 50 and 115 were seen
    assert 0 < looks(7) < 5 * alone


FORKS = """
import logging, os, tier, time  # logging has a function in Python called after each fork

def leaf(): pass

def child():
    for _ in range(50): leaf()

def grandchild():
    child()
    if not os.fork():
        child()
        os._exit(4)
    assert os.wait()[1] == 4 << 8

def loop():
    for number in range(12):
        tier.samples_for(0.1)
        if not os.fork():
            grandchild()
            os._exit(3)
        assert os.wait()[1] == 3 << 8

tier.until_sampled()
began = time.thread_time()
loop()
open("ran", "w").write(str(time.thread_time() - began))
"""


@pytest.mark.parametrize("version", [*BOTH_WAYS, "3.13"])
def test_forks(tmp_path: Path, version: str) -> None:
    """From Python 3.12 on `os.fork` warns where there are threads: there are none of the tracer's then."""
    command = (interpreter(version), "-W", "error", script(tmp_path, FORKS))
    run = captured(tmp_path, *command, options=("--overhead", "5%"), env=TIERED)
    main, *children = run.processes
    assert len(children) == 24
    for child in children:
        assert child.exit == "exited"
        assert calls(child)["leaf"] == 50
    assert kinds(main)[-1] == "sampled"
    if version in NEW:  # nor is a call that it made between them
        assert intervals(main, "tier.py")["samples_for"] == (12, 12)
    # What the parent did between forks is not lost; most of it may be what tracing took, which is taken out.
    # Where looks come late, they charge it to what runs after `samples_for`, also in `loop`.
    ran = float((tmp_path / "ran").read_text())
    assert column(main, "loop", "cumtime") + (main.threads[0].tracer_s or 0.0) > 0.75 * ran


def test_workers_of_a_pool_are_sampled_as_well(tmp_path: Path, both_ways: str) -> None:
    run = capture_of(
        tmp_path,
        both_ways,
        "import multiprocessing, tier\n"
        "def work(_): tier.until_sampled(); tier.samples_for(0.5)\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "        pool.map(work, range(2), chunksize=1)\n"
        "        pool.close(); pool.join()\n",
    )
    workers = [process for process in run.processes if column(process, "work", "cumtime")]
    assert workers
    for worker in workers:
        assert kinds(worker) == ["exact", "sampled"]
        assert samples(worker) > 0
        assert ("samples_for", "hot") in edges_of(worker.threads[0], "tier.py")


#: How a sampled process may end, and what its run says of that.
ENDS = {
    "os._exit(0)": "exited",
    "os.execv(sys.executable, [sys.executable, '-c', 'pass'])": "replaced",
    "sys.stdout.flush(); os.kill(os.getpid(), 9)": "killed",
}


@pytest.mark.parametrize("end", ENDS)
def test_what_was_sampled_is_there_however_the_process_ends(tmp_path: Path, both_ways: str, end: str) -> None:
    text = (
        "import os, sys, tier, time\n"
        "tier.until_sampled()\n"
        "begun = time.process_time()\n"
        "while time.process_time() - begun < 0.7: tier.samples_for(0.1)\n"
        f"{end}\n"
    )
    command = (both_ways, script(tmp_path, text))
    status = -9 if "kill" in end else 0
    run = captured(tmp_path, *command, options=("--overhead", "5%"), env=TIERED, status=status)
    (main,) = (process for process in run.processes if column(process, "samples_for", "cumtime"))
    assert main.exit == ENDS[end]
    assert kinds(main)[-1] == "sampled"
    # Samples are booked many times a second.
    assert column(main, "samples_for", "cumtime") > 0.2


#: Programs that print the same with and without capture, while they are sampled.
PROGRAMS_ALIKE = {
    "profilers": """
import cProfile, pstats, sys, threading, tier
tier.until_sampled() if len(sys.argv) < 2 else None
for _ in range(30):
    tier.hot()
    own = cProfile.Profile()
    own.enable(); tier.hot(50); own.disable()
    print(sorted((k[2], v[:2]) for k, v in pstats.Stats(own).stats.items() if "tier" in k[0]))
    for hook in (sys.setprofile, sys.settrace):
        seen = []
        hook(lambda frame, event, _: seen.append((event, frame.f_code.co_name)))
        tier.tiny(1)
        hook(None)
        print([event for event in seen if event[1] == "tiny"])
print(sys.getprofile(), sys.gettrace())
""",
    "monitoring": """
import sys, tier
tier.until_sampled() if len(sys.argv) < 2 else None
monitoring = getattr(sys, "monitoring", None)
for tool in range(3) if monitoring else ():
    seen = []
    for _ in range(20):
        monitoring.use_tool_id(tool, "own")
        monitoring.register_callback(tool, monitoring.events.PY_START, lambda code, _: seen.append(code.co_name))
        monitoring.set_events(tool, monitoring.events.PY_START)
        tier.tiny(1)
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, monitoring.events.PY_START, None)
        monitoring.free_tool_id(tool)
        tier.hot()
    print(tool, seen)
""",
    "descriptors": """
import os, sys, tier
tier.until_sampled() if len(sys.argv) < 2 else None
os.closerange(3, 1000)
tier.samples_for(0.4)
print(os.open("/dev/null", os.O_RDONLY))
""",
    "threads": """
import sys, threading, tier
tier.until_sampled() if len(sys.argv) < 2 else None
for many in range(40):
    some = [threading.Thread(target=tier.hot, args=(500 * i,)) for i in range(50 if many == 0 else 5)]
    for thread in some: thread.start()
    for thread in some: thread.join()
print(threading.active_count())
""",
    "deep": """
import sys, threading, tier
sys.setrecursionlimit(30_000)
threading.stack_size(512 << 20)
def down(n): return 0 if n == 0 else 1 + down(n - 1)
def main():
    tier.until_sampled() if len(sys.argv) < 2 else None
    print({down(n) for n in range(0, 6000, 60)} == set(range(0, 6000, 60)))
thread = threading.Thread(target=main)
thread.start(); thread.join()
""",
    "made": """
import gc, sys, tier
tier.until_sampled() if len(sys.argv) < 2 else None
gc.set_threshold(10)
class Cycle:
    def __init__(self): self.self = self
    def __del__(self): down(300)
def down(n): return 0 if n == 0 else 1 + down(n - 1)
total = 0
for number in range(2000):
    names = {}
    text = "def made%d(x):\\n return inner(x)\\ndef inner(x):\\n return [x for _ in range(9)]"
    exec(compile(text % number, "<made>", "exec"), names)
    total += sum(names["made%d" % number](1))
    Cycle()
print(total)
""",
}


@pytest.mark.parametrize("name", PROGRAMS_ALIKE)
def test_a_sampled_program_does_what_it_does_without(tmp_path: Path, both_ways: str, name: str) -> None:
    program = script(tmp_path, PROGRAMS_ALIKE[name])
    env = TIERED | {"PYTHONFAULTHANDLER": "1"}
    plain = succeeded([both_ways, program, "plain"], env=env)
    command = (both_ways, "-W", "error", program)
    done = run_capture(tmp_path, *command, options=("--overhead", "5%", "--quiet"), env=env)
    assert done.stderr == ""
    assert done.stdout == plain.stdout
    assert "sampled" in kinds(done.run.processes[0])


@pytest.mark.parametrize("version", ["3.8", "3.11"])
def test_an_audit_hook_does_not_see_bursts(tmp_path: Path, version: str) -> None:
    """Later the interpreter tells it of each callback that is registered."""
    program = script(
        tmp_path,
        "import sys, tier\n"
        "tier.until_sampled()\n"
        "seen = set()\n"
        "sys.addaudithook(lambda event, _: seen.add(event))\n"
        "tier.samples_for(0.5)\n"
        "print('sys.setprofile' in seen)\n",
    )
    done = run_capture(tmp_path, interpreter(version), program, options=("--overhead", "5%"), env=TIERED)
    assert done.stdout == "False\n", done.stderr


def test_what_the_tracer_takes_is_taken_out_and_stated(tmp_path: Path, both_ways: str) -> None:
    main = captured(tmp_path, both_ways, HOT, "0.3").processes[0]
    assert {thread.name for thread in main.threads}.isdisjoint(("profkit", "profkit-tracer"))
    for thread in (thread for thread in main.threads if len(thread.profile)):
        took = thread.tracer_s or 0.0
        # Some tens of nanoseconds a call, whatever the machine; less than what the process ran.
        assert 5e-9 < took / int(thread.profile.ncalls.sum()) < 5e-6
        assert took < (main.cpu_s or 0.0)
    shown = in_process(Path(), "show", "--full", str(tmp_path / "run.prof"), COLUMNS="200").stdout
    assert "in no function's time" in shown


LEFT = """
import ctypes, threading, time
libc, made, thread = ctypes.CDLL(None), ctypes.pythonapi.PyThreadState_New, ctypes.c_ulong()
find = ctypes.pythonapi.PyInterpreterState_Head
find.restype = ctypes.c_void_p
attributes = ctypes.create_string_buffer(64)
libc.pthread_attr_init(attributes)
libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(100 << 20))
for _ in range(3):
    libc.pthread_create(ctypes.byref(thread), attributes, made, ctypes.c_void_p(find()))
    libc.pthread_join(thread, None)
def other():
    begun = time.thread_time()
    while time.thread_time() - begun < 0.3:
        pass
thread = threading.Thread(target=other)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("version", OLD)
def test_threads_of_a_library_that_left_their_states_hide_no_others(tmp_path: Path, version: str) -> None:
    """Up to Python 3.10 the number of a thread is in its own memory, which is gone with it."""
    run = captured(tmp_path, interpreter(version), "-c", LEFT, options=("--sampled",))
    # Most of them are in the clock that it reads.
    own = ("other", "<built-in method time.thread_time>")
    assert sum(column(run.processes[0], name, "samples") for name in own) > 0
