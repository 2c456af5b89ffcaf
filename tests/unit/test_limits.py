"""What a file may hold: weighed before it is made; dataclasses as JSON objects and back, as their types say."""

from __future__ import annotations

import json
import marshal
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypedDict

import numpy as np
import pytest

from profkit.errors import FormatError
from profkit.formats import load_run, write_run
from profkit.formats.codec import Codec, MemberError
from profkit.formats.limits import FLOOR
from profkit.model import Edges, OpenCall, Process, Profile, Ranges, Run, Thread
from profkit.model.bounds import Bounds
from profkit.model.columns import column_dtypes
from tests.builders import Row, profile
from tests.hostile_files import small_run
from tests.run_files import measured, member_of, npy, rewritten

#: More rows than a file of a few hundred kB may hold, which compress to that.
MANY = 3_000_000


def columns(group: str, dtypes: Any, rows: int) -> dict[str, bytes | None]:
    return {f"{group}/{name}.npy": npy(np.zeros(rows, dtype)) for name, dtype in dtypes.items()}


def manifest(path: Path, **fields: Any) -> dict[str, bytes | None]:
    return {"manifest.json": json.dumps({**member_of(path, "manifest.json"), **fields}).encode()}


#: A member that claims too much, and what the message says of it.
HOLDS: dict[str, tuple[Callable[[Path], dict[str, bytes | None]], str]] = {
    "functions": (lambda p: columns("functions", column_dtypes(Profile), MANY), "functions"),
    "edges": (lambda p: columns("edges", column_dtypes(Edges), MANY), "caller–callee sums"),
    "ranges": (lambda p: columns("ranges", column_dtypes(Ranges), MANY), "NVTX ranges"),
    "series": (lambda p: {"series/time_ns.npy": npy(np.zeros(MANY, np.int64))}, "readings of the machine"),
    "text": (lambda p: {"strings.npy": npy(np.full(10 * MANY, 97, np.uint8))}, "bytes of strings"),
    "strings": (lambda p: {"string_offsets.npy": npy(np.zeros(MANY, np.int64))}, "strings"),
    "nothing but objects": (lambda p: manifest(p, unknown=[{}] * 1_500_000), "values of JSON"),
    "nothing but brackets": (lambda p: manifest(p, unknown=[[]] * 1_500_000), "values of JSON"),
    "a long word": (lambda p: manifest(p, cwd="x" * 10 * MANY), "bytes of JSON"),
    "words": (lambda p: manifest(p, command=["x"] * 500_000), "words, variables and packages"),
    "warnings": (lambda p: manifest(p, warnings=[{"code": "a"}] * 150_000), "notices"),
}


def test_a_run_of_very_many_processes_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 of them and a tenth of the memory that any file may take, for 10,000; times differ, as measured ones."""
    monkeypatch.setattr("profkit.formats.limits.FLOOR", FLOOR // 10)
    run, random = small_run(), np.random.default_rng(1)
    first = replace(run.processes[0], ranges=None, samples=None, environment={}, notes=(), pools=())

    def another(pid: int) -> Process:
        rows = [Row("m.py", line, f"f{line}", 9, *random.random(2).tolist()) for line in range(1, 5)]
        wall, *seconds = random.random(3).tolist()
        return replace(first, pid=pid, wall_s=wall, threads=(Thread(profile(rows), pid, "", *seconds),))

    write_run(tmp_path / "many.prof", replace(run, processes=tuple(map(another, range(1, 1_001)))))
    assert len(load_run(tmp_path / "many.prof").processes) == 1_000


@pytest.mark.parametrize(("changes", "what"), HOLDS.values(), ids=HOLDS)
def test_what_a_file_holds_too_much_of_is_named(path: Path, changes: Any, what: str) -> None:
    size = rewritten(path, changes(path)).stat().st_size
    with pytest.raises(
        FormatError, match=f"holds [0-9,]+ {what}, which is more than a file of {size:,} bytes"
    ):
        load_run(path)


def test_names_are_weighed_as_often_as_rows_have_them(path: Path) -> None:
    """A trace holds the name of a range as often as it occurs."""
    rows = 30_000
    document = member_of(path, "processes.json")
    for process in document:
        process.pop("ranges", None)
    document[0]["ranges"] = {"rows": [0, rows]}
    changes = columns("ranges", column_dtypes(Ranges), rows) | {
        "ranges/strings.npy": npy(np.full(9_000, 97, np.uint8)),
        "ranges/string_offsets.npy": npy(np.array([0, 0, 9_000])),
        "ranges/name.npy": npy(np.full(rows, 1, np.int32)),
        "ranges/parent.npy": npy(np.full(rows, -1, np.int32)),
        "processes.json": json.dumps(document).encode(),
    }
    rewritten(path, changes)
    with pytest.raises(FormatError, match="holds 270,000,000 bytes of names"):
        load_run(path)


@pytest.mark.parametrize(
    ("group", "of"), [("functions", "threads"), ("ranges", None), ("samples", None)], ids=str
)
def test_rows_belong_to_one_thread_or_process(path: Path, group: str, of: str | None) -> None:
    """1 000 threads with the same million rows would take a thousand times the memory."""
    document = member_of(path, "processes.json")
    if of is not None:
        document[0][of] += document[0][of]
    else:
        others = dict.fromkeys({"ranges", "samples"} - {group})
        document += [{**process, **others, "threads": []} for process in document]
    rewritten(path, {"processes.json": json.dumps(document).encode()})
    with pytest.raises(FormatError, match=f"{group}.* has rows that are already in use"):
        load_run(path)


def test_calls_add_up_to_what_64_bits_hold(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        rows = int(np.load(archive.open("functions/ncalls.npy")).shape[0])
    rewritten(path, {"functions/ncalls.npy": npy(np.full(rows, 2**53 // rows + 1))})
    with pytest.raises(FormatError, match="its calls add up to more than any run can make"):
        load_run(path)


def test_a_dump_of_many_dictionaries(tmp_path: Path) -> None:
    """Each takes two bytes of the file and a hundred of memory; only at the end is it seen that it is no entry."""
    pair = marshal.dumps(None, 2) + marshal.dumps({}, 2)
    path = tmp_path / "many.prof"
    path.write_bytes(b"{" + pair * 1_000_000 + b"0")
    with pytest.raises(FormatError, match="of pstats data, which is more than a file of 3,000,002 bytes may"):
        load_run(path)


@pytest.mark.parametrize(("processes", "functions"), [(1, 100_000), (16, 12_500)], ids=str)
def test_a_big_run_loads(tmp_path: Path, processes: int, functions: int) -> None:
    """The weights leave room for what is really captured; most of 64 processes' functions are the same."""
    thread = Thread(measured(functions))
    made = tuple(Process(pid=pid, threads=(thread,)) for pid in range(1, processes + 1))
    write_run(tmp_path / "big.prof", replace(small_run(), processes=made))
    loaded = load_run(tmp_path / "big.prof")
    assert sum(len(thread.profile) for p in loaded.processes for thread in p.threads) == processes * functions


def test_a_million_ranges_load(tmp_path: Path) -> None:
    """Constant columns compress a thousandfold, which is no sign of anything."""
    rows = 1_000_000
    ranges = small_run().processes[0].ranges
    steps = {name: np.repeat(getattr(ranges, name)[:1], rows) for name in column_dtypes(Ranges)}
    begin = np.arange(rows) * 1_000_000
    many = replace(ranges, **{**steps, "begin_ns": begin, "end_ns": begin + 900_000})
    write_run(tmp_path / "many.prof", Run("x", (Process(pid=1, ranges=many.validate()),)))
    (process,) = load_run(tmp_path / "many.prof").processes
    assert len(process.ranges) == rows


# Dataclasses as JSON objects and back, as their types say; and what is refused

Share = Annotated[float, Bounds(0, 1, 1e-6)]


class Loose(TypedDict, total=False):
    """An object of which every key may be absent."""

    share: Share | None
    flag: bool


@dataclass(frozen=True, slots=True)
class Part:
    """A nested record."""

    name: str
    size: int = 1


@dataclass(frozen=True, slots=True)
class Whole:
    """A field of every type."""

    text: str
    number: int
    seconds: float
    flag: bool = False
    maybe: float | None = None
    older: Optional[int] = None  # noqa: UP045 - both forms are types of fields
    words: tuple[str, ...] = ()
    parts: tuple[Part, ...] | None = None
    part: Part = field(default_factory=lambda: Part("none"))
    call: OpenCall | None = None
    calls: tuple[OpenCall, ...] = ()
    table: Mapping[str, float] = field(default_factory=dict)
    by_name: Mapping[str, Part] = field(default_factory=dict)
    share: Share = 1.0
    few: Annotated[int, Bounds(-1, 9)] | None = None
    shares: Mapping[str, Share] = field(default_factory=dict)
    loose: Loose | None = None
    state: Literal["begun", "ended"] = "begun"
    half: Annotated[float, Bounds(0, 0.5)] | None = None
    kept_out: object = None


CODEC = Codec(Whole, elsewhere=("kept_out",))
LEAST = {"text": "", "number": 0, "seconds": 0}


def test_numbers_that_their_types_do_not_allow_are_not_known() -> None:
    """A counter that ran backwards must not cost the run: what would be refused is not written."""
    odd = Whole("", 0, 1.0, few=10, shares={"a": -1.0, "b": 1.0}, loose={"share": 2.0})
    written = json.loads(json.dumps(CODEC.write(odd), allow_nan=False))
    assert (written["few"], written["shares"], written["loose"]) == (None, {"b": 1.0}, {"share": None})
    assert CODEC.read("it", written) == Whole("", 0, 1.0, shares={"b": 1.0}, loose={"share": None})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"text": 1}, "it.text is not a string"),
        ({"number": 1.0}, "it.number is not a whole number"),
        ({"number": True}, "it.number is not a whole number"),
        ({"number": 1 << 63}, "it.number is not a whole number"),
        ({"seconds": "1"}, "it.seconds is not a number"),
        ({"seconds": True}, "it.seconds is not a number"),
        ({"seconds": 10**400}, "it.seconds is out of range"),
        ({"seconds": float("inf")}, "it.seconds is not a finite number"),
        ({"flag": 1}, "it.flag is neither true nor false"),
        ({"maybe": "x"}, "it.maybe is not a number"),
        ({"words": "ab"}, "it.words is not a list"),
        ({"words": ["a", 2]}, "it.words 1 is not a string"),
        ({"parts": [{"name": "p"}, 3]}, "it.parts 1 is not an object"),
        ({"parts": [{"size": 1}]}, "it.parts 0.name is missing"),
        ({"part": {"name": "p", "size": "big"}}, "it.part.size is not a whole number"),
        ({"call": "12"}, "it.call is not a list"),
        ({"call": [1, 2.0, 3]}, "it.call has more than 2 values"),
        ({"calls": [[1, 2.0], [1]]}, "it.calls 1.cumtime is missing"),
        ({"calls": [[1.0, 2.0]]}, "it.calls 0.function is not a whole number"),
        ({"table": [1]}, "it.table is not an object"),
        ({"table": {"a": None}}, "it.table.a is not a number"),
        ({"by_name": {"a": {"name": []}}}, "it.by_name.a.name is not a string"),
        ({"share": -0.5}, "it.share is -0.5, not between 0 and 1"),
        ({"share": 1e-300}, "it.share is 1e-300, too small to be measured"),
        ({"share": float("nan")}, "it.share is not a finite number"),
        ({"few": 10}, "it.few is 10, not between -1 and 9"),
        ({"shares": {"a": 3}}, "it.shares.a is 3, not between 0 and 1"),
        ({"loose": 3}, "it.loose is not an object"),
        ({"loose": {"share": -1}}, "it.loose.share is -1, not between 0 and 1"),
        ({"loose": {"flag": None}}, "it.loose.flag is neither true nor false"),
        ({"state": "lost"}, "it.state is not one of begun, ended"),
        ({"state": 1}, "it.state is not a string"),
        ({"half": -0.1}, "it.half is -0.1, not between 0 and 0.5"),
    ],
)
def test_other_types_are_refused_by_the_name_of_the_field(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(MemberError) as caught:
        CODEC.read("it", {**LEAST, **changes})
    assert str(caught.value) == says
