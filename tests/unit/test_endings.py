"""How processes ended: over all combinations of what is known, no state and no time is said that is not known."""

from __future__ import annotations

import errno
import itertools
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profkit.capture import endings
from profkit.capture.agent import reserve
from profkit.capture.agent.reserve import Reserve
from profkit.capture.endings import Ending, LeftEnd, ending
from profkit.capture.record_types import Launch, Record
from profkit.model import Notice, Process
from profkit.report.safety import Masker
from tests import records

#: The record was read at second 10, with 4 CPU seconds; the process had ended by second 16, with 9.
AT, ENDED, NOW = 10.0, 16.0, 20.0

LEFT = (None, LeftEnd("h", 7, "exited", errno.ENOSPC, 12.0, 5.5), LeftEnd("h", 7, "replaced", 0, 12.0, 5.5))

RECORDS = {
    (state, cpu): records.record(state=state, perf=AT, cpu_s=cpu)
    for state in ("snapshot", "exited", "replaced")
    for cpu in (4.0, None)
}

#: What may be known of the end, and its possible values.
KNOWN: dict[str, tuple[Any, ...]] = {
    "alive": (True, False, None),
    "status": (0, 3, -9, None),
    "ended_s": (ENDED, None),
    "cpu_s": (9.0, None),
    "left": LEFT,
    "replaced_s": (13.0, None),
}
EVERY = [
    (record, SimpleNamespace(**dict(zip(KNOWN, values, strict=True))))
    for record in RECORDS.values()
    for values in itertools.product(*KNOWN.values())
]


def test_nothing_is_said_that_is_not_known() -> None:
    for record, known in EVERY:
        found = ending(record, NOW, **vars(known))
        case = f"{record.state} {record.cpu_s} {known}"
        said = (record.state, known.left and known.left.state)
        assert {
            "killed": known.status is not None and known.status < 0,
            "exited": "exited" in said or (known.status or 0) >= 0,
            "running": known.alive is True,
            "ended": known.alive is False,
            "unknown": known.alive is None,
            "replaced": "replaced" in said or known.replaced_s is not None,
        }[found.state], case
        # Complete: there is nothing after the record. Else the time after it is that up to something that was seen.
        assert found.complete == (record.state != "snapshot" and found.state != "killed"), case
        if found.lost_s is not None:
            ends = {ENDED: known.ended_s, 12.0: known.left and 12.0, 13.0: known.replaced_s, NOW: known.alive}
            assert ends.get(AT + found.lost_s), case
        if found.lost_cpu_s is not None:
            assert record.cpu_s is not None, case
            assert found.lost_cpu_s in (5.0, 1.5), case
            assert found.lost_s is not None, case
        assert not found.error or known.left is not None, case


def of(record: str = "snapshot", **known: Any) -> Ending:
    return ending(RECORDS[record, 4.0], NOW, **known)


def test_what_the_launcher_knows_of_its_target() -> None:
    killed = of(status=-9, ended_s=ENDED, cpu_s=9.0)
    assert killed == Ending("killed", False, 6.0, 5.0, -9)
    assert killed.signal == "SIGKILL"
    assert of(status=-99, ended_s=ENDED).signal == "signal 99"
    assert of(status=3, ended_s=ENDED, cpu_s=9.0) == Ending("exited", False, 6.0, 5.0, 3)
    # The record says that it ended by itself; the wait status, that a signal ended it on the way out.
    assert of("exited", status=-11, ended_s=ENDED) == Ending("killed", False, 6.0, None, -11)
    assert of("exited", status=3, ended_s=ENDED) == Ending("exited", True, status=3)
    # The wait status is that of the program which took its place.
    assert of("replaced", status=-9, ended_s=ENDED) == Ending("replaced", True)
    assert of(status=-9, ended_s=ENDED, replaced_s=13.0) == Ending("replaced", False, 3.0)
    assert of(alive=True, cpu_s=9.0) == Ending("running", False, 10.0, 5.0)


def test_a_target_that_failed_to_write_and_says_so() -> None:
    error = os.strerror(errno.ENOSPC)
    assert of(left=LEFT[1], alive=False, ended_s=ENDED) == Ending("exited", False, 2.0, 1.5, error=error)
    assert of(left=LEFT[1], status=0, ended_s=ENDED) == Ending("exited", False, 6.0, None, 0, error)
    assert of(left=LEFT[2], status=-9, ended_s=ENDED) == Ending("replaced", False, 2.0, 1.5)


def record(pid: int, begin: float, end: float, state: str = "snapshot", **fields: Any) -> Record:
    times = {"begin_perf": float(begin), "perf": float(end), "cpu_s": 1.0}
    return records.record(pid=pid, host="h", state=state, **times, **fields)


def seen(pid: int, gone: float = 0.0, *, ns_pid: int = 0) -> dict[str, Any]:
    """A process of 4 CPU seconds, half a second of which threads ran that had ended."""
    threads = records.thread(1, 2.0), records.thread(2, 1.5), {**records.thread(3, 0.0), "run_ns": -1}
    ends = {"gone_ns": int(gone * 1e9), "alive": not gone, "cpu_s": 3.0, "folded": [1, 500_000_000, 0]}
    return records.seen(pid, *threads, ns_pid=ns_pid or pid, **ends)


LAUNCH = records.launch(
    launcher={"boot": "boot", "host": "h", "pid": 1, "born": 1},
    target={"pid": 10, "ended_ns": 16_000_000_000},
    exit_status=137,
    killed=True,
)


def of_records(
    *found: Record,
    launch: Launch = LAUNCH,
    processes: tuple[dict[str, Any], ...] = (),
    left: tuple[LeftEnd, ...] = (),
    alive: bool | None = False,
) -> list[Ending]:
    seen = records.sampled(*processes).by_process
    return endings.of_records(found, [alive] * len(found), launch, seen, left, NOW)


def test_a_wait_status_is_the_targets_alone() -> None:
    target, child = of_records(record(10, 0, 10), record(11, 0, 10), processes=(seen(10, 17), seen(11, 12)))
    assert target == Ending("killed", False, 6.0, 3.0, -9)
    assert child == Ending("ended", False, 2.0, 3.0)
    (elsewhere,) = of_records(record(10, 0, 10, boot="other"), alive=None)
    assert elsewhere == Ending("unknown", False)
    (later,) = of_records(record(10, 17, 18))  # another process got the number of the target
    assert later == Ending("ended", False)
    (unfinished,) = of_records(record(10, 0, 10), launch=records.launch())
    assert unfinished == Ending("ended", False)


def test_a_target_in_a_namespace_of_its_own_is_found_by_its_number_there() -> None:
    (target,) = of_records(record(1, 0, 10), processes=(seen(10, ns_pid=1),))
    assert target.state == "killed"


def test_an_image_without_a_last_record_was_replaced_by_the_next() -> None:
    first, second = of_records(record(11, 0, 10), record(11, 11.5, 15, "exited"))
    assert (first, second) == (Ending("replaced", False, 1.5), Ending("exited", True))


def test_seen_to_end_by_the_sampler_of_another_day() -> None:
    """A spool that is merged on another machine: whether a process runs there is not known, what was seen is."""
    watched = seen(11, 12), seen(12)
    gone, other = of_records(record(11, 0, 10), record(12, 0, 10), processes=watched, alive=None)
    assert (gone.state, gone.lost_s) == ("ended", 2.0)
    assert (other.state, other.lost_s) == ("unknown", None)


def test_what_an_agent_left_belongs_to_the_image_that_ran_then() -> None:
    images = [record(11, 0, 5, "replaced"), record(11, 6, 10), record(11, 14, 15, "exited")]
    found = of_records(*images, left=(LeftEnd("h", 11, "exited", errno.EFBIG, 12.0, 2.5),))
    assert found[1] == Ending("exited", False, 2.0, 1.5, error=os.strerror(errno.EFBIG))
    assert (found[0], found[2]) == (Ending("replaced", True), Ending("exited", True))
    # A record that was written after all is newer than what was left.
    (recovered,) = of_records(record(11, 6, 13), left=(LeftEnd("h", 11, "exited", errno.EFBIG, 12.0, 2.5),))
    assert recovered.state == "ended"


def test_a_report_shows_how_a_process_ended() -> None:
    """It is not masked: neither the state nor the signal nor the system's error."""
    masker = Masker()
    for state in {ending(record, NOW, **vars(known)).state for record, known in EVERY}:
        assert masker.value(Process(exit=state)).exit == state
    for number in signal.Signals:
        killed = Ending("killed", False, status=-number)
        assert masker.value(Notice("killed-by-signal", killed.signal)).subject == number.name
    for error in ("ENOSPC", "EFBIG", "EDQUOT", "EACCES", "EMFILE", "ENOENT", "EROFS"):
        text = endings.error_text(getattr(errno, error))
        assert masker.value(Notice("last-record-failed", text)).subject == text


def test_words_that_an_agent_left(tmp_path: Path) -> None:
    base = str(tmp_path / "host-with-dash-12-99")
    error = OSError(errno.ENOSPC, "full")
    reserve.leave_end(base, "replaced", error, 1.5, 0.25)
    reserve.leave_end(base, "exited", error, 2.5, 0.5)
    expected = LeftEnd("host-with-dash", 12, "exited", errno.ENOSPC, 2.5, 0.5)
    assert endings.left_ends(tmp_path) == [expected]
    damaged = ("exited 1 2", "gone 28 1.0 1.0", "exited x 1.0 1.0", "exited 28 nan 1.0", "exited 28 1.0 -1")
    for number, words in enumerate((*damaged, "/etc/passwd")):
        os.symlink(words, tmp_path / f"h-{number}-1.end")
    os.symlink("exited 28 1.0 1.0", tmp_path / "no number.end")
    (tmp_path / "h-9-9.end").write_text("exited 28 1.0 1.0")
    assert endings.left_ends(tmp_path) == [expected]


def test_a_process_that_began_and_left_nothing(tmp_path: Path) -> None:
    for name in ("h-1-5", "h-2-5", "h-3-5", "odd"):
        (tmp_path / f"{name}.reserve").touch()
    reserve.leave_end(str(tmp_path / "h-2-5"), "exited", OSError(errno.EFBIG, ""), 1.0, 1.0)
    os.symlink("nonsense", tmp_path / "h-3-5.end")
    found = endings.unrecorded(tmp_path, {"h-1-5"})
    assert found == [(2, os.strerror(errno.EFBIG)), (3, "")]


class TestReserve:
    """The file that an agent keeps open."""

    @pytest.fixture
    def kept(self, tmp_path: Path) -> Reserve:
        kept = Reserve()
        kept.open(str(tmp_path / "p"))
        return kept

    def test_it_is_written_again_and_again(self, kept: Reserve, tmp_path: Path) -> None:
        assert (tmp_path / "p.reserve").read_bytes() == b""
        denied = PermissionError(errno.EACCES, "denied")
        assert kept.write((b"a long", b" record"), denied)
        assert kept.write((b"short",), denied)
        assert (tmp_path / "p.reserve").read_bytes() == b"short"
        assert not kept.write((b"x",), OSError(errno.ENOSPC, "full"))
        kept.close()
        assert not kept.write((b"x",), denied)
        assert (tmp_path / "p.reserve").read_bytes() == b"short"

    def test_a_number_that_the_target_has_taken_is_left_alone(self, kept: Reserve, tmp_path: Path) -> None:
        number = kept.descriptor
        with open(tmp_path / "own", "wb") as own:
            os.dup2(own.fileno(), number)
            try:
                assert not kept.write((b"x",), PermissionError(errno.EACCES, "denied"))
                kept.close()
                os.fstat(number)
            finally:
                os.close(number)
        assert (tmp_path / "own").read_bytes() == b""

    def test_a_directory_that_was_removed_is_not_filled(self, kept: Reserve, tmp_path: Path) -> None:
        number = kept.descriptor
        (tmp_path / "p.reserve").unlink()
        assert not kept.write((b"x",), FileNotFoundError(errno.ENOENT, "gone"))
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)
