"""Makes the seeds: real profiles, captures, spools and NVTX logs, cut down to a few rows of each kind.

    .venv/bin/python -m fuzz seeds

The sample profiles of the repository are the runs; what they have not (dumps of other Pythons and profilers, the
spool of a killed capture, NVTX logs) is recorded here, with small programs. Names of this machine are replaced.
"""

from __future__ import annotations

import cProfile
import json
import marshal
import os
import profile as pure_profile
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.mutate import TEXTS, packed, unpacked
from fuzz.target import SEEDS
from profkit.capture import mapped_layout
from profkit.capture.mapped_tables import MappedTables
from profkit.capture.thread_tables import RANK_CALLS
from profkit.formats import load_run, write_run
from profkit.formats.baselines import Store
from profkit.model import Paths, Profile, RangeCalls, Ranges, Run, Thread
from profkit.model.columns import column_dtypes

__all__ = ["make"]

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "sample_profiles"

#: Rows that are kept: functions of a thread, ranges of a process, samples, threads of a process, processes of a run.
_FUNCTIONS, _RANGES, _SAMPLES, _THREADS, _PROCESSES = 10, 12, 6, 3, 3

_RUNS = {
    "train-mlp-clean": "train_mlp/clean-1",
    "train-mlp-oversubscribed": "train_mlp/oversubscribed",
    "tokenize-clean": "tokenize_corpus/clean-1",
    "tokenize-code-change": "tokenize_corpus/code-change",
    "tokenize-external-load": "tokenize_corpus/external-load",
    "mpi-clean": "mpi_train/clean-1",
    "mpi-oversubscribed": "mpi_train/oversubscribed",
}

_PROGRAM = """
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def work():
    fib(6)
    sorted([3, 1])
    "a".upper()
if __name__ == "__main__":
    import sys, cProfile
    p = cProfile.Profile()
    p.runcall(work)
    p.dump_stats(sys.argv[1])
"""

#: Writes a profile in which a function is a code object.
_OF_CODE = """
import marshal, sys
code = compile("def f(a):\\n b = a\\n return lambda: (b, 1, 2.5, 'x', None)", "x.py", "exec")
with open(sys.argv[1], "wb") as file:
    marshal.dump({("x.py", 1, "f"): (1, 1, 0.5, 0.5, {}), code: (1, 1, 0.5, 0.5, {})}, file)
"""

#: What is captured for the spool and the NVTX logs: threads, a child, ranges of every kind; it ends the launcher.
_CAPTURED = """
import os, signal, sys, threading, time
import multiprocessing
import nvtx
def leaf(n):
    return sum(range(n))
def step(number):
    with nvtx.annotate("step %d" % number, color="blue", domain="train", category="loop", payload=number):
        leaf(1000)
        with nvtx.annotate("forward"):
            leaf(3000)
def child():
    nvtx.mark("child")
    step(9)
def thread():
    step(5)
if __name__ == "__main__":
    t = threading.Thread(target=thread, name="loader")
    t.start(); t.join()
    for number in range(3):
        step(number)
    domain = nvtx.get_domain("train")
    around = nvtx.start_range("whole", domain="train")
    nvtx.mark("here", payload=1.5, domain="train")
    p = multiprocessing.get_context("fork").Process(target=child)
    p.start(); p.join()
    nvtx.end_range(around)
    nvtx.push_range("left open")
    time.sleep(float(sys.argv[1]))
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(2.5)
"""

#: What is captured whole, its spool kept: waits and lines, processes that end in every way, `cProfile`, steps.
_LIVED = """
import cProfile, os, signal, subprocess, sys, threading, time
def work(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(leaf(number) for number in range(50))
def leaf(number):
    return number * number
def forked(end):
    pid = os.fork()
    if not pid:
        work(0.1)
        end()
        os._exit(3)
    os.waitpid(pid, 0)
if __name__ == "__main__":
    seconds = float(sys.argv[1])
    lock = threading.Lock()
    lock.acquire()
    waiting = threading.Thread(target=lock.acquire, name="waits")
    waiting.start()
    work(seconds)
    time.sleep(0.2)
    lock.release()
    waiting.join()
    if "ends" in sys.argv:
        forked(lambda: os.kill(os.getpid(), signal.SIGKILL))
        forked(lambda: os.execv("/bin/sleep", ["sleep", "0.3"]))
        profiler = cProfile.Profile()
        profiler.enable(); work(0.05); profiler.disable()
    if "library" in sys.argv:
        import numpy
        numpy.ones((200, 200)) @ numpy.ones((200, 200))
        work(0.6)
    if "killed" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    if "ended" in sys.argv:
        import ctypes
        ctypes.CDLL(None)._exit(5)  # of which Python knows nothing
    if "steps" in sys.argv:
        import nvtx
        for _ in range(4):
            with nvtx.annotate("step", domain="train"):
                work(0.1)
"""

#: Captures whose spools are seeds: the launcher's options, the program's words, the environment beside the usual.
_LIVES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], Mapping[str, str]]] = {
    "sampled": (("--sampled",), ("1.2",), {}),
    "ends": (("--exact",), ("0.2", "ends"), {}),
    "library": ((), ("0.3", "library"), {"OMP_NUM_THREADS": "2"}),
    "untraced": ((), ("0.3",), {"PROFKIT_NO_NATIVE": "1"}),
    "counters": (("--counters-only",), ("0.3",), {}),
    "rank": (("--ranks", "1"), ("0.2",), {"RANK": "1", "WORLD_SIZE": "3", "LOCAL_RANK": "1"}),
    "ranks-absent": (("--ranks", "7"), ("0.2",), {"RANK": "1", "WORLD_SIZE": "3"}),
    "killed-target": ((), ("0.2", "killed"), {}),
    "ended-target": ((), ("0.2", "ended"), {}),
    "unwatched": ((), ("0.3",), {"UNWATCHED": "1"}),
    "window-time": (("--delay", "0.2", "--duration", "0.4"), ("0.6",), {}),
    "window-late": (("--delay", "60"), ("0.1",), {}),
    "window-range": (("--capture-range", "step@train", "--cycles", "2"), ("0.1", "steps"), {}),
    "window-absent": (("--capture-range", "none@train"), ("0.1", "steps"), {}),
    "window-steps": (("--active", "2", "--wait", "1", "--step-range", "step@train"), ("0.1", "steps"), {}),
    "window-code": (("--start-paused",), ("0.1",), {}),
}

#: Of which the tables are kept whole: they have few functions.
_WHOLE = ("sampled", "window-range", "window-steps")

#: Captures as the command does, and puts the spool aside instead of removing it.
_KEEPS = """
import os
from profkit.capture import launcher, target
if "UNWATCHED" in os.environ:  # as on another machine of the job: its agents watch it
    target.settings.sampled_mark = lambda boot: "elsewhere.sampled"
launcher.remove_spool = lambda spool: spool.rename("kept")
from profkit.cli import main
main()
"""

#: A block of a program, whose record has its tables in it; its spool is put aside likewise.
_BLOCK = """
import os, shutil, sys, threading, nvtx, profkit
def leaf(number):
    return sorted(range(number))
def thread():
    with nvtx.annotate("inside"):
        leaf(9)
def work():
    started = threading.Thread(target=thread)
    started.start()
    started.join()
    leaf(5)
shutil.rmtree = lambda path, **_: os.path.isdir("kept") or os.rename(path, "kept")
with profkit.capture("block.prof"):
    work()
"""


def make(only: str = "") -> None:
    """Make all seeds, or those of one target."""
    makers = {
        "run_file": _runs,
        "pstats": _dumps,
        "run_json": _documents,
        "nvtx_log": _logs,
        "spool": _spools,
        "records": _records,
        "tables": _tables,
        "baselines": _baselines,
        "paths": _paths,
        "texts": _texts,
        "masking": _masked,
        "reports": _reports,
        "sources": _sources,
    }
    # The same length whatever it is called, and nothing in it that says what it was made for.
    with tempfile.TemporaryDirectory(prefix="home-") as directory:
        for name, maker in makers.items():
            if only not in ("", name):
                continue
            folder = SEEDS / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            total = 0
            for file, data in maker(Path(directory)):
                (folder / file).write_bytes(data)
                total += len(data)
            print(f"{name}: {len(list(folder.iterdir()))} seeds, {total} bytes")


# Runs


def _runs(directory: Path) -> Iterator[tuple[str, bytes]]:
    path = directory / "run.prof"
    for name, sample in _RUNS.items():
        write_run(path, shrunk(load_run(SAMPLES / f"{sample}.prof")))
        yield f"{name}.prof", path.read_bytes()
    with_ranges = _captured(directory)
    write_run(path, shrunk(load_run(with_ranges / "run.prof")))
    yield "threads-and-ranges.prof", neutral(path.read_bytes())
    for name, data in _dumps(directory):
        if name in ("cprofile-3.11.prof", "profile.prof"):
            yield name, data


def shrunk(run: Run) -> Run:
    """Return a run with a few rows of each kind; everything about them is as it was captured."""
    processes = []
    for process in run.processes[:_PROCESSES]:
        samples = process.samples
        if samples is not None:
            samples = type(samples)(
                **{name: getattr(samples, name)[:_SAMPLES] for name in column_dtypes(type(samples))}
            )
        processes.append(
            replace(
                process,
                threads=tuple(_shrunk_thread(thread) for thread in process.threads[:_THREADS]),
                ranges=None if process.ranges is None else _shrunk_ranges(process.ranges),
                samples=samples,
            )
        )
    series = run.series
    if series is not None:
        columns = {name: column[:_SAMPLES] for name, column in series.columns.items()}
        series = replace(series, time_ns=series.time_ns[:_SAMPLES], columns=columns)
    manifest = run.manifest
    if manifest is not None:
        manifest = replace(manifest, packages=dict(list(manifest.packages.items())[:3]))
    return replace(run, processes=tuple(processes), series=series, manifest=manifest)


def _shrunk_thread(thread: Thread) -> Thread:
    profile = thread.profile
    keep = np.sort(np.argsort(-profile.tottime, kind="stable")[:_FUNCTIONS])
    place = np.full(len(profile) + 1, -1, np.int32)
    place[keep] = np.arange(len(keep), dtype=np.int32)
    columns: dict[str, Any] = {name: getattr(profile, name)[keep] for name in column_dtypes(Profile)}
    for name in column_dtypes(Profile, optional=True):
        values = getattr(profile, name)
        columns[name] = None if values is None else values[keep]
    edges = profile.edges
    if edges is not None:
        links = (place[edges.caller] >= 0) & (place[edges.callee] >= 0)
        kept = {name: getattr(edges, name)[links] for name in column_dtypes(type(edges))}
        kept["caller"], kept["callee"] = place[kept["caller"]], place[kept["callee"]]
        edges = type(edges)(**kept)
    strings, columns = _strings(
        profile.strings, columns, ("file", "name", "qualname", "module", "source_hash")
    )
    calls = thread.range_calls
    return replace(
        thread,
        profile=Profile(strings, **columns, edges=edges).validate(),
        open_calls=tuple(
            replace(call, function=int(place[call.function]))
            for call in thread.open_calls
            if place[call.function] >= 0
        ),
        range_calls=None if calls is None else _shrunk_calls(calls, place, len(keep)),
        paths=None if thread.paths is None else _shrunk_paths(thread.paths, place, len(keep)),
    )


def _strings(
    table: tuple[str, ...], columns: Mapping[str, Any], texts: tuple[str, ...]
) -> tuple[tuple[str, ...], dict[str, Any]]:
    used = np.unique(np.concatenate([[0], *(columns[name] for name in texts)]))
    place = np.zeros(len(table), np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)
    moved = {name: place[values] if name in texts else values for name, values in columns.items()}
    return tuple(table[i] for i in used.tolist()), moved


def _shrunk_ranges(ranges: Ranges) -> Ranges:
    columns = {name: getattr(ranges, name)[:_RANGES] for name in column_dtypes(Ranges)}
    columns["parent"] = np.where(columns["parent"] < _RANGES, columns["parent"], -1).astype(np.int32)
    strings, columns = _strings(ranges.strings, columns, ("name", "domain", "category"))
    return replace(ranges, strings=strings, **columns).validate()


def _shrunk_paths(paths: Paths, place: np.ndarray[Any, Any], functions: int) -> Paths:
    columns = {name: getattr(paths, name)[:_RANGES] for name in column_dtypes(Paths)}
    columns["function"] = np.where(
        columns["function"] >= 0, place[np.maximum(columns["function"], 0)], -1
    ).astype(np.int32)
    return Paths(**columns).validate(functions)


def _shrunk_calls(calls: RangeCalls, place: np.ndarray[Any, Any], functions: int) -> RangeCalls:
    contexts = min(_RANGES, len(calls.parent))
    rows = (calls.context < contexts) & (place[calls.function] >= 0)
    columns = {
        name: getattr(calls, name)[:contexts] for name in ("parent", "name", "domain", "opener", "count")
    }
    columns["opener"] = place[columns["opener"]]
    strings, columns = _strings(calls.strings, columns, ("name", "domain"))
    sums = {
        name: getattr(calls, name)[rows]
        for name in ("context", "function", "ncalls", "tottime", "wait", "blocked")
    }
    sums["function"] = place[sums["function"]]
    return RangeCalls(strings=strings, **columns, **sums).validate(functions)


# What has to be recorded


def _captured(directory: Path) -> Path:
    """Return a folder with a run file (``run.prof``) and the spool of a capture that was killed (``spool``)."""
    folder = directory / "captured"
    if folder.exists():
        return folder
    folder.mkdir()
    program = folder / "program.py"
    program.write_text(textwrap.dedent(_CAPTURED), encoding="utf-8")
    capture = [sys.executable, "-m", "profkit", "capture", "-q", "-o"]
    subprocess.run([*capture, "killed.prof", "--", sys.executable, program, "0.3"], cwd=folder, timeout=60)
    time.sleep(3)  # the target ends after its launcher
    (spool,) = folder.glob(".killed.prof.spool-*")
    quiet = program.read_text(encoding="utf-8").replace("os.kill(os.getppid(), signal.SIGKILL)", "sys.exit()")
    program.write_text(quiet, encoding="utf-8")
    subprocess.run(
        [*capture, "run.prof", "--", sys.executable, program, "0"], cwd=folder, timeout=60, check=True
    )
    spool.rename(folder / "spool")
    return folder


def _dumps(directory: Path) -> Iterator[tuple[str, bytes]]:
    program, out = directory / "program.py", directory / "out.prof"
    program.write_text(_PROGRAM, encoding="utf-8")
    from tests.interpreters import find

    for version in ("2.7", "3.8", "3.13"):
        python = find(version)
        if python is not None:
            subprocess.run([python, program.name, out.name], cwd=directory, check=True)
            yield f"cprofile-{version}.prof", neutral(out.read_bytes())
    namespace: dict[str, Any] = {"__name__": "program"}
    exec(compile(_PROGRAM, "/home/user/program.py", "exec"), namespace)
    for name, profiler in (("cprofile-3.11", cProfile.Profile()), ("profile", pure_profile.Profile())):
        profiler.runcall(namespace["work"])
        profiler.dump_stats(out)
        yield f"{name}.prof", neutral(out.read_bytes())
    key = ("/home/user/program.py", 3, "work")
    sampled = {key: (5, 5, 0.5, 0.5, {("~", 0, "x"): 5}), ("__sampled__",): True}
    yield "sampled.prof", marshal.dumps(sampled)
    yield "yappi.prof", marshal.dumps({key: (3, 1, 0.5, 0.75, {key: (2, 2, 0.25, 0.25)})})
    # What other writers leave: numbers as text, long ones, names of any kind, callers without an entry.
    stats = {
        key: (3, 1, 0.5, 0.75, {("caf\xe9.py", 2**20, "f" * 300): (2, 1, 0.25, 0.25), key: (1, 1, 0.1, 0.1)})
    }
    for version in range(3):
        yield f"marshal-{version}.prof", marshal.dumps(stats, version)
    yield "long.prof", marshal.dumps({key: (2**40, 2**40, 1, 2, {})})
    yield "trailing.prof", marshal.dumps(stats) + b"more"
    yield "empty.prof", marshal.dumps({})
    for number, data in enumerate((stats, {key: (3, 1, 0.5)}, {key[:2]: (1, 1, 0.5, 0.5, {})}, [stats])):
        yield f"cut-{number}.prof", marshal.dumps(data)[: -1 if number == 0 else None]
    for version in ("2.7", "3.8", "3.11"):
        python = find(version)
        if python is not None:
            subprocess.run([python, "-c", _OF_CODE, out], check=True)
            yield f"code-{version}.prof", out.read_bytes()


def _documents(directory: Path) -> Iterator[tuple[str, bytes]]:
    for name, data in _runs(directory):
        found = unpacked(data)
        if found is None or not found[1]:
            continue
        for member in ("manifest.json", "processes.json"):
            document = json.loads(found[1][member])
            if isinstance(document, list):
                document = [*document[:1], *document[0]["threads"][:1]]
            yield f"{Path(name).stem}-{member}", json.dumps(document, separators=(",", ":")).encode()
    # Sentences of old files, on some of which results depend.
    sentences = (
        "written by the sampling profiler: calls are samples",
        "process 12: cProfile of Python 3.11 has all threads in one stack",
        "3 processes (7, 8, …) ran several threads under Python 3.11, in one stack",
        "2 processes (7, 8): ended early",
        "cProfile of a Python",
    )
    for number, warnings in enumerate((sentences, [7], "none", [{"code": 1}])):
        yield f"sentences-{number}", json.dumps({"warnings": warnings}).encode()


def _logs(directory: Path) -> Iterator[tuple[str, bytes]]:
    from fuzz.targets.nvtx_log import joined

    for number, path in enumerate(sorted((_captured(directory) / "spool").glob("*.nvtx"))):
        definitions = Path(f"{path}defs").read_bytes()
        yield f"captured-{number}", neutral(joined(path.read_bytes(), definitions))


def _spools(directory: Path) -> Iterator[tuple[str, bytes]]:
    members = _members(_captured(directory) / "spool")
    yield "killed.zip", packed(b"", members)
    yield "without-sampler.zip", packed(b"", {n: d for n, d in members.items() if not n.endswith(".samples")})
    first = next(name for name in members if name.endswith(".record"))
    launch = {name: members[name] for name in ("launch.json", first)}
    yield "one-record.zip", packed(b"", launch)
    for name, spool in _lives(directory):
        members = _members(spool, 9 if name in _WHOLE else 1)
        yield f"{name}.zip", packed(b"", members)
        if name == "ended-target":  # the same where it could write nothing
            stem = next(member for member in members if member.endswith(".reserve")).removesuffix(".reserve")
            rest = {n: d for n, d in members.items() if not n.endswith((".record", ".samples"))}
            yield "full-disk.zip", packed(b"", {**members, f"{stem}.end": b"exited 28 5.5 0.5"})
            yield "nothing-written.zip", packed(b"", {**rest, f"{stem}.end": b"exited 28 5.5 0.5"})
            yield (
                "no-tables.zip",
                packed(b"", {n: d for n, d in members.items() if not n.endswith(".reserve")}),
            )
        if name == "ends":  # a process that was killed, as if its disk had been full
            yield "left-end.zip", packed(b"", _with_left_end(members))
        if name == "untraced":
            pid = next(member for member in members if member.endswith(".record")).split("-")[1]
            noted = {n: _noted(d) if n.endswith(".record") else d for n, d in members.items()}
            yield "noted.zip", packed(b"", {**noted, f"{pid}.subinterpreter": b""})
        if name == "sampled":  # waits that are known by the line of their caller
            yield "rank-calls.zip", packed(b"", {n: _with_rank_calls(d) for n, d in members.items()})


def _with_left_end(members: Mapping[str, bytes]) -> dict[str, bytes]:
    from fuzz.targets.records import bytes_of, tree_of

    changed = dict(members)
    for name, data in members.items():
        tree = tree_of(data) if name.endswith(".record") else None
        if tree is not None and tree["state"] == "snapshot":
            changed[name] = bytes_of(data[:8], {**tree, "mapped": False})
            changed[name.replace(".record", ".end")] = f"replaced 28 {tree['perf'] + 0.5} 0.5".encode()
    return changed


def _noted(data: bytes) -> bytes:
    """Have a record say all that agents say seldom."""
    from fuzz.targets.records import NOTES, bytes_of, tree_of

    tree = tree_of(data)
    sizes = {"mkl": 1, "numexpr": 8, "openblas": 7, "blis": None}
    tree |= {
        "notes": {**tree["notes"], **NOTES},
        "rank": 1,
        "world_size": 3,
        "pools": [[library, f"lib{library}.so", size, "", 2, None] for library, size in sizes.items()],
        "environment": {"OPENBLAS_NUM_THREADS": "3"},
        "environment_at_start": {"OPENBLAS_NUM_THREADS": "3"},
    }
    return bytes_of(data[:8], tree)


def _with_rank_calls(data: bytes) -> bytes:
    """Have the pauses of a tracer's file be calls that wait for other ranks."""
    if not data.startswith(mapped_layout.MAGIC):
        return data
    file, changed = MappedTables(data), bytearray(data)
    for head in file.heads:
        for at in file.entries(head.number)[mapped_layout.PAUSE]:
            changed[at + 8 : at + 12] = RANK_CALLS.to_bytes(4, "little")
    return bytes(changed)


def _lives(directory: Path) -> Iterator[tuple[str, Path]]:
    """Yield the spools of captures that ended as they should."""
    folder = directory / "lives"
    if not folder.exists():
        folder.mkdir()
        (folder / "program.py").write_text(_LIVED, encoding="utf-8")
        for name, (options, words, variables) in _LIVES.items():
            command = [sys.executable, "-c", _KEEPS, "capture", "-q", "-o", f"{name}.prof", *options, "--"]
            subprocess.run(
                [*command, sys.executable, "program.py", *words],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
                stderr=subprocess.DEVNULL,
                timeout=60,
                check=False,
            )
            (folder / "kept").rename(folder / name)
        subprocess.run([sys.executable, "-c", _BLOCK], cwd=folder, check=True, timeout=60)
        (folder / "kept").rename(folder / "block")
    yield "block", folder / "block"
    yield from ((name, folder / name) for name in _LIVES)


def _members(spool: Path, extents: int = 1) -> dict[str, bytes]:
    """Return the files of a spool, cut down and without names of this machine."""
    from fuzz.targets.records import bytes_of, tree_of
    from fuzz.targets.tables import shortened

    members: dict[str, bytes] = {}
    for path in sorted(spool.iterdir()):
        if path.is_symlink() or not path.is_file():
            continue  # links that say how a process ended, and the sampler's bell
        data = path.read_bytes()
        if data.startswith(b"PFKCALLS"):
            data = neutral(shortened(data, extents))
        elif path.suffix in (".record", ".samples"):
            data = bytes_of(data[:8], _neutral_tree(tree_of(data)))
        elif path.suffix == ".json":
            data = json.dumps(_neutral_tree(json.loads(data))).encode()
        else:
            data = neutral(data.rstrip(b"\0") + b"\0" * 64)
        members[_neutral_tree(path.name).replace(socket.gethostname(), "host")] = data
    return members


def _records(directory: Path) -> Iterator[tuple[str, bytes]]:
    for name, data in _spools(directory):
        found = unpacked(data)
        assert found is not None
        if name in ("killed.zip", "sampled.zip", "ends.zip", "library.zip", "block.zip", "untraced.zip"):
            for member, content in found[1].items():
                if member.endswith((".record", ".samples", ".json")):
                    yield Path(member).suffix[1:] + f"-{len(content)}", content


def _paths(directory: Path) -> Iterator[tuple[str, bytes]]:
    names = (
        "run.prof",
        "rum.prof",
        "late.prof",
        "more",
        "none",
        "*.prof",
        "m*",
        "x*",
        "empty.prof",
        "pipe.prof",
    )
    for number, name in enumerate((*names, "baseline:x", "a\0b", "z", "x" * 300)):
        yield f"path-{number:02}", name.encode()


def _baselines(directory: Path) -> Iterator[tuple[str, bytes]]:
    run = directory / "run.prof"
    run.write_bytes(b"a run")
    store = Store(directory / "store")
    for name, files in (("one", [run]), ("two", [run, run])):
        store.save(name, files)
        yield name, (store.directory / f"{name}.json").read_bytes()


#: Traces itself into the file that is named, and ends in the middle of calls.
_TRACED = """
import os, signal, sys, threading, time
from profkit.capture.agent import native
module = native.load()
open(sys.argv[1], "wb").close()
assert module.map_tables(sys.argv[1], "<agent>", -1)
exec(compile("def ours(function): function()", "<agent>", "exec"))
def walk(n):
    return walk(n - 1) + 1 if n else len("")
def stay(lock):
    time.sleep(60)
def short():
    walk(2)
for _ in range(int(sys.argv[2])):
    thread = threading.Thread(target=short)
    thread.start()
    thread.join()
collector = module.Collector()
collector.enable()
walk(3)
ours(short)
if sys.argv[2] == "0":
    os.kill(os.getpid(), signal.SIGKILL)
def sample():
    assert module.watch(change)
def change():
    collector.suspend()
    module.sample(module.wants_samples())
if sys.argv[2] == "2":
    module.limit(1e-6)
    sample()
    module.want_samples(True)
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        walk(30)
    module.stop_watching()
module.keep(b"a record")
collector.disable()
"""


def _tables(directory: Path) -> Iterator[tuple[str, bytes]]:
    from fuzz.targets.tables import shortened

    program, out = directory / "traced.py", directory / "tables"
    program.write_text(_TRACED, encoding="utf-8")
    for name, words in (("killed", "0"), ("whole", "1"), ("sampled", "2")):
        subprocess.run([sys.executable, program.name, out.name, words], cwd=directory, check=False)
        yield name, neutral(shortened(out.read_bytes()))
        out.unlink()


def _names() -> dict[str, str]:
    """Return what names this machine and this working tree, and what stands for it; the longest first."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return {
        str(ROOT): "/home/user/profkit",
        sys.base_prefix: "/usr/local",
        boot: "00000000-0000-4000-8000-000000000000",
    }


def _neutral_tree(tree: Any) -> Any:
    if isinstance(tree, str):
        for name, stands in _names().items():
            tree = tree.replace(name, stands)
        return "host" if tree == socket.gethostname() else tree
    if isinstance(tree, dict):
        return {key: _neutral_tree(item) for key, item in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_neutral_tree(item) for item in tree)
    return tree


def neutral(data: bytes) -> bytes:
    """Replace names of this machine by others of the same length."""
    for name, stands in _names().items():
        data = data.replace(name.encode(), stands.encode()[: len(name)].ljust(len(name), b"x"))
    found = unpacked(data)
    if found is None or not found[1]:
        return data
    members = {}
    for member, content in found[1].items():
        if member.endswith(".json"):
            content = json.dumps(_neutral_tree(json.loads(content)), indent=1).encode()
        for name, stands in _names().items():
            content = content.replace(name.encode(), stands.encode()[: len(name)].ljust(len(name), b"x"))
        members[member] = content
    return packed(found[0], members)


# Strings


def _texts(directory: Path) -> Iterator[tuple[str, bytes]]:
    for number, text in enumerate(TEXTS):
        yield f"text-{number:02}", bytes([20 + number]) + text.encode("utf-8", "surrogatepass")


def _masked(directory: Path) -> Iterator[tuple[str, bytes]]:
    lines = (
        "python train.py --epochs 4 --token abcdef0123456789abcdef --data /home/ann/data",
        "mpirun -n 8 -H node1:4,node2:4 python train.py --db postgres://ann:pw@db.corp.example:5432/x",
        "env AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG python -c 'import os; print(1)'",
        "curl -u ann:pw https://hooks.example/services/T000/B000/XXXX?sig=abc%3D&x=1#access_token=y",
        'java --cfg={"password":"x","user":"ann"} -pX -Dkey=v C:\\Users\\ann\\x.py \\\\host\\share\\y',
        "torchrun --rdzv_endpoint=gpu17.corp.example:2345 [fe80::1]:22 10.1.2.3 me@corp.example",
    )
    for number, text in enumerate((*lines, *TEXTS)):
        yield f"line-{number:02}", bytes([128, 0]) + text.encode("utf-8", "surrogatepass") + bytes([number])


def _reports(directory: Path) -> Iterator[tuple[str, bytes]]:
    for number in range(0, len(TEXTS), 8):
        parts = [text.encode("utf-8", "surrogatepass") for text in TEXTS[number : number + 8]]
        yield f"texts-{number:02}", bytes([number]) + b"\xff".join(parts)


def _sources(directory: Path) -> Iterator[tuple[str, bytes]]:
    for name in ("profkit/errors.py", "profkit/report/text.py", "profkit/formats/atomic.py"):
        yield Path(name).stem, (ROOT / name).read_bytes()[:1800]
    yield (
        "decorated",
        b"@d(\n  1)\nasync def f(x, y=')'):\n\t'''a\nb'''\n\treturn [\n1]\n\nclass C:\n  def g(self): pass # x\n",
    )
