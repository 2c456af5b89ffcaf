"""Dataclasses as JSON objects and back, as their types say; and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional, TypedDict

import numpy as np
import pytest

from profkit.formats.codec import Codec, MemberError
from profkit.model import Edges, Profile, Ranges, ThreadSamples
from profkit.model.bounds import Bounds
from profkit.model.columns import column_dtypes

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
class Span:
    """A record that says itself what stands for it."""

    begin: int
    end: int

    def as_json(self) -> str:
        return f"{self.begin}-{self.end}"

    @classmethod
    def from_json(cls, value: object) -> Span:
        begin, dash, end = str(value).partition("-")
        if not dash:
            raise ValueError("is not a span")
        return cls(int(begin), int(end))


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
    span: Span | None = None
    spans: tuple[Span, ...] = ()
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
FULL = Whole(
    "ä\udce9",
    *(-3, 2.5, True, 0.5, 7),
    ("a", "b"),
    (Part("p"), Part("q", 2)),
    Part("r", 3),
    Span(1, 2),
    (Span(3, 4),),
    {"x": 1.0},
    {"y": Part("s")},
    0.25,
    9,
    {"z": 0.5},
    {"share": None, "flag": True},
    "ended",
    0.5,
)
LEAST = {"text": "", "number": 0, "seconds": 0}


def through_json(record: Whole) -> Any:
    return json.loads(json.dumps(CODEC.write(record), allow_nan=False))


@pytest.mark.parametrize("record", [FULL, Whole("", 0, 0.0)], ids=["full", "defaults"])
def test_what_is_written_is_read(record: Whole) -> None:
    assert CODEC.read("it", through_json(record)) == record


def test_what_stands_for_a_record() -> None:
    written = through_json(FULL)
    assert written["parts"] == [{"name": "p", "size": 1}, {"name": "q", "size": 2}]
    assert (written["span"], written["spans"]) == ("1-2", ["3-4"])
    assert "kept_out" not in written


def test_numbers_that_their_types_do_not_allow_are_not_known() -> None:
    """A counter that ran backwards must not cost the run: what would be refused is not written."""
    odd = Whole("", 0, 1.0, few=10, shares={"a": -1.0, "b": 1.0}, loose={"share": 2.0})
    written = through_json(odd)
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
        ({"span": "12"}, "it.span is not a span"),
        ({"spans": ["1-2", "x"]}, "it.spans 1 is not a span"),
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


def test_columns_are_what_the_types_say() -> None:
    """The layout of the run file, which must not change by itself (docs/format.md)."""
    index, count, time = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.float64)
    texts = dict.fromkeys(("file", "line", "name", "qualname", "module", "source_hash"), index)
    costs = {"ncalls": count, "primitive_calls": count, "tottime": time, "cumtime": time}
    waits = dict.fromkeys(("wait", "blocked", "cumwait", "cumblocked"), time)
    assert list(column_dtypes(Profile).items()) == list({**texts, **costs}.items())
    estimates = {"calls_low": time, "calls_high": time, "samples": count, "tottime_error": time}
    assert list(column_dtypes(Profile, optional=True).items()) == list({**waits, **estimates}.items())
    assert list(column_dtypes(Edges).items()) == list({"caller": index, "callee": index, **costs}.items())
    assert column_dtypes(Edges, optional=True) == {}
    assert column_dtypes(ThreadSamples) == dict.fromkeys(("tid", "time_ns", "run_ns", "wait_ns"), count)
    assert column_dtypes(Ranges) == {
        **dict.fromkeys(("name", "domain", "category", "parent"), index),
        **dict.fromkeys(("kind", "payload_type"), np.dtype(np.uint8)),
        **dict.fromkeys(("thread", "begin_ns", "end_ns"), count),
        "color": np.dtype(np.uint32),
        "payload": np.dtype(np.uint64),
    }
