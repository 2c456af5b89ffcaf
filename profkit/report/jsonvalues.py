"""Single values as strict JSON holds them, for every builder of JSON output."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def json_number(value: float | None) -> float | None:
    """Return finite numbers unchanged; NaN, infinities and ``None`` become null."""
    if value is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def json_text(value: str) -> str:
    r"""Spell lone surrogates (undecodable bytes) as ``\udcXX``: strict JSON readers reject them."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")


def json_texts(values: Iterable[str]) -> list[str]:
    """Return each text as `json_text` spells it."""
    return [json_text(value) for value in values]


def next_command(argv: Sequence[str], why: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return an entry of ``next_commands``: the command, its variables and its purpose."""
    variables = {json_text(name): json_text(value) for name, value in (env or {}).items()}
    return {"argv": json_texts(argv), "env": variables, "why": json_text(why)}
