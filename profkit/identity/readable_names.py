"""Function names for reports, without cProfile's words around built-in ones."""

from __future__ import annotations

import builtins
import re

_METHOD = re.compile(r"<method '([^']+)' of '([^']+)' objects>")
_BUILTIN = re.compile(
    r"<built-in method ([^\s>]+)(?: of (?:type object|(\S+) object))?(?: at 0x[0-9A-Fa-f]+)?>"
)


def is_anonymous(name: str) -> bool:
    """Return whether a Python function has no name of its own: a module's body, a comprehension, a lambda."""
    return name.rpartition(".")[2].startswith("<")


#: Native modules of the standard library that compute in the calling thread, and wait for nothing.
_COMPUTE = re.compile(
    r"_?(?:bisect|blake2|bz2|collections|csv|datetime|decimal|elementtree|hashlib|heapq|json|lzma|md5|pickle|random)"
    r"|_sha\d+|_sre|_struct|array|binascii|c?math|functools|itertools|marshal|pyexpat|re|unicodedata|zlib"
)
#: Built-in functions that do not compute alone.
_NOT_ALONE = frozenset(("__import__", "breakpoint", "compile", "eval", "exec", "input", "open", "print"))


def only_computes(name: str) -> bool:
    """Return whether a native function of Python computes in the calling thread, and waits for nothing."""
    first, _, rest = readable_name(name).partition(".")
    if first == "builtins":
        return rest not in _NOT_ALONE
    return bool(rest) and (_COMPUTE.fullmatch(first) is not None or hasattr(builtins, first))


def readable_name(name: str) -> str:
    """Return a name without cProfile's words: ``list.sort`` for ``<method 'sort' of 'list' objects>``."""
    match = _METHOD.fullmatch(name) or _BUILTIN.fullmatch(name)
    if match is None:
        return name
    function, owner = match.groups()
    return f"{owner}.{function}" if owner else str(function)
