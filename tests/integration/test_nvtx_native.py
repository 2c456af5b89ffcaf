"""The NVTX collector driven by a C program: what it leaves behind, whatever becomes of the process.

Collector and client (`tests/native`) are compiled here, once as they are installed and once under
AddressSanitizer and UBSan.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from profkit.formats.nvtx_log import NvtxLog, read_nvtx_log
from profkit.model.ranges import MARK, OPEN, PUSHED, STARTED
from tests.integration.capturing import on_a_small_disk
from tests.integration.tracing import SANITIZED, compiler, sanitizer
from tests.requirements import require
from tests.shared import finished, made_once, succeeded

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "profkit" / "capture" / "native" / "nvtx").glob("*.c"))
CLIENT = ROOT / "tests" / "native" / "nvtx_client.c"
STRICT = ("-std=c11", "-g", "-Wall", "-Wextra", "-Werror")


class Built:
    """Collector and client, compiled one way."""

    def __init__(self, *flags: str) -> None:
        words = [compiler(), *STRICT, *flags]

        def compiled(directory: Path) -> None:
            shared = ("-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,nodelete", "-pthread")
            succeeded([*words, *shared, *SOURCES, "-o", directory / "collector.so"])
            succeeded([*words, CLIENT, "-o", directory / "client", "-pthread", "-ldl"])

        directory = made_once((*words, CLIENT), compiled)
        self.library, self.client = directory / "collector.so", directory / "client"

    def run(
        self,
        spool: Path,
        *words: str,
        under: tuple[str, ...] = (),
        code: int = 0,
        before: Callable[[], None] | None = None,
        **variables: str,
    ) -> str:
        spool.mkdir(exist_ok=True)
        own = {"PROFKIT_SPOOL": str(spool), "NVTX_INJECTION64_PATH": str(self.library)}
        environment = os.environ | own | variables
        done = finished(
            [*under, str(self.client), *words], env=environment, timeout=120, preexec_fn=before, status=code
        )
        return done.stdout


@pytest.fixture(scope="module")
def plain() -> Built:
    return Built("-O2")


@pytest.fixture(scope="module")
def sanitized() -> Built:
    sanitizer()
    return Built(*SANITIZED)


def logs(spool: Path) -> list[NvtxLog]:
    return [read_nvtx_log(path) for path in sorted(spool.glob("*.nvtx"))]


def only(spool: Path) -> NvtxLog:
    (log,) = logs(spool)
    return log


def names(log: NvtxLog) -> list[str]:
    return [log.ranges.strings[i] for i in log.ranges.name]


def test_every_kind_of_call(plain: Built, tmp_path: Path) -> None:
    plain.run(tmp_path / "s", "every-kind")
    log = only(tmp_path / "s")
    ranges = log.ranges
    strings = ranges.strings
    assert names(log) == [
        *("outer", "\u5185\U0001f600", "epoch", "first", "epoch", "here", "there", "epoch", "", ""),
        *("never popped", "never ended"),
    ]
    assert ranges.kind.tolist() == [
        *(PUSHED, PUSHED, PUSHED, STARTED, STARTED, MARK, MARK, MARK, PUSHED, MARK),
        *(PUSHED, STARTED),
    ]
    in_library = [i for i, d in enumerate(ranges.domain) if strings[d] == "my library"]
    assert in_library == [2, 4, 7]
    assert {strings[ranges.category[i]] for i in in_library} == {"storing"}
    assert set(ranges.color[in_library].tolist()) == {0xFF112233}
    assert ranges.payload_type[in_library].tolist() == [5, 5, 3]
    assert ranges.payload[[2, 4]].view("<i4")[::2].tolist() == [-5, -5]
    assert ranges.payload[[7]].view("<f8").tolist() == [0.25]
    assert np.flatnonzero(ranges.end_ns == OPEN).tolist() == [10, 11]
    assert ranges.parent.tolist() == [-1, 0, 1, *[-1] * 9]
    assert ranges.unmatched == 3, "popped in two domains without a push, and ended twice"
    assert set(log.texts.threads.values()) == {"the main one"}
    assert log.texts.command[1:] == ("every-kind",)
    assert set(ranges.thread.tolist()) == {log.pid}
    assert log.warnings == ()
    assert abs(ranges.realtime_ns / 1e9 - os.stat(tmp_path / "s").st_mtime) < 60


def test_without_an_event_there_are_no_files(plain: Built, tmp_path: Path) -> None:
    plain.run(tmp_path / "s", "nothing")
    assert list((tmp_path / "s").iterdir()) == []


def test_a_thousand_short_threads(plain: Built, tmp_path: Path) -> None:
    plain.run(tmp_path / "s", "threads", "1000")
    log = only(tmp_path / "s")
    assert sorted(names(log)) == sorted(f"thread {i}" for i in range(1000) for _ in range(3))
    assert (log.ranges.unmatched, log.ranges.lost) == (0, 0)
    assert log.ranges.ended.all()
    (path,) = (tmp_path / "s").glob("*.nvtx")
    assert path.stat().st_size < 1 << 20, "threads go on in the chunks of those that ended"


@pytest.mark.parametrize(("scenario", "code", "last"), [
    ("kill", -signal.SIGKILL, "killed in it"),
    ("segfault", -signal.SIGSEGV, "crashed in it"),
])  # fmt: skip
def test_nothing_is_lost_when_the_process_dies(
    plain: Built, tmp_path: Path, scenario: str, code: int, last: str
) -> None:
    plain.run(tmp_path / "s", scenario, "20000", code=code)
    log = only(tmp_path / "s")
    assert names(log) == ["range"] * 20000 + [last]
    assert np.flatnonzero(~log.ranges.ended).tolist() == [20000]
    assert log.warnings == ()


def test_forks_beside_busy_threads(plain: Built, tmp_path: Path) -> None:
    plain.run(tmp_path / "s", "forks", "10")
    parent, *children = sorted(logs(tmp_path / "s"), key=lambda log: log.fork_parent != 0)
    assert len(children) == 10
    assert {child.fork_parent for child in children} == {parent.pid}
    ours = [name for name in names(parent) if not name.startswith("beside")]
    assert ours == ["open across the fork", "started in the parent"]
    assert parent.ranges.unmatched == 0
    said = sorted(tuple(names(child)) for child in children)
    assert said == sorted(("registered before the fork", *[f"thread {i}"] * 3) for i in range(10))
    for child in children:
        assert child.ranges.ended.all()
        assert child.ranges.unmatched == 1, "the child popped what the parent had pushed"


@pytest.mark.parametrize(
    ("each", "heard"),
    # Pushed first, started first, left by its thread, in a forked child, in its parent.
    [("0", "be be blbe bebe be"), ("1", "bbebee bbee bbe bebe be")],
)
def test_which_watched_ranges_are_reported(plain: Built, tmp_path: Path, each: str, heard: str) -> None:
    assert plain.run(tmp_path / "s", "watched", each).split() == heard.split()


def test_different_names_are_limited_and_fold(plain: Built, tmp_path: Path) -> None:
    plain.run(tmp_path / "s", "unique", "70000")
    log = only(tmp_path / "s")
    found = names(log)
    assert found[:2] == ["step 0 of run", "step 1 of run"]
    assert found[-1] == "step {n} of run"
    assert len(set(found)) == (1 << 16) + 1
    assert log.ranges.folded == 70000 - (1 << 16)


def test_the_limit_on_a_process_is_kept_and_losses_are_counted(plain: Built, tmp_path: Path) -> None:
    plain.run(tmp_path / "s", "ranges", "10000", PROFKIT_NVTX_BYTES="100000")
    log = only(tmp_path / "s")
    (path,) = (tmp_path / "s").glob("*.nvtx")
    assert path.stat().st_size <= 100000
    assert 0 < len(log.ranges) < 10000
    assert log.ranges.lost == 20000 - 2 * len(log.ranges) + int((~log.ranges.ended).sum())


def test_a_limit_on_file_sizes_is_no_death_sentence(plain: Built, tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (90000, resource.RLIM_INFINITY))

    plain.run(tmp_path / "s", "ranges", "10000", before=limit)
    assert only(tmp_path / "s").ranges.lost > 0


def test_a_full_disk(plain: Built, tmp_path: Path) -> None:
    disk, mounted = on_a_small_disk(tmp_path, "300k")
    # Copied by the shell, since the disk is gone with its mount namespace.
    words = [*mounted, f"{plain.client} ranges 20000; cp {disk}/* {tmp_path}"]
    environment = {**os.environ, "PROFKIT_SPOOL": str(disk), "NVTX_INJECTION64_PATH": str(plain.library)}
    succeeded(words, env=environment)
    log = only(tmp_path)
    assert len(log.ranges) > 100
    assert log.ranges.lost == 40000 - 2 * len(log.ranges) + int((~log.ranges.ended).sum())


def test_a_program_that_closes_all_descriptors(plain: Built, tmp_path: Path) -> None:
    plain.run(tmp_path / "s", "descriptors", "5000")
    assert names(only(tmp_path / "s")) == ["before", *(f"after {i}" for i in range(5000))]


def test_a_spool_that_is_gone_does_not_hurt(plain: Built, tmp_path: Path) -> None:
    plain.run(tmp_path / "s", "ranges", "1000", PROFKIT_SPOOL=str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("every-kind",),
        ("threads", "200"),
        ("forks", "4"),
        ("unique", "70000"),
        ("descriptors", "2000"),
        ("watched",),
    ],
)
def test_under_the_sanitizers(sanitized: Built, tmp_path: Path, words: tuple[str, ...]) -> None:
    sanitized.run(tmp_path / "s", *words)
    assert logs(tmp_path / "s")


@pytest.mark.parametrize("words", [("every-kind",), ("threads", "40")])
def test_under_valgrind(plain: Built, tmp_path: Path, words: tuple[str, ...]) -> None:
    valgrind = shutil.which("valgrind")
    require("valgrind", valgrind is not None, "no valgrind")
    options = ("--error-exitcode=7", "--leak-check=full", "--errors-for-leak-kinds=definite")
    plain.run(tmp_path / "s", *words, under=(str(valgrind), "-q", *options))
    assert logs(tmp_path / "s")
