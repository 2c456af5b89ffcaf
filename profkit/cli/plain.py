"""Plain values for plain parameters: spares a command the import of a validation library.

Recent typer converts every value through pydantic, whose import takes longer than reading a profile. The
parameters of our commands are strings, whole numbers, paths and lists of them, which need no schema. Older
typer converts through click and is left as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args, get_origin

import typer

__all__ = ["use_plain_values"]


class _Plain:
    """Stands where typer would build a pydantic adapter; has the one method that typer calls."""

    def __init__(self, kind: type, many: bool) -> None:
        self.kind = kind
        self.many = many

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Convert one value, or each of several; ``None`` stays."""
        if value is None:
            return () if self.many else None
        return [self._one(item, param, ctx) for item in value] if self.many else self._one(value, param, ctx)

    def _one(self, value: Any, param: Any, ctx: Any) -> Any:
        if self.kind is int:
            return self._whole(value, param, ctx)
        return value if isinstance(value, self.kind) else self.kind(value)

    @staticmethod
    def _whole(value: Any, param: Any, ctx: Any) -> int:
        try:
            number = int(value)
        except ValueError:
            raise typer.BadParameter(f"{value!r} is not a whole number.", ctx=ctx, param=param) from None
        least = getattr(param, "min", None)
        if least is not None and number < least:
            raise typer.BadParameter(f"{number} is less than {least:g}.", ctx=ctx, param=param)
        return number


def use_plain_values(params: list[Any]) -> list[Any]:
    """Give parameters their own conversion, where typer would import pydantic for it, and return them."""
    for param in params:
        descriptor = getattr(param, "type_descriptor", None)
        if descriptor is None or not hasattr(param, "get_runtime_param"):
            continue
        annotation = descriptor.annotation
        many = get_origin(annotation) is list
        kind = get_args(annotation)[0] if many else annotation
        # A flag's value is a bool, or None where it was not given.
        if kind in (str, int, Path) or (kind is bool and getattr(param, "is_flag", False)):
            plain = _Plain(kind, many)
            param.get_runtime_param = lambda plain=plain: plain
    return params
