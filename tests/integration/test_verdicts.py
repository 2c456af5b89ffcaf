"""Verdicts on real programs under conditions that were judged wrong once: captured or profiled, and compared."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import profkit
from profkit.formats.load import load_side
from profkit.verdict.diagnosis import diagnose as diff
from profkit.verdict.types import Diff
from tests.integration.capturing import ended, environment, in_process, run_capture, script, started
from tests.requirements import require
from tests.shared import succeeded

#: A loop of images: a step loads one, blurs it by sharpening it a few times, and measures it.
IMAGES = """
import sys
def sharpen(image):
    return [(a + 3 * b) % 251 for a, b in zip(image, image[1:] + image[:1])]
def blur(image):
    for _ in range({turns}):
        image = sharpen(image)
    return image
def load(step):
    return [(i * step) % 251 for i in range(2000)]
def measure(image):
    return sum(a * a for a in image)
def main(steps):
    total = 0
    for step in range(steps):
        total += measure(blur(load(step)))
    return total
print(main(int(sys.argv[1])))
"""


def capture(
    directory: Path,
    source: str,
    *words: str,
    before: tuple[str, ...] = (),
    options: tuple[str, ...] = (),
) -> Path:
    """Capture a program of this source, in a directory of its own as another checkout would be."""
    directory.mkdir()
    (directory / "program.py").write_text(source)
    run_capture(directory, *before, sys.executable, "program.py", *words, options=options)
    return directory / "run.prof"


def compared(a: Path, b: Path) -> Diff:
    return diff(load_side(a), load_side(b))


def largest(found: Diff) -> str:
    """The bucket that holds most of the time that the program added: capture and a busy machine may add more."""
    of_program = [bucket for bucket in found.account.buckets if bucket.name not in ("capture", "queue")]
    return max(of_program, key=lambda bucket: bucket.seconds).name


def assert_adds_up(found: Diff) -> None:
    assert sum(bucket.seconds for bucket in found.account.buckets) == pytest.approx(
        found.account.added_s, abs=1e-9 * found.account.candidate_s
    )


@pytest.mark.alone
def test_a_loop_added_in_blur_is_a_change_of_blur(tmp_path: Path) -> None:
    baseline = capture(tmp_path / "before", IMAGES.format(turns=2), "150")
    looped = capture(tmp_path / "after", IMAGES.format(turns=8), "150")
    found = compared(baseline, looped)
    assert (found.verdict.cause, found.verdict.rule) == ("code-change", "changed-source")
    assert found.verdict.subject == "blur"
    (origin,) = (piece for piece in found.verdict.evidence if piece.signal == "origin")
    assert (origin.subject, origin.baseline, origin.candidate) == ("sharpen", 2.0, 8.0)
    assert origin.numbers == {"caller": "blur", "calls": 150}
    assert_adds_up(found)
    assert largest(found) == "code"


@pytest.mark.alone
def test_twice_the_steps_is_more_work_that_starts_in_main(tmp_path: Path) -> None:
    baseline = capture(tmp_path / "before", IMAGES.format(turns=4), "400")
    doubled = capture(tmp_path / "after", IMAGES.format(turns=4), "800")
    found = compared(baseline, doubled)
    assert (found.verdict.cause, found.verdict.rule) == ("workload-change", "call-counts")
    assert found.verdict.subject == "main"
    # Of functions by their time: on a busy machine those that start the program have more of it.
    assert found.verdict.numbers["calls.factor"] == pytest.approx(2.0, rel=0.2)
    assert_adds_up(found)
    assert largest(found) == "work"
    assert found.account.seconds("code") == pytest.approx(0.0, abs=0.02)


#: An option chooses what blurs: `smooth` or `sharpen`.
CHOSEN = (
    IMAGES.format(turns=8)
    .replace("image = sharpen(image)", "image = (sharpen if int(sys.argv[2]) else smooth)(image)")
    .replace("def sharpen", "def smooth(image):\n    return image[1:] + image[:1]\n\ndef sharpen")
)


@pytest.mark.alone
def test_a_function_that_an_option_chose_is_different_work(tmp_path: Path) -> None:
    """Its definition stands on both sides, so that nothing was changed."""
    baseline = capture(tmp_path / "before", CHOSEN, "100", "0")
    candidate = capture(tmp_path / "after", CHOSEN, "100", "1")
    found = compared(baseline, candidate)
    assert (found.verdict.cause, found.verdict.rule) == ("workload-change", "other-function")
    assert found.verdict.subject == "sharpen"
    assert_adds_up(found)


#: The same, chosen between functions that are defined in another one: no list of definitions has them.
NESTED = CHOSEN.replace(
    "(sharpen if", "((lambda image: [pixel for _ in range(12) for pixel in image][:len(image)]) if"
)


@pytest.mark.alone
@pytest.mark.parametrize("program", [CHOSEN, NESTED])
def test_samples_show_a_function_that_an_option_chose(tmp_path: Path, program: str) -> None:
    baseline = capture(tmp_path / "before", program, "800", "0", options=("--sampled",))
    candidate = capture(tmp_path / "after", program, "800", "1", options=("--sampled",))
    found = compared(baseline, candidate)
    # On a busy machine it may be contention.
    assert (found.verdict.cause, found.verdict.rule) in (
        ("workload-change", "other-function"),
        ("contention", "run-queue-wait"),
    )


@pytest.mark.alone
@pytest.mark.skipif(shutil.which("taskset") is None, reason="needs taskset")
def test_beside_the_same_busy_neighbour_the_change_is_named(tmp_path: Path) -> None:
    """Both runs share a CPU with a process that never rests: the queueing grew with the candidate's own work."""
    pinned = ("taskset", "-c", str(min(os.sched_getaffinity(0))))
    hog = subprocess.Popen([*pinned, sys.executable, "-c", "while True: pass"])
    try:
        baseline = capture(tmp_path / "before", IMAGES.format(turns=2), "600", before=pinned)
        changed = capture(tmp_path / "changed", IMAGES.format(turns=8), "600", before=pinned)
        longer = capture(tmp_path / "longer", IMAGES.format(turns=2), "1800", before=pinned)
    finally:
        hog.kill()
        hog.wait()
    found = compared(baseline, changed)
    assert found.baseline.run_queue_wait_s > 0.5 * found.baseline.cpu_s  # the neighbour was there
    assert (found.verdict.cause, found.verdict.subject) == ("code-change", "blur")
    # A second neighbour, of the machine, may take some more.
    assert found.account.seconds("code") > 0.5 * found.account.seconds("queue")
    found = compared(baseline, longer)
    assert (found.verdict.cause, found.verdict.subject) == ("workload-change", "main")
    assert found.account.seconds("work") > 0.5 * found.account.seconds("queue")


#: A pool whose parent polls for its results, and computes as much in each run.
POLLING = """
import multiprocessing, sys, time
def compute():
    return sum(i * i % 7 for i in range(60_000))
def collect(results, how):
    for result in results:
        if how == "sleep":
            while not result.ready():
                time.sleep(0.0005)
        else:
            while not result.ready():
                result.wait(0.0005)
        compute()
if __name__ == "__main__":
    how, seconds = sys.argv[1], float(sys.argv[2])
    with multiprocessing.get_context("fork").Pool(2) as pool:
        collect([pool.apply_async(time.sleep, (seconds,)) for _ in range(20)], how)
"""


@pytest.mark.alone
@pytest.mark.parametrize("how", ["sleep", "wait"])
def test_plain_profiles_of_a_pool_that_polls_longer_show_no_more_work(tmp_path: Path, how: str) -> None:
    (tmp_path / "pool.py").write_text(POLLING)
    for name, seconds in (("quick", "0.005"), ("slow", "0.25")):
        words = [sys.executable, "-m", "cProfile", "-o", f"{name}.prof", "pool.py", how, seconds]
        succeeded(words, tmp_path, env=environment(), timeout=60)
    found = compared(tmp_path / "quick.prof", tmp_path / "slow.prof")
    calls = {
        name: (found.table.baseline.ncalls[row], found.table.candidate.ncalls[row])
        for row, name in enumerate(found.table.name)
        if "sleep" in name or "acquire" in name
    }
    assert any(after > 2 * before for before, after in calls.values()), calls  # it did poll more often
    assert found.verdict.cause not in ("workload-change", "code-change", "slower-machine")
    assert_adds_up(found)
    # 20 jobs on two workers wait for 2.4 s longer; the same is computed beside.
    assert (
        found.account.seconds("blocked") + found.account.seconds("loading") > 0.5 * found.account.added_s > 0
    )
    for bucket in ("work", "code"):
        assert abs(found.account.seconds(bucket)) < 0.2 * found.account.added_s


@pytest.mark.parametrize("ranked", [True, False])
def test_merged_files_that_were_bound_may_use_all_their_cpus(ranked: bool, tmp_path: Path) -> None:
    """Two captures, each on a CPU of its own, with and without a launcher that names their ranks."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    require("cpus", len(cpus) == 2, "only one CPU may be used here")
    work = script(tmp_path, "import time\nwhile time.process_time() < 0.5: sum(range(1000))\n")
    captured = []
    for rank, cpu in enumerate(cpus):
        job = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2"} if ranked else {}
        words = ("capture", "-o", f"run{cpu}.prof", "--", sys.executable, work)
        before = ("taskset", "-c", str(cpu))
        captured.append(started(tmp_path, *words, before=before, env=environment(**job)))
    for process in captured:
        ended(process)
    in_process(tmp_path, "merge", *(file.name for file in tmp_path.glob("*.prof")), "-o", "job.prof")
    found = profkit.read(tmp_path / "job.prof")
    assert found.whole.manifest.host.affinity_cpus == tuple(cpus)
    assert sorted(process.host.affinity_cpus for process in found.whole.processes) == [(cpu,) for cpu in cpus]
    shown = json.loads(found.report("json"))
    assert shown["inventory"]["available_cpus"] == 2.0
    assert "share 1 CPU:" not in found.report("terminal")
    assert found.verdict is None or found.verdict.kind != "self-oversubscription"


EXECUTORS = """
import sys
from concurrent.futures import ProcessPoolExecutor
def work(k): return sum(i * k % 7 for i in range(20000))
def main():
    each, total = int(sys.argv[1]), 0
    for first in range(0, 120, each):
        with ProcessPoolExecutor(2) as pool: total += sum(pool.map(work, range(first, first + each)))
    print(total)
if __name__ == "__main__": main()
"""


@pytest.mark.alone
def test_an_executor_for_every_two_tasks_is_start_up(tmp_path: Path) -> None:
    one, many = (capture(tmp_path / each, EXECUTORS, each) for each in ("120", "2"))
    found = compared(one, many)
    assert (found.verdict.cause, found.verdict.rule) == ("start-up", "process-starts")
    assert_adds_up(found)
    # Most of it is neither in functions of the program nor in the main process.
    assert 0.5 * found.account.program_s < found.account.starts_s


#: Workers, or threads, that write what they computed one after the other, or at once.
TURNS = """
import multiprocessing, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
def work(number):
    total = sum(number * k % 11 for k in range(5_000))
    if one_at_a_time:
        with lock:
            time.sleep(0.008)
    else:
        time.sleep(0.008)
    return total
def begin(taken, how):
    global lock, one_at_a_time
    lock, one_at_a_time = taken, how == "lock"
if __name__ == "__main__":
    who, how = sys.argv[1:]
    if who == "processes":
        with multiprocessing.get_context("fork").Pool(6, begin, (multiprocessing.Lock(), how)) as pool:
            pool.map(work, range(240), chunksize=5)
    else:
        begin(threading.Lock(), how)
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(240)))
"""


@pytest.mark.alone
@pytest.mark.parametrize("who", ["processes", "threads"])
def test_workers_that_take_turns_wait_for_each_other(tmp_path: Path, who: str) -> None:
    # On a busy machine, looks see less of the waiting.
    for number in range(3):
        at_once, in_turn = (
            capture(tmp_path / f"{how}-{number}", TURNS, who, how) for how in ("free", "lock")
        )
        found = compared(at_once, in_turn)
        if found.verdict.rule == "own-locks":
            break
    assert (found.verdict.cause, found.verdict.rule) == ("blocked", "own-locks")
    assert found.verdict.subject == "work"
    assert_adds_up(found)
