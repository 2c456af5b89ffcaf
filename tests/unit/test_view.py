"""``profkit view``: a page of this one profile, on this machine only, until the user interrupts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from profkit.formats import write_run
from profkit.model import Process, Run, Thread
from tests import report_builders as build
from tests.requirements import imported
from tests.shared import exit_code, refused

SAMPLE = Path(__file__).parents[2] / "sample_profiles" / "train_mlp" / "oversubscribed.prof"


@contextmanager
def viewing(*arguments: str | Path) -> Iterator[str]:
    """Start the server, give its address, interrupt it, and see how it ended."""
    imported("snakeviz")
    command = [sys.executable, "-m", "profkit", "view", *map(str, arguments), "--no-browser"]
    pipe = subprocess.PIPE
    # A group of its own: the interrupt must not reach the tests.
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as server:
        try:
            said = server.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+/", said)
            assert found, (said, server.communicate()[1])
            yield found.group()
            server.send_signal(signal.SIGINT)
            _, errors = server.communicate(timeout=60)
        except BaseException:
            server.kill()
            raise
    assert server.returncode == 0
    assert "Traceback" not in errors


def fetched(address: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""


def test_the_page_shows_this_profile_and_the_server_nothing_else(tmp_path: Path) -> None:
    before = set(os.listdir(tmp_path))
    with viewing(SAMPLE) as address:
        status, page = fetched(address)
        assert status == 200
        assert "train_mlp.py:144(forward)" in page
        assert "drawsvg.js" in page
        assert fetched(f"{address}static/snakeviz.js")[0] == 200
        # snakeviz's own server would list directories of the machine here.
        assert fetched(f"{address}snakeviz/%2Fetc")[0] == 404
        assert fetched(address, Host="evil.example")[0] == 404
    assert set(os.listdir(tmp_path)) == before


def test_a_process_can_be_chosen(tmp_path: Path) -> None:
    names = {7: "of_the_first", 8: "</script><b>of_the_second"}
    profiles = {pid: build.profile([("a.py", name, 1, 1, 1.0, 1.0)]) for pid, name in names.items()}
    processes = tuple(Process(pid, threads=(Thread(profile),)) for pid, profile in profiles.items())
    write_run(tmp_path / "two.prof", Run("two.prof", processes))
    with viewing(tmp_path / "two.prof", "--process", "pid:8") as address:
        page = fetched(address)[1]
        assert "of_the_second" in page
        assert "of_the_first" not in page
        assert "<b>of_the_second" not in page
    with viewing(tmp_path / "two.prof", "--process", "all") as address:
        assert all(name in fetched(address)[1] for name in ("of_the_first", "of_the_second"))


def test_without_snakeviz_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "snakeviz.stats", None)
    assert exit_code("view", SAMPLE, "--no-browser") == 2
    assert "pip install snakeviz" in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with viewing(SAMPLE) as address:
        port = address.rstrip("/").rpartition(":")[2]
        refused(capsys, "view", SAMPLE, "--process", "main", "--no-browser", "--port", port)
