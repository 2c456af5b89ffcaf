"""The words that a masked report may show: the lists of ``assets/known-words.txt`` as sets."""

from __future__ import annotations

import re
import sys
from functools import cache

from profkit.capture.agent.settings import RECORDED_VARIABLES
from profkit.report.markup import assets

#: Separators in a compound such as ``use-hwthread-cpus``, whose parts must all be known.
_PARTS = re.compile(r"[._-]+")
_SMALL_NUMBER = re.compile(r"\d{1,4}")
_PYTHON = re.compile(r"python\d?(?:\.\d{1,2})?t?", re.IGNORECASE)
_SCALED = (
    r"[+-]?(?:\d{1,10}(?:[._]\d{1,10})?|\.\d{1,10})(?:[eE][+-]?\d{1,3})?"
    r"(?:[kKMGTP]i?[bB]?|[gmb]b?|ms|us|ns|s|h|d|%|px|[GM]?[hH]z)?(?![A-Za-z0-9])"
)
_VERSION = r"\d{1,4}\.\d{1,4}\.\d{1,4}(?![\w.])"
_SHAPE = r"\d{1,6}(?:x\d{1,6}){1,3}(?![A-Za-z0-9])"
_HEX = r"0[xX][0-9a-fA-F]{1,8}(?![A-Za-z0-9])"
NUMBER = rf"(?:{_SHAPE}|{_VERSION}|{_HEX}|{_SCALED})"
_NUMBER_ALONE = re.compile(NUMBER)
#: Sections whose words are not values of an option.
_APART = ("suffixes", "messages")


def asset_lines(name: str) -> list[str]:
    """Return a file of ``assets`` as lines, without empty ones and comments."""
    return [line for line in assets(name).splitlines() if line and line[0] != "#"]


@cache
def _sections() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    words: set[str] = set()
    for line in asset_lines("known-words.txt"):
        if line.startswith("["):
            words = found.setdefault(line.strip("[]"), set())
        else:
            words.update(line.lower().split())
    return {name: frozenset(listed) for name, listed in found.items()}


@cache
def _values() -> frozenset[str]:
    words = (words for name, words in _sections().items() if name not in _APART)
    # Names of variables that a report shows by themselves, as after ``env -u``.
    return frozenset(map(str.lower, RECORDED_VARIABLES)).union(*words)


@cache
def _said() -> frozenset[str]:
    return _values() | _sections()["messages"]


def is_known(word: str) -> bool:
    """Return whether a command line may show this word: known, or a compound of known words."""
    return _is_in(word, _values())


def is_said(word: str) -> bool:
    """Return whether a message may show this word."""
    return _is_in(word, _said())


def _is_in(word: str, known: frozenset[str]) -> bool:
    lower = word.lower()
    if lower in known or _PYTHON.fullmatch(word) is not None:
        return True
    if len(word) > 60 or lower.isalpha():
        return False
    parts = _PARTS.split(lower)
    # A compound may contain numbers (sizes, versions), but needs a known word.
    return (
        len(parts) > 1
        and all(not part or part in known or _SMALL_NUMBER.fullmatch(part) for part in parts)
        and any(part in known and len(part) > 1 for part in parts)
    )


def suffix_of(name: str) -> str:
    """Return a file name's known suffix with its dot, both of ``x.tar.gz``; empty without one."""
    stem, dot, last = name.rpartition(".")
    if not (stem and dot and last.lower() in _sections()["suffixes"]):
        return ""
    inner = stem.rpartition(".")
    more = f".{inner[2]}" if inner[0] and inner[2].lower() in _sections()["suffixes"] else ""
    return f"{more}.{last}"


def is_standard_module(name: str) -> bool:
    return name in sys.stdlib_module_names


def is_number(text: str) -> bool:
    """Return whether a number may be shown: long digit strings identify accounts, cards and telephones."""
    return _NUMBER_ALONE.fullmatch(text) is not None
