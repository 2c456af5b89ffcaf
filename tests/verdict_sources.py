"""The sources of the room that judges, for tests that what they name exists, and that each name is used."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOM = Path(__file__).resolve().parents[1] / "profkit" / "verdict"


@functools.cache
def sources() -> Mapping[str, ast.Module]:
    """Return the syntax tree of each module, by its path in the room."""
    return {
        path.relative_to(ROOM).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in ROOM.rglob("*.py")
    }


def calls(tree: ast.AST, called: str) -> Iterator[ast.Call]:
    """Calls of a function or method of this name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            of = node.func
            if called in (getattr(of, "id", ""), getattr(of, "attr", "")):
                yield node


def constants(tree: ast.AST) -> set[str]:
    """Every string that stands in a tree."""
    return {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
