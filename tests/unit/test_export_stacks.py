"""pprof, collapsed stacks, Callgrind, the Firefox Profiler and tables: read by other readers than profkit's own."""

from __future__ import annotations

import csv
import functools
import gzip
import io
import json
import marshal
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gprof2dot
import numpy as np
import pyarrow.parquet
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from profkit.api.function_table import table_as_csv
from profkit.errors import FormatError
from profkit.formats import load_run, protobuf, write_run
from profkit.formats.export.callgrind import callgrind_profile
from profkit.formats.export.collapsed_write import collapsed_stacks
from profkit.formats.export.firefox import firefox_profile
from profkit.formats.export.pprof_write import pprof_profile
from profkit.measure.selected_processes import select
from profkit.model import Paths, Process, Run, Thread
from tests.builders import Row, profile, with_estimates
from tests.report_builders import hostile_run
from tests.shared import Capture, exit_code, refused, words_of

ROWS = [
    Row("a.py", 1, "main", 1, 1.0, 8.0, wait=0.0, cumwait=0.0),
    Row("a.py", 5, "f", 2, 5.0, 5.0, wait=0.5, cumwait=0.5),
    Row("a.py", 9, "g;h", 1, 2.0, 5.0, wait=0.0, cumwait=0.0),
]
#: main → f, main → g;h → f, and what f queued for in the first.
PATHS = Paths(
    np.array([-1, 0, 0, 2], np.int32),
    np.array([0, 1, 2, 1], np.int32),
    np.array([1, 1, 1, 1]),
    np.array([1.0, 2.0, 2.0, 3.0]),
    np.array([0.0, 0.5, 0.0, 0.0]),
    np.zeros(4),
)


@pytest.fixture
def story(tmp_path: Path) -> Path:
    measured = replace(profile(ROWS), blocked=np.zeros(3), cumblocked=np.zeros(3))
    threads = (Thread(measured, 10, "MainThread", paths=PATHS),)
    path = tmp_path / "run.prof"
    write_run(path, Run("run.prof", (Process(10, command=("python", "train.py"), threads=threads),)))
    return path


@pytest.fixture
def estimated(tmp_path: Path) -> Path:
    """Write a profile in which the calls of one function are estimated, and those of another unknown."""
    rows = [replace(row, ncalls=n, wait=None, cumwait=None) for row, n in zip(ROWS, (1, 2, 0), strict=True)]
    known = [(1, 1, 0, 0.0), (1.5, 2.5, 50, 0.1), (np.nan, np.nan, 20, 0.1)]
    sampled = with_estimates(profile(rows, [(0, 1, 2, 5.0), (0, 2, 1, 2.0)]), known)
    path = tmp_path / "estimated.prof"
    write_run(path, Run("run.prof", (Process(10, threads=(Thread(sampled, 10, "MainThread"),)),)))
    return path


def exported(run: Path, to: str) -> bytes:
    output = run.with_name(f"out.{to}")
    assert exit_code("export", run, "--to", to, "-o", output) == 0
    return output.read_bytes()


#: Of proto/profile.proto of github.com/google/pprof: number, name and type (i int64, u uint64, s string) of fields.
SCHEMA = {
    "Profile": "1 sample_type *ValueType|2 sample *Sample|3 mapping *Mapping|4 location *Location"
    "|5 function *Function|6 string_table *s|9 time_nanos i|10 duration_nanos i|11 period_type ValueType|12 period i"
    "|13 comment *i|14 default_sample_type i",
    "ValueType": "1 type i|2 unit i",
    "Sample": "1 location_id *u|2 value *i|3 label *Label",
    "Label": "1 key i|2 str i|3 num i|4 num_unit i",
    "Mapping": "1 id u|5 filename i",
    "Location": "1 id u|2 mapping_id u|3 address u|4 line *Line",
    "Line": "1 function_id u|2 line i",
    "Function": "1 id u|2 name i|3 system_name i|4 filename i|5 start_line i",
}


@functools.cache
def pprof_class() -> Any:
    """Return the class that the protobuf package makes of the schema."""
    field = descriptor_pb2.FieldDescriptorProto
    plain = {"i": field.TYPE_INT64, "u": field.TYPE_UINT64, "s": field.TYPE_STRING}
    file = descriptor_pb2.FileDescriptorProto(name="p.proto", package="p", syntax="proto3")
    for name, fields in SCHEMA.items():
        made = file.message_type.add(name=name)
        for told in fields.split("|"):
            number, called, kind = told.split()
            label = field.LABEL_REPEATED if kind[0] == "*" else field.LABEL_OPTIONAL
            kind = kind.lstrip("*")
            one = made.field.add(name=called, number=int(number), label=label)
            one.type = plain.get(kind, field.TYPE_MESSAGE)
            if kind not in plain:
                one.type_name = f".p.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.Profile"))


def parsed(data: bytes) -> tuple[list[str], dict[tuple[str, ...], list[int]]]:
    """Read an export by the protobuf package: types of values, and values by stack, outermost first."""
    found = pprof_class().FromString(gzip.decompress(data))
    text = list(found.string_table)
    assert text[0] == ""
    names = {f.id: text[f.name] for f in found.function}
    places = {place.id: names[place.line[0].function_id] for place in found.location}
    types = [f"{text[t.type]}/{text[t.unit]}" for t in found.sample_type]
    assert text[found.default_sample_type] == "time"
    for sample in found.sample:
        labels = {text[label.key]: text[label.str] or label.num for label in sample.label}
        assert (labels["thread"], labels["pid"], labels["tid"]) == ("MainThread", 10, 10)
    return types, {tuple(places[i] for i in s.location_id)[::-1]: list(s.value) for s in found.sample}


def test_pprof_has_stacks_calls_and_waiting(story: Path) -> None:
    second = 10**9
    types, values = parsed(exported(story, "pprof"))
    assert types == ["calls/count", "time/nanoseconds", "queued/nanoseconds", "off_cpu/nanoseconds"]
    assert values == {
        ("main",): [1, second, 0, 0],
        ("main", "f"): [1, 2 * second, second // 2, 0],
        ("main", "g;h"): [1, 2 * second, 0, 0],
        ("main", "g;h", "f"): [1, 3 * second, 0, 0],
    }


def test_estimated_calls_are_not_written_as_exact(estimated: Path, capsys: Capture) -> None:
    types, values = parsed(exported(estimated, "pprof"))
    assert types == ["calls/count", "samples/count", "time/nanoseconds"]
    found = {stack: value[:2] for stack, value in values.items()}
    assert found == {("main",): [1, 0], ("f",): [0, 50], ("g;h",): [0, 20]}
    assert "left out: calls of 2 functions, which are estimated or not known" in capsys.readouterr().err
    written = marshal.loads(exported(estimated, "pstats"))
    calls = {name: (row[1], *(edge[0] for edge in row[4].values())) for (_, _, name), row in written.items()}
    assert calls == {"main": (1,), "f": (2, 2), "g;h": (0, 0)}
    assert "left out: that calls of 2 functions are estimates, or not known" in capsys.readouterr().err


def test_pprof_is_read_as_it_was_written(story: Path, tmp_path: Path) -> None:
    packed = exported(story, "pprof")
    for path, data in ((tmp_path / "a.pb.gz", packed), (tmp_path / "b", gzip.decompress(packed))):
        path.write_bytes(data)
        (process,) = load_run(path).processes
        (thread,) = process.threads
        assert (process.pid, thread.tid, thread.name) == (10, 10, "MainThread")
        read = thread.profile
        names = [read.strings[i] for i in read.qualname]
        found = set(zip(names, read.line, read.tottime, read.cumtime, strict=True))
        assert found == {("main", 1, 1.0, 8.0), ("f", 5, 5.0, 5.0), ("g;h", 9, 2.0, 5.0)}
        assert np.isnan(read.calls_low).all()


def go_profile(**changed: Any) -> bytes:
    """Make a profile as Go's runtime does, by the protobuf package: an inlined function, and code without symbols."""
    made = pprof_class()(
        string_table=[
            *("", "samples", "count", "cpu", "nanoseconds", "main.main", "main.work", "/src/main.go"),
            "/lib/libc.so",
        ],
        sample_type=[{"type": 1, "unit": 2}, {"type": 3, "unit": 4}],
        mapping=[{"id": 1, "filename": 8}],
        function=[{"id": 1, "name": 5, "filename": 7}, {"id": 2, "name": 6, "filename": 7}],
        location=[
            {"id": 1, "line": [{"function_id": 2, "line": 12}, {"function_id": 1, "line": 30}]},
            {"id": 2, "mapping_id": 1, "address": 4096},
        ],
        sample=[
            {"location_id": [1], "value": [3, 30_000_000]},
            {"location_id": [2, 1], "value": [1, 10_000_000]},
        ],
        period_type={"type": 3, "unit": 4},
        period=10_000_000,
    )
    for name, value in changed.items():
        made.ClearField(name)
        made.MergeFrom(pprof_class()(**{name: value}))
    return made.SerializeToString()


def test_a_profile_of_go_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cpu"
    path.write_bytes(go_profile())
    read = load_run(path).processes[0].threads[0].profile
    names = [read.strings[i] for i in read.qualname]
    assert set(zip(names, read.tottime.round(9), read.samples, strict=True)) == {
        ("main.main", 0.0, 0),
        ("main.work", 0.03, 3),
        ("[libc.so]", 0.01, 1),
    }
    # Without a value in a unit of time, samples are worth the period.
    counted = [{"location_id": [1], "value": [3]}, {"location_id": [2, 1], "value": [1]}]
    path.write_bytes(go_profile(sample_type=[{"type": 1, "unit": 2}], sample=counted))
    assert load_run(path).processes[0].threads[0].profile.total == pytest.approx(0.04)


def test_pprof_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "cpu.pb.gz"
    whole = go_profile()
    bomb = gzip.compress(whole + protobuf.message(2, protobuf.message(1, b"\1" * (1 << 25))))
    for data, says in (
        (go_profile(sample=[{"location_id": [1], "value": [1, -1]}]), "differences"),
        (go_profile(sample=[{"location_id": [1], "value": [1]}]), "more or fewer values"),
        (go_profile(sample=[{"location_id": [9], "value": [1, 1]}]), "damaged"),
        (go_profile(sample_type=[{"type": 8, "unit": 2}] * 2), "instead of time"),
        (go_profile(sample=[{"location_id": [1], "value": [2**63 - 1, 1]}]), "sample count or time"),
        (whole + protobuf.integer(2, 7), "no profile has"),
        (whole + protobuf.message(2, protobuf.packed(1, [1]) + b"\x10" + b"\xff" * 11), "64 bits"),
        (gzip.compress(whole)[:-9], "ended before"),
        (bomb, "may hold"),
    ):
        path.write_bytes(data)
        with pytest.raises(FormatError, match=says):
            load_run(path)
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        try:
            load_run(path)
        except FormatError:
            continue
        # It was cut off between two fields, and nothing that is left needs what is gone.
        assert whole[end] >> 3 > 6, end


def test_collapsed_stacks_and_callgrind_are_read_by_gprof2dot(story: Path) -> None:
    text = exported(story, "collapsed").decode()
    outer = 'process 10:main: python train.py;thread (10): "MainThread";main (<project>/a.py:1)'
    assert dict(line.rsplit(" ", 1) for line in text.splitlines()) == {
        outer: "1000000",
        f"{outer};f (<project>/a.py:5)": "1500000",
        f"{outer};f (<project>/a.py:5);[queued for a CPU]": "500000",
        f"{outer};g,h (<project>/a.py:9)": "2000000",
        f"{outer};g,h (<project>/a.py:9);f (<project>/a.py:5)": "3000000",
    }
    read = gprof2dot.CollapseParser(io.StringIO(text)).parse()
    assert sum(f[gprof2dot.SAMPLES] for f in read.functions.values()) == 8_000_000
    read = gprof2dot.CallgrindParser(io.StringIO(exported(story, "callgrind").decode())).parse()
    assert {f.name for f in read.functions.values()} == {"main", "f", "g;h"}


def test_callgrind_has_calls_between_functions(tmp_path: Path) -> None:
    sample = Path(__file__).parents[2] / "sample_profiles" / "tokenize_corpus" / "clean-1.prof"
    path = Path(shutil.copy(sample, tmp_path))
    read = gprof2dot.CallgrindParser(io.StringIO(exported(path, "callgrind").decode())).parse()
    total = sum(thread.profile.total for process in load_run(path).processes for thread in process.threads)
    events = [f.events for f in read.functions.values()]
    written = sum(next(v for e, v in event.items() if e.name == "Samples") for event in events)
    assert written == pytest.approx(1e9 * total, rel=1e-6)
    assert any(call.events for f in read.functions.values() for call in f.calls.values())


def test_firefox_has_both_runs_side_by_side(story: Path, tmp_path: Path) -> None:
    other, output = tmp_path / "other.prof", tmp_path / "both.json"
    other.write_bytes(story.read_bytes())
    assert exit_code("export", story, other, "--to", "firefox", "-o", output) == 0
    document = json.loads(output.read_bytes())
    assert [t["processName"] for t in document["threads"]] == [
        f"{p.name}: main: python train.py" for p in (story, other)
    ]
    assert len({t["pid"] for t in document["threads"]}) == 2
    for thread in document["threads"]:
        tables = "samples markers stackTable frameTable funcTable resourceTable nativeSymbols"
        for name in words_of(tables):
            table = thread[name]
            assert {len(c) for c in table.values() if isinstance(c, list)} <= {table["length"]}, name
        stacks, names = thread["stackTable"], thread["stringArray"]
        assert all(p is None or p < i for i, p in enumerate(stacks["prefix"]))
        frames: list[tuple[str, ...]] = []
        for frame, prefix in zip(stacks["frame"], stacks["prefix"], strict=True):
            name = names[thread["funcTable"]["name"][thread["frameTable"]["func"][frame]]]
            frames.append((*(() if prefix is None else frames[prefix]), name))
        samples = thread["samples"]
        assert {frames[s]: w for s, w in zip(samples["stack"], samples["weight"], strict=True)} == {
            ("main",): 1000.0,
            ("main", "f"): 1500.0,
            ("main", "f", "[queued for a CPU]"): 500.0,
            ("main", "g;h"): 2000.0,
            ("main", "g;h", "f"): 3000.0,
        }
        assert samples["time"] == sorted(samples["time"])


def test_firefox_tells_two_runs_of_one_name_apart(story: Path, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    other, output = tmp_path / "again" / story.name, tmp_path / "both.json"
    shutil.copy(story, other)
    assert exit_code("export", story, other, "--to", "firefox", "-o", output) == 0
    first, second = (thread["processName"] for thread in json.loads(output.read_bytes())["threads"])
    assert first != second


def test_tables_leave_empty_what_is_not_known(
    estimated: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    rows = {row["name"]: row for row in csv.DictReader(io.StringIO(exported(estimated, "csv").decode()))}
    assert [rows[n]["ncalls"] for n in ("main", "f", "g;h")] == ["1", "2", ""]
    assert (rows["f"]["calls_low"], rows["f"]["calls_high"], rows["f"]["pid"]) == ("1.5", "2.5", "10")
    table = pyarrow.parquet.read_table(io.BytesIO(exported(estimated, "parquet"))).to_pylist()
    assert [{k: "" if v is None else str(v) for k, v in row.items()} for row in table] == list(rows.values())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = refused(capsys, "export", estimated, "--to", "parquet", "-o", estimated.with_name("x"))
    assert "profkit[arrow]" in said


def test_names_of_any_kind_keep_the_form() -> None:
    """Line breaks, separators and bytes that are no text are in the names of functions, files and threads."""
    run = hostile_run()
    run = replace(run, manifest=replace(run.manifest, wall_s=1.0))
    lines = b"".join(collapsed_stacks(run).chunks).decode().split("\n")
    assert lines.pop() == ""
    assert all(re.fullmatch(r"\S.* [1-9]\d*", line) for line in lines)
    form = r"|[a-z]+: .*|(fl|cfi|c?fn)=\(\d+\)( \S.*)?|(calls=)?\d+ \d+|# callgrind format"
    text = b"".join(callgrind_profile(run, select(run).profile).chunks).decode()
    assert [line for line in text.split("\n") if not re.fullmatch(form, line)] == []
    assert pprof_class().FromString(b"".join(pprof_profile(run).chunks)).sample
    assert json.loads(b"".join(firefox_profile([run]).chunks))["threads"]
    rows = list(csv.reader(io.StringIO(b"".join(table_as_csv(run)).decode(), newline="")))
    assert {len(row) for row in rows} == {len(rows[0])}
