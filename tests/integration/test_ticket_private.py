"""What leaves the machine in a ticket and in an export, of a real program below a directory that is no home."""

from __future__ import annotations

import io
import json
import pstats
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.capturing import environment, in_process, profkit_command

#: Starts a shell and a pool, imports from beside the project, and has a thread and a process with names of their own.
PROGRAM = """
import argparse, multiprocessing, subprocess, sys, threading
sys.path.insert(0, sys.argv[1])
import toolbox

def square(n):
    return toolbox.squares(n)

def main():
    options = argparse.ArgumentParser()
    options.add_argument("shared")
    options.add_argument("--customer")
    options.add_argument("--data")
    options.add_argument("--size", type=int)
    given = options.parse_args()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(square, [given.size] * 4)
    thread = threading.Thread(target=square, args=(given.size,))
    thread.start()
    thread.join()
    subprocess.run(["sh", "-c", "exec sh task.sh " + given.customer], check=True)

if __name__ == "__main__":
    main()
"""
#: Of directories, arguments and files that were not profiled; the last are common words, and a place all the same.
CUSTOMER, DATA, SHARED, PROJECT = "zebedeecorp", "harvest-q3", "orcabase", ("quagga", "project", "train")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Capture the program twice in its directory, started by relative and by absolute paths."""
    top = tmp_path_factory.mktemp("top")
    project = top.joinpath(*PROJECT)
    project.mkdir(parents=True)
    shared = top / SHARED
    shared.mkdir()
    (shared / "toolbox.py").write_text("def squares(n):\n    return sum(i * i for i in range(n))\n")
    (project / "train.py").write_text(PROGRAM)
    (project / "task.sh").write_text("exit 0\n")
    for name, program, size in (("a", "train.py", 20_000), ("b", str(project / "train.py"), 80_000)):
        words = ["--customer", CUSTOMER, "--data", f"{project}/data/{DATA}.csv", "--size", str(size)]
        command = profkit_command(
            "capture", "--exact", "-o", f"{name}.prof", "--", sys.executable, program, str(shared), *words
        )
        subprocess.run(command, cwd=project, env=environment(), check=True, timeout=60)
    return project


def profkit(*words: str, cwd: Path) -> None:
    in_process(cwd, *words)


def contents(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """A file, and what is in it if it is an archive."""
    yield name, data
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            for member in packed.namelist():
                yield f"{name}/{member}", b""
                yield from contents(f"{name}/{member}", packed.read(member))


def leaks(files: dict[str, bytes], project: Path) -> dict[str, list[str]]:
    """Which private texts are in which file, or in its name."""
    private = [
        *(CUSTOMER, DATA, SHARED),
        PROJECT[0],
        str(project),
        "/".join(PROJECT[1:]),
        project.parents[2].name,
    ]
    found: dict[str, list[str]] = {}
    for file, data in files.items():
        for name, content in contents(file, data):
            # Markup may stand between the letters of a path.
            text = content.replace(b"<wbr>", b"").replace(b"<span></span>", b"") + name.encode()
            for secret in private:
                if secret.encode() in text:
                    found.setdefault(secret, []).append(name)
    return found


@pytest.mark.parametrize("command", ["diff", "show"])
def test_a_ticket_names_no_place_and_no_value(command: str, runs: Path, tmp_path: Path) -> None:
    files = ["a.prof", "b.prof"] if command == "diff" else ["b.prof"]
    for option, leaking in (("", False), ("--full-paths", True)):
        pasted = tmp_path / f"ticket{option}.md"
        profkit(command, *files, "--ticket", "-o", str(pasted), *[option] * bool(option), cwd=runs)
        archive = pasted.with_suffix(".zip")
        found = leaks({path.name: path.read_bytes() for path in (pasted, archive)}, runs)
        # What is looked for is there without the mask: the test can fail.
        assert bool(found) == leaking, found
        if leaking:
            assert set(found) >= {CUSTOMER, SHARED, PROJECT[0], str(runs)}
    with zipfile.ZipFile(tmp_path / "ticket.zip") as packed:
        packed.extractall(tmp_path)
    inside = tmp_path / "ticket" / ("run.prof" if command == "show" else "candidate.prof")
    with zipfile.ZipFile(inside) as packed:
        manifest = json.loads(packed.read("manifest.json"))
    assert manifest["cwd"] == "<project>"
    assert manifest["command"][1] == "<project>/train.py"


@pytest.mark.parametrize("to", ["perfetto", "speedscope", "pstats"])
def test_an_export_is_masked_as_a_report_is(to: str, runs: Path, tmp_path: Path) -> None:
    masked, full = tmp_path / "masked", tmp_path / "full"
    profkit("export", "b.prof", "--to", to, "-o", str(masked), cwd=runs)
    profkit("export", "b.prof", "--to", to, "-o", str(full), "--full-paths", cwd=runs)
    assert leaks({"masked": masked.read_bytes()}, runs) == {}
    assert leaks({"full": full.read_bytes()}, runs)
    if to == "pstats":
        files = {file for file, _, _ in pstats.Stats(str(masked)).stats}  # type: ignore[attr-defined]
        assert "<project>/train.py" in files
        # All processes: what the pool's workers did is in it.
        called = {name: row[1] for (_, _, name), row in pstats.Stats(str(masked)).stats.items()}  # type: ignore[attr-defined]
        assert called["squares"] == 5
