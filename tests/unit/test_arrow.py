"""Tables given to data frame libraries: values, nulls, strings that are no text, and memory that is let go."""

from __future__ import annotations

import gc
import json
import sys
import weakref

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profkit
from profkit.api.columns import Column, Columns, flags, numbers, texts, wholes
from profkit.errors import ProfkitError
from tests.unit.test_api import CLEAN, SLOW

MIXED = Columns(
    {
        "name": texts(["a", None, "", "函数", "caf\udce9"]),
        "time": numbers([1.5, None, 0.0, float("nan"), -2.25]),
        "count": wholes([3, None, -(2**63), 2**63 - 1, 0]),
        "calls": wholes(np.arange(5)),
        "new": flags([True, None, False, True, None]),
        "hot": flags(np.array([True, False, True, True, False])),
    }
)
#: The same as plain values; what is no text is spelled.
VALUES = {
    "name": ["a", None, "", "函数", "caf\\udce9"],
    "time": [1.5, None, 0.0, None, -2.25],
    "count": [3, None, -(2**63), 2**63 - 1, 0],
    "calls": [0, 1, 2, 3, 4],
    "new": [True, None, False, True, None],
    "hot": [True, False, True, True, False],
}


def test_pyarrow_finds_it_valid() -> None:
    table = pyarrow.table(MIXED)
    table.validate(full=True)
    assert table.to_pydict() == VALUES == MIXED.to_dict()
    types = [str(field.type) for field in table.schema]
    assert types == ["large_string", "double", "int64", "int64", "bool", "bool"]
    assert [column.null_count for column in table.columns] == [1, 2, 1, 0, 2, 0]


def test_polars_takes_it() -> None:
    frame = polars.DataFrame(MIXED)
    assert frame.to_dict(as_series=False) == VALUES
    assert (frame.schema["count"], frame.schema["new"]) == (polars.Int64, polars.Boolean)


def test_pandas_takes_it() -> None:
    if hasattr(pandas.DataFrame, "from_arrow"):
        frame = pandas.DataFrame.from_arrow(MIXED)
    else:  # before pandas 3.0
        frame = pyarrow.table(MIXED).to_pandas()
    assert frame["calls"].tolist() == VALUES["calls"]
    assert frame["name"].tolist()[3:] == VALUES["name"][3:]
    for name in ("name", "time"):
        assert frame[name].isna().tolist() == [value is None for value in VALUES[name]]
    assert pandas.DataFrame(MIXED.to_dict())["calls"].dtype == np.int64


def test_a_table_without_columns() -> None:
    read = pyarrow.RecordBatchReader.from_stream(Columns({})).read_all()
    read.validate(full=True)
    assert (read.num_rows, read.column_names, polars.DataFrame(Columns({})).shape) == (0, [], (0, 0))


def test_real_tables() -> None:
    found, run = profkit.diff(CLEAN, SLOW), profkit.read(SLOW)
    for table in (found.functions(), found.ranges(), run.functions(), run.threads()):
        read = pyarrow.table(table)
        read.validate(full=True)
        assert read.num_rows == len(table)
        assert read.to_pydict() == table.to_dict()
        assert polars.DataFrame(table).shape == (len(table), len(table.keys()))


values = st.one_of(
    st.lists(st.none() | st.text(st.characters(codec=None), max_size=6)).map(texts),
    st.lists(st.none() | st.floats()).map(numbers),
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)).map(wholes),
    st.lists(st.none() | st.booleans()).map(flags),
)


@given(values)
def test_whatever_is_in_a_column(column: Column) -> None:
    table = Columns({"x\n": column})
    read = pyarrow.table(table)
    read.validate(full=True)
    assert read.to_pydict() == table.to_dict()
    assert polars.DataFrame(table).to_dict(as_series=False) == table.to_dict()
    json.dumps(table.to_dict(), allow_nan=False).encode("ascii")


def test_numbers_are_not_copied() -> None:
    values = np.arange(1000, dtype=np.float64)
    read = pyarrow.table(Columns({"x": numbers(values)}))
    assert read.column(0).chunk(0).buffers()[1].address == values.ctypes.data


def test_memory_lives_as_long_as_it_is_used_and_no_longer() -> None:
    values = np.arange(1000.0)
    gone = weakref.ref(values)
    made = Columns({"x": numbers(values)})
    column = pyarrow.table(made).column(0)  # a child that outlives its parent
    del made, values
    gc.collect()
    assert column.to_pylist() == list(range(1000))
    del column
    gc.collect()
    assert gone() is None


def test_without_pyarrow_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ProfkitError, match=r"pip install 'profkit\[arrow\]'"):
        MIXED.__arrow_c_stream__()
    assert MIXED.to_dict() == VALUES


def test_a_stream_is_read_once() -> None:
    reader = pyarrow.RecordBatchReader.from_stream(MIXED)
    assert len(list(reader)) == 1
    with pytest.raises(StopIteration):
        reader.read_next_batch()
