"""Results as strict JSON: records become objects, unknown values null."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any

import numpy as np

from profkit.model import Notice
from profkit.model.surrogates import spelled_out
from profkit.report.notices import notice_text


def dumps(value: object) -> str:
    """Return one JSON document, ended by a newline."""
    # ASCII survives every locale, and leaves a terminal escape as the text "\\u001b".
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """Return any part of a result as JSON values; notices get their sentences."""
    if isinstance(value, str):
        return spelled_out(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Notice):
        return members(value, "code subject numbers text", text=spelled_out(notice_text(value)))
    if isinstance(value, Mapping):
        return {spelled_out(str(key)): plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return spelled_out(str(value))


def members(record: object, names: str, /, **computed: Any) -> dict[str, Any]:
    """Return an object with these members of a record, in this order.

    ``total_s`` is the field of that name, ``own_s=pace_s`` renames one, ``root=key.root`` takes a field's
    field; ``cause?`` is null if empty. `computed` members are JSON values already.
    """
    return {
        name: computed[name] if name in computed else plain(read(record)) for name, read in _members(names)
    }


@cache
def _members(names: str) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    found: list[tuple[str, Callable[[Any], Any]]] = []
    for word in names.split():
        name, _, path = word.removesuffix("?").partition("=")
        read = attrgetter(path or name)
        found.append((name, _or_none(read) if word.endswith("?") else read))
    return tuple(found)


def _or_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda record: read(record) or None


def json_number(value: float | None) -> float | None:
    """Return finite numbers unchanged; NaN, infinities and ``None`` become null."""
    if value is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def next_command(argv: Sequence[str], why: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return an entry of ``next_commands``: the command, its variables and its purpose."""
    return {"argv": plain(list(argv)), "env": plain(env or {}), "why": spelled_out(why)}
