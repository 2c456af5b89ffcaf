"""Writes the tables of docs/doctor.md from what was measured: which limits each library honours.

python docs/limits.py           # writes them; a test asserts that they are up to date
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from profkit.report.wording.doctor import title_of
from profkit.study.doctor_libraries import DOCUMENTED, LIBRARIES, TABLE, Honours, Library

PAGE = Path(__file__).with_name("doctor.md")
_TABLES = re.compile(r"(?<=<!-- tables: docs/limits.py -->\n).*?(?=<!-- end of tables -->)", re.DOTALL)
_CAPS = {"": "", "default": " (no more than the default)", "machine": " (no more than the machine has)"}
_ROUNDED = {"floor": "rounded down", "ceil": "rounded up", "round": "rounded"}


def page() -> str:
    """The whole page with its tables as they would be written now."""
    tables = "\n".join(_lines())
    return _TABLES.sub(lambda _: f"\n{tables}\n\n", PAGE.read_text(encoding="utf-8"))


def _lines() -> Iterator[str]:
    yield f"Measured on {TABLE.date} on {TABLE.machine}."
    yield ""
    yield "| starts | measured with | default | affinity | CPU quota | variables, highest priority first |"
    yield "|---|---|---|---|---|---|"
    libraries = {library.name: library for library in LIBRARIES}
    for row in TABLE.limits:
        if row.library in libraries:
            yield _row(libraries[row.library], row)
    yield ""
    yield "Not measured, but read in documentation or source:"
    yield ""
    yield "| starts | about | default | affinity | CPU quota | variables | source |"
    yield "|---|---|---|---|---|---|---|"
    for row in DOCUMENTED:
        yield f"{_row(libraries[row.library], row)} {row.source} |"


def _row(library: Library, row: Honours) -> str:
    variables = ", ".join(f"`{v.name}`" + (_CAPS[v.cap]) for v in row.variables)
    fixed = library.per == "fixed"
    cells = (
        title_of(library.name),
        f"{row.version}" + (f", Python {row.python}" if row.python and "Python" not in row.version else ""),
        _default(library),
        "–" if fixed else "yes" if row.affinity else "no",
        "–" if fixed else f"{_ROUNDED[row.quota]}; {', '.join(row.views)}" if row.quota else "no",
        variables or "none",
    )
    return f"| {' | '.join(cells)} |"


def _default(library: Library) -> str:
    noun = {"threads": "thread", "processes": "process"}[library.starts]
    if library.per == "fixed":
        return f"{library.plus} {noun if library.plus == 1 else library.starts}"
    text = f"1 {noun} a {'core' if library.per == 'core' else 'CPU'}"
    if library.plus:
        text += f", and {library.plus}"
    if library.most is not None:
        text += f"; at most {library.most}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
