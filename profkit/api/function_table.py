"""Write the functions of a run, by process, as CSV or Parquet; unknown values are empty or null."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace

from profkit import model
from profkit.api.columns import Columns
from profkit.api.run import Run
from profkit.errors import FormatError, UsageError
from profkit.formats.export.timeline import process_label
from profkit.model.surrogates import spelled_out


def table_as_csv(run: model.Run) -> Iterator[bytes]:
    """Yield the table as CSV; raises `FormatError` if the run has no function."""
    tables = _tables(run)

    def chunks() -> Iterator[bytes]:
        yield _line(["process", "pid", *tables[0][1].keys()])
        for process, table in tables:
            who = [spelled_out(process_label(process)), process.pid]
            yield b"".join(_line([*who, *row]) for row in zip(*table.to_dict().values(), strict=True))

    return chunks()


def table_as_parquet(run: model.Run) -> Iterator[bytes]:
    """Yield the table as Parquet; raises `UsageError` without pyarrow, `FormatError` without functions."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
        import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise UsageError("--to parquet needs pyarrow: pip install 'profkit[arrow]'") from None
    parts = []
    for process, functions in _tables(run):
        n = len(functions)
        named = pa.array([spelled_out(process_label(process))] * n, pa.large_string())
        table = pa.table(functions).add_column(0, "process", named)
        parts.append(table.add_column(1, "pid", pa.array([process.pid] * n, pa.int64())))
    file = io.BytesIO()
    pq.write_table(pa.concat_tables(parts), file)
    return iter((file.getvalue(),))


def _tables(run: model.Run) -> list[tuple[model.Process, Columns]]:
    with_functions = [p for p in run.processes if any(len(t.profile) for t in p.threads)]
    if not with_functions:
        raise FormatError(run.path, "holds no function that could be written")
    return [(p, Run(run, replace(run, processes=(p,)), "tottime", None).functions()) for p in with_functions]


def _line(values: list[object]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue().encode()
