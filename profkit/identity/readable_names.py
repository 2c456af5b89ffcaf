"""Function names for reports, without cProfile's words around built-in ones."""

from __future__ import annotations

import re

_METHOD = re.compile(r"<method '([^']+)' of '([^']+)' objects>")
_BUILTIN = re.compile(
    r"<built-in method ([^\s>]+)(?: of (?:type object|(\S+) object))?(?: at 0x[0-9A-Fa-f]+)?>"
)


def is_anonymous(name: str) -> bool:
    """Return whether a Python function has no name of its own: a module's body, a comprehension, a lambda."""
    return name.rpartition(".")[2].startswith("<")


def readable_name(name: str) -> str:
    """Return a name without cProfile's words: ``list.sort`` for ``<method 'sort' of 'list' objects>``."""
    match = _METHOD.fullmatch(name) or _BUILTIN.fullmatch(name)
    if match is None:
        return name
    function, owner = match.groups()
    return f"{owner}.{function}" if owner else str(function)
