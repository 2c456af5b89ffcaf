"""The spool directory from the launcher's side: its removal beside a writer, and facts that outlive a full disk."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from profkit.capture import gathered
from profkit.capture import spool as spool_module
from profkit.capture.launcher import capture
from profkit.capture.packer import pack_spool
from profkit.capture.spool import remove_spool, reserve_facts, write_facts
from profkit.formats import load_run
from tests.records import record_bytes


def test_a_directory_is_removed_while_a_process_writes_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process outlives the target, and its record comes between the listing and the removal."""
    spool = tmp_path / ".run.prof.spool-abc"
    spool.mkdir()
    (spool / "host-1-1.record").touch()
    remove, tried = os.rmdir, []

    def write_first(*args: object, **kwargs: object) -> None:
        try:
            (spool / "host-1-1.record").touch()
        except FileNotFoundError as error:
            tried.append(error)
        remove(*args, **kwargs)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", write_first)
        remove_spool(spool)
    assert tried
    assert list(tmp_path.iterdir()) == []


def test_the_last_facts_are_written_where_there_is_no_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts: dict[str, object] = {"command": ["x"], "wall_s": None}
    ended = {**facts, "wall_s": 1.5}

    def written() -> tuple[object, list[str]]:
        return json.loads((tmp_path / "launch.json").read_text()), os.listdir(tmp_path)

    write_facts(tmp_path, facts)
    reserve_facts(tmp_path, facts)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(spool_module, "replacing", full)
        with pytest.raises(OSError, match="No space"):
            write_facts(tmp_path, ended)
        with pytest.raises(OSError, match="No space"):
            write_facts(tmp_path, {**ended, "git": "x" * 100_000}, last=True)
        assert written()[0] == facts
        write_facts(tmp_path, ended, last=True)
    assert written() == (ended, ["launch.json"])
    # The space is given back where it was not needed.
    reserve_facts(tmp_path, facts)
    write_facts(tmp_path, {"wall_s": 2.0}, last=True)
    assert written() == ({"wall_s": 2.0}, ["launch.json"])


#: Says what a process keeps in the spool directory while it runs, and calls a function.
LOOKS = """
import os, sys

def work():
    return 1

work()
spool = next(value for value in os.environ.values() if ".spool-" in value)
with open(sys.argv[1], "w") as file:
    file.write(" ".join(os.listdir(spool)))
os.kill(os.getpid(), 9)
"""


def test_processes_keep_files_on_a_local_disk_beside_a_network_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store to a mapped file would wait for the server; what a killed process stored is read all the same."""
    shared, local = tmp_path / "shared", tmp_path / "local"
    shared.mkdir()
    local.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(local))
    monkeypatch.setattr(spool_module, "_is_on_network", lambda directory: directory.is_relative_to(shared))
    monkeypatch.setenv("PYTHONPATH", "")
    (tmp_path / "looks.py").write_text(LOOKS)
    output = shared / "run.prof"
    status = capture([sys.executable, str(tmp_path / "looks.py"), str(tmp_path / "names")], output)
    assert status == -signal.SIGKILL
    names = (tmp_path / "names").read_text().split()
    kept = {name for name in names if not name.endswith((".sampled", ".local"))}
    assert kept == {"launch.json", "launch.reserve"}
    profile = load_run(output).processes[0].threads[0].profile
    assert "work" in {profile.strings[name] for name in profile.name}
    assert [*shared.iterdir(), *local.iterdir()] == [output]


def test_a_torn_entry_of_an_ended_process_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher may be killed, or the disk full, in the middle of an entry."""
    monkeypatch.setattr(gathered, "FEWEST", 1)
    for pid in (10, 11, 12):
        (tmp_path / f"host-{pid}-1.record").write_bytes(record_bytes(pid=pid, state="exited"))
    (tmp_path / "host-13-1.record").write_bytes(record_bytes(pid=13, state="snapshot"))
    gatherer = gathered.Gatherer(tmp_path)
    try:
        assert gatherer.gather(tmp_path) == 3
    finally:
        gatherer.stop()
    assert [path.name for path in tmp_path.glob("*.record")] == ["host-13-1.record"]
    whole = (tmp_path / gathered.GATHERED_NAME).read_bytes()
    (tmp_path / gathered.GATHERED_NAME).write_bytes(whole[:-1])
    write_facts(tmp_path, {"command": ["program"], "cwd": "/work", "started": "2026-01-01T00:00:00+00:00"})
    assert sorted(process.pid for process in pack_spool(tmp_path).processes if process.pid) == [10, 11, 13]
