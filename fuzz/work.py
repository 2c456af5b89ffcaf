"""Running the targets, and what is kept between runs: the working corpus, the findings, the counts, in ``.fuzz``."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fuzz import native
from fuzz.target import CRASHES, SEEDS, TARGETS, finding_of, load

__all__ = ["coverage", "inputs_of", "minimise", "replay", "run", "status"]

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".fuzz"
TOTALS = FOLDER / "totals.json"

#: Targets that take the inputs of another one.
_INPUTS_OF = {"commands": "run_file", "dumps": "pstats"}
#: libFuzzer's own limits: seconds of wall time, for what the oracle cannot end (a busy machine may leave a nice
#: process without a processor for a minute), and MB of a process that leaks.
_FLAGS = ("-timeout=300", "-rss_limit_mb=4096", "-print_final_stats=1", "-reload=0", "-report_slow_units=60")
#: Of all targets; what an input does must not depend on the machine.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "100"}
_REACHED = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")
_DONE = re.compile(r"number_of_executed_units: *(\d+)")


def inputs_of(name: str, *, working: bool = False) -> list[Path]:
    """Return the committed inputs of a target, and those of the working corpus where they are wanted."""
    folders = [SEEDS / _INPUTS_OF.get(name, name), CRASHES / name]
    if working:
        folders.append(FOLDER / "corpus" / name)
    return [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())]


def run(targets: Sequence[str], seconds: int, runs: int, seed: int, *, quick: bool = False) -> int:
    """Fuzz targets; return 1 where something was found that was not known.

    Parameters
    ----------
    targets
        Names, none for all.
    seconds, runs
        For each; 0 runs are as many as the time allows.
    seed
        Of the random generator.
    quick
        A fixed number of inputs for each, from the committed inputs alone: the same ones whenever it is run. As many
        targets at once as there are CPUs.
    """
    unknown = set(targets) - {*TARGETS, *native.TARGETS}
    if unknown:
        sys.exit(
            f"no such target: {', '.join(sorted(unknown))}; there are {', '.join((*TARGETS, *native.TARGETS))}"
        )
    with (
        tempfile.TemporaryDirectory(prefix="profkit-fuzz-", dir=_fast()) as scratch,
        _Engine(Path(scratch) / "engine.log") as engine,
        ThreadPoolExecutor(len(os.sched_getaffinity(0)) if quick else 1) as pool,
    ):
        found = pool.map(
            lambda name: _run_one(name, engine, Path(scratch), seconds, runs, seed, quick),
            targets or (*TARGETS, *native.TARGETS),
        )
        return 1 if sum(found) else 0


class _Engine:
    """The process of `fuzz.engine`, once a target needs it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._changed = threading.Condition()
        self._ended: dict[str, int] = {}

    def __enter__(self) -> _Engine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()

    def fuzz(self, **job: Any) -> int:
        """Return the exit status of a target's process."""
        with self._changed:
            if self._process is None:
                with self._log.open("wb") as log:
                    self._process = subprocess.Popen(
                        [sys.executable, "-m", "fuzz.engine"],
                        cwd=ROOT,
                        env={**os.environ, **_ENVIRONMENT},
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=log,
                        text=True,
                    )
                threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            process = self._process
            self._changed.wait_for(lambda: job["name"] in self._ended or process.poll() is not None)
            if job["name"] not in self._ended:
                sys.exit(
                    f"the engine ended: {self._log.read_text(encoding='utf-8', errors='replace')[-3000:]}"
                )
            return self._ended.pop(job["name"])

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            name, status = line.split()
            with self._changed:
                self._ended[name] = int(status)
                self._changed.notify_all()
        process.wait()
        with self._changed:
            self._changed.notify_all()


def _fast() -> str | None:
    """Return a RAM disk, where there is one: each input is a file or more."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _run_one(
    name: str, engine: _Engine, scratch: Path, seconds: int, runs: int, seed: int, quick: bool
) -> int:
    base = scratch if quick else FOLDER
    corpus, findings = base / "corpus" / name, base / "findings" / name
    own = scratch / "tmp" / name
    for folder in (corpus, findings, own):
        folder.mkdir(parents=True, exist_ok=True)
    before = set(os.listdir(findings))
    (findings / "inputs").write_bytes(bytes(8))
    flags = [
        *_FLAGS,
        f"-seed={seed}",
        f"-artifact_prefix={findings}/engine-",
        *([f"-runs={_quick(name) if quick else runs}"] if quick or runs else [f"-max_total_time={seconds}"]),
    ]
    places = [str(corpus), *(str(folder) for folder in _committed(name))]
    began = time.monotonic()
    said = findings.parent / f"{name}.log"
    if name in native.TARGETS:
        environment = {**os.environ, **native.environment(name), **_ENVIRONMENT, "TMPDIR": str(own)}
        with said.open("wb") as log:
            command = [*native.command(name), *flags, *places]
            status = subprocess.run(command, cwd=ROOT, env=environment, stderr=log, check=False).returncode
    else:
        target = load(name)
        flags.append(f"-max_len={target.most_bytes}")
        if target.words:
            words = scratch / f"{name}.words"
            words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words), encoding="ascii")
            flags.append(f"-dict={words}")
        paths = {"findings": str(findings), "said": str(said), "scratch": str(own)}
        status = engine.fuzz(name=name, flags=[*flags, *places], **paths)
    took = time.monotonic() - began
    text = said.read_text(encoding="utf-8", errors="replace") if said.exists() else ""
    done = struct.unpack("<q", (findings / "inputs").read_bytes())[0]
    if not done and (ended := _DONE.search(text)):
        done = int(ended[1])
    (findings / "inputs").unlink()
    reached = _REACHED.findall(text)
    edges = int(reached[-1][0]) if reached else 0
    if not quick:
        _add(name, done, took, edges)
    fresh = sorted(set(os.listdir(findings)) - before - {"inputs"})
    fresh = [one for one in fresh if not one.endswith(".txt") and not _only_counted(name, findings / one)]
    print(f"{name}: {done:,} inputs in {took:.0f} s, {edges:,} edges, {len(fresh)} new findings", flush=True)
    for one in fresh:
        print(f"  {findings / one}")
        about = findings / f"{one}.txt"
        if about.exists():
            print("    " + about.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1][:200])
            if quick:
                _keep(findings / one, name)
    if status and not fresh:
        print(text[-3000:])
        return 1
    return len(fresh)


def _only_counted(name: str, finding: Path) -> bool:
    """Whether an input took long only because its branches were counted; it is then no finding, and goes."""
    if not finding.name.startswith("slow-") or finding_of(load(name), finding.read_bytes(), thorough=False):
        return False
    finding.unlink()
    finding.with_name(finding.name + ".txt").unlink()
    return True


def _keep(finding: Path, name: str) -> None:
    """Copy what a bounded run found to where it stays."""
    folder = FOLDER / "findings" / name
    folder.mkdir(parents=True, exist_ok=True)
    for path in (finding, finding.with_name(finding.name + ".txt")):
        shutil.copy(path, folder)
    print(f"    kept as {folder / finding.name}")


def _committed(name: str) -> Iterator[Path]:
    for folder in (SEEDS / _INPUTS_OF.get(name, name), CRASHES / name):
        if folder.is_dir():
            yield folder


def _quick(name: str) -> int:
    return native.QUICK if name in native.TARGETS else load(name).quick


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def _add(name: str, inputs: int, seconds: float, edges: int) -> None:
    totals = _totals()
    mine = totals.setdefault(name, {"inputs": 0, "seconds": 0.0, "edges": 0})
    mine["inputs"] += inputs
    mine["seconds"] = round(mine["seconds"] + seconds, 1)
    mine["edges"] = max(mine["edges"], edges)
    TOTALS.write_text(json.dumps(totals, indent=1) + "\n", encoding="utf-8")


def _totals() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TOTALS.read_bytes()) if TOTALS.exists() else {}
    return found


def status() -> int:
    """Print what was run so far."""
    totals = _totals()
    print("| target | inputs | a second | edges | corpus | findings |")
    print("|---|--:|--:|--:|--:|--:|")
    for name in (*TARGETS, *native.TARGETS):
        known = totals.get(name)
        if known is None:
            continue
        corpus, findings = FOLDER / "corpus" / name, FOLDER / "findings" / name
        kept = [path for path in findings.iterdir() if path.suffix != ".txt"] if findings.is_dir() else []
        rate = known["inputs"] / known["seconds"] if known["seconds"] else 0
        print(
            f"| {name} | {known['inputs']:,} | {rate:,.0f} | {known['edges']:,} "
            f"| {len(list(corpus.iterdir())) if corpus.is_dir() else 0:,} | {len(kept)} |"
        )
    print(f"| all | {sum(known['inputs'] for known in totals.values()):,} | | | | |")
    return 0


def replay(name: str, files: Sequence[str]) -> int:
    """Check files, or all committed inputs of a target, and print what is wrong; return 1 where something is."""
    target = load(name)
    wrong = 0
    for path in [Path(file) for file in files] or inputs_of(name):
        finding = finding_of(target, path.read_bytes())
        if finding is not None:
            wrong += 1
            print(f"{path}: {finding.signature}\n{finding.text}")
    print(f"{name}: {wrong} findings")
    return 1 if wrong else 0


#: Modules of `profkit.formats` that read nothing of others; all other ones are readers.
_WRITERS = ("__init__", "atomic", "chrome", "pstats_write", "speedscope", "timeline")
#: What reads what agents, tracers and samplers leave in a spool.
_SPOOL_READERS = (
    *("captured_windows", "counters", "endings", "machines", "mapped_estimates"),
    *("mapped_file", "mapped_layout", "mapped_names", "mapped_tables", "nvtx"),
    *("packer", "pool_records", "rank_calls", "record_notices", "record_types", "records"),
    *("spool_records", "tables", "thread_tables"),
)
#: Part of the lines of the readers that the inputs are to reach.
_LEAST = 0.9


def coverage(*, everything: bool, readers: bool) -> int:
    """Print the part of each module that the inputs of all Python targets reach; or of each file of the readers, with
    the lines that none reaches, and return 1 where all together are below `_LEAST`."""
    files = _reached(everything)
    return _print_readers(files) if readers else _print_modules(files)


def _reached(everything: bool) -> dict[str, Any]:
    """Return what coverage.py says of each file of profkit."""
    from coverage import Coverage

    measured = Coverage(data_file=None, branch=True, source_pkgs=["profkit"], config_file=False)
    measured.set_option("run:core", "ctrace")
    measured.start()
    for name in TARGETS:
        target = load(name)
        for path in inputs_of(name, working=everything):
            finding_of(target, path.read_bytes(), thorough=path.is_relative_to(SEEDS))
    measured.stop()
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        measured.json_report(outfile=out.name, ignore_errors=True)
        found: dict[str, Any] = json.loads(Path(out.name).read_bytes())["files"]
    return found


def _print_readers(files: Mapping[str, Any]) -> int:
    formats = sorted(path.stem for path in (ROOT / "profkit" / "formats").glob("*.py"))
    places = [("formats", name) for name in formats if name not in _WRITERS]
    places += [("capture", name) for name in _SPOOL_READERS]
    total: Counter[str] = Counter()
    print("| file | lines | reached | not reached |\n|---|--:|--:|---|")
    for room, name in places:
        (known,) = (known for path, known in files.items() if path.endswith(f"profkit/{room}/{name}.py"))
        mine = Counter({count: known["summary"][count] for count in ("covered_lines", "num_statements")})
        total.update(mine)
        reached, lines = mine["covered_lines"], mine["num_statements"]
        print(f"| {room}/{name} | {lines:,} | {_share(reached, lines)} | {_spans(known['missing_lines'])} |")
    print(
        f"| all | {total['num_statements']:,} | {_share(total['covered_lines'], total['num_statements'])} | |"
    )
    return 1 if total["covered_lines"] < _LEAST * total["num_statements"] else 0


def _spans(lines: Sequence[int]) -> str:
    """Return line numbers as ``3-5, 9``."""
    spans: list[list[int]] = []
    for line in lines:
        if spans and line <= spans[-1][1] + 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def _print_modules(files: Mapping[str, Any]) -> int:
    rooms: dict[str, Counter[str]] = {}
    counts = ("covered_lines", "num_statements", "covered_branches", "num_branches")
    for path, known in files.items():
        parts = Path(path).with_suffix("").parts
        inside = parts[parts.index("profkit") + 1 :]
        if inside[:2] == ("capture", "agent") or inside[0] in ("demo", "__main__", "__init__"):
            continue
        mine = Counter({count: known["summary"][count] for count in counts})
        rows = (
            ["/".join(inside)]
            if inside[0] in ("formats", "capture") and known["summary"]["covered_lines"]
            else []
        )
        for row in (*rows, f"**{inside[0]}**"):
            rooms.setdefault(row, Counter()).update(mine)
    print("| module | statements | run | branches | taken |\n|---|--:|--:|--:|--:|")
    for row in sorted(rooms, key=lambda row: (row.strip("*").split("/")[0], not row.startswith("*"), row)):
        run_, statements, taken, branches = (rooms[row][count] for count in counts)
        print(
            f"| {row} | {statements:,} | {_share(run_, statements)} | {branches:,} | {_share(taken, branches)} |"
        )
    return 0


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


#: Bytes of an input that is worth keeping in the repository.
_MOST_KEPT = 36_000


def minimise(targets: Sequence[str]) -> int:
    """Add to the seeds what of the working corpus reaches a branch that no seed reaches: the smallest first."""
    from coverage import Coverage

    measured = Coverage(data_file=None, branch=True, source_pkgs=["profkit"], config_file=False)
    measured.set_option("run:core", "ctrace")
    measured.set_option("run:disable_warnings", ["module-not-measured", "no-data-collected"])

    def arcs_of(target: Any, path: Path) -> set[tuple[str, tuple[int, int]]]:
        measured.erase()
        measured.start()
        finding = finding_of(target, path.read_bytes(), thorough=False)
        measured.stop()
        if finding is not None:
            return set()
        data = measured.get_data()
        return {(file, arc) for file in data.measured_files() for arc in data.arcs(file) or ()}

    for name in [name for name in TARGETS if not targets or name in targets]:
        target = load(name)
        seen: set[tuple[str, tuple[int, int]]] = set()
        for path in inputs_of(name):
            seen |= arcs_of(target, path)
        kept = 0
        folder = FOLDER / "corpus" / name
        for path in sorted(folder.iterdir() if folder.is_dir() else (), key=lambda path: path.stat().st_size):
            if path.stat().st_size > _MOST_KEPT:
                break
            reached = arcs_of(target, path)
            if not reached <= seen:
                seen |= reached
                kept += 1
                home = SEEDS / _INPUTS_OF.get(name, name)
                shutil.copy(path, home / f"found-{path.name[:12]}")
        print(f"{name}: {kept} inputs added")
    for name in [name for name in native.TARGETS if not targets or name in targets]:
        folder, home = FOLDER / "corpus" / name, SEEDS / name
        if folder.is_dir():
            before = len(list(home.iterdir()))
            flags = ["-merge=1", "-use_counters=0", str(home), str(folder)]
            environment = {**os.environ, **native.environment(name)}
            subprocess.run(
                [*native.command(name), *flags], env=environment, stderr=subprocess.DEVNULL, check=True
            )
            print(f"{name}: {len(list(home.iterdir())) - before} inputs added")
    return 0
