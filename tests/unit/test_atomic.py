"""Files are replaced completely or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from profkit.formats.atomic import replacing


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A file that others may not read."""
    path = tmp_path / "run.prof"
    path.write_bytes(b"old")
    path.chmod(0o640)
    return path


def test_readers_see_the_old_content_until_the_end(target: Path) -> None:
    with replacing(target) as file:
        file.write(b"new")
        file.flush()
        assert target.read_bytes() == b"old"
        (temporary,) = set(target.parent.iterdir()) - {target}
        assert temporary.name.startswith(".run.prof.")
        assert mode_of(temporary) == 0o640, "nobody may read the new content who could not read the old"
    assert target.read_bytes() == b"new"
    assert mode_of(target) == 0o640
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError, OSError])
def test_a_failure_leaves_the_old_file_alone(target: Path, error: type[BaseException]) -> None:
    def write() -> None:
        with replacing(target) as file:
            file.write(b"half of")
            raise error

    with pytest.raises(error):
        write()
    assert target.read_bytes() == b"old"
    assert list(target.parent.iterdir()) == [target]


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    was = os.umask(0o027)
    try:
        with replacing(tmp_path / "new") as file:
            file.write(b"new")
    finally:
        os.umask(was)
    assert mode_of(tmp_path / "new") == 0o640


def test_links_are_followed(target: Path) -> None:
    link = target.with_name("link")
    link.symlink_to(target.name)
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_only_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(OSError, match=r"(?i)a directory|not a regular file"), replacing(path):
            pytest.fail("it was opened")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert len(list(tmp_path.iterdir())) == 1


def test_the_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "none" / "run.prof"
    with pytest.raises(FileNotFoundError) as caught, replacing(path):
        pytest.fail("it was opened")
    assert caught.value.filename == str(path)


@pytest.mark.parametrize(("durable", "synced"), [(True, {"file", "directory"}), (False, set())])
def test_what_is_durable_is_on_the_disk(
    target: Path, durable: bool, synced: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()

    def fsync(handle: int) -> None:
        found = os.fstat(handle)
        seen.add("directory" if stat.S_ISDIR(found.st_mode) else "file")
        assert stat.S_ISDIR(found.st_mode) or found.st_size == 3, "all is written before"

    monkeypatch.setattr(os, "fsync", fsync)
    with replacing(target, durable=durable) as file:
        file.write(b"new")
    assert seen == synced
