"""What stands for a masked text: its type and its length, ``<text 8>``.

Two texts of one report that differ are shown differently (``<text 8>`` and ``<text 8 b>``) and two that are equal
alike, so that a masked run is compared as the run itself. The letter says only in which order they were met: nothing
is computed from the text, and it cannot be guessed.
"""

from __future__ import annotations

import re
from collections.abc import Hashable

#: What stands for a secret: not even its length is said.
MASK = "***"

#: Everything that masking writes: what is found in a run that was masked before is left as it is.
PLACEHOLDER = re.compile(
    r"<(?:text|url|email|address|data|hex|number|dir|file|name|user)(?: \d{1,9})?(?: [a-z]{1,4})?>"
    r"|<\d{1,9} (?:words|hosts)(?: [a-z]{1,4})?>"
    r"|<(?:project|site|stdlib)(?:-\d{1,4})?>"
    r"|\*\*\*(?:-[a-z]{1,4}(?![A-Za-z0-9]))?"
    r"|(?<![A-Za-z0-9])(?:host|job)-[a-z]{1,4}(?![A-Za-z0-9])"
)


class Placeholders:
    """Hands out what stands for masked texts in one report."""

    def __init__(self) -> None:
        self._given: dict[str, dict[Hashable, int]] = {}
        self._next: dict[str, int] = {}

    def of(self, kind: str, value: Hashable, length: int | None = None) -> str:
        """Return what stands for a value.

        Parameters
        ----------
        kind
            ``text``, ``url``, ``dir`` …
        value
            The same value of a kind has the same placeholder.
        length
            Characters, where that is to be said.
        """
        label = kind if length is None else f"{kind} {length}"
        suffix = self._suffix(label, value)
        return f"<{label} {suffix}>" if suffix else f"<{label}>"

    def secret(self, value: Hashable) -> str:
        """Return what stands for a secret, which may stand for it already."""
        if isinstance(value, str) and PLACEHOLDER.fullmatch(value):
            return value
        suffix = self._suffix(MASK, value)
        return f"{MASK}-{suffix}" if suffix else MASK

    def left_out(self, count: int, what: str, value: Hashable) -> str:
        """Return what stands for the rest of a long list."""
        suffix = self._suffix(f"{count} {what}", value)
        return f"<{count} {what} {suffix}>" if suffix else f"<{count} {what}>"

    def keep(self, text: str) -> None:
        """Give none that is in `text` already, which was masked before."""
        for found in PLACEHOLDER.finditer(text):
            shown = found.group()
            if shown.startswith(MASK):
                label, _, suffix = shown.partition("-")
            else:
                inner = shown.strip("<>")
                label, _, suffix = inner.rpartition(" ")
                if not label or not suffix.isalpha() or suffix in ("words", "hosts"):
                    label, suffix = inner, ""
            self._next[label] = max(self._next.get(label, 0), _number(suffix) + 1)

    def _suffix(self, label: str, value: Hashable) -> str:
        given = self._given.setdefault(label, {})
        number = given.get(value)
        if number is None:
            number = given[value] = self._next.get(label, 0)
            self._next[label] = number + 1
        return letters(number) if number else ""


def _number(suffix: str) -> int:
    """Return the place that a suffix stands for: the inverse of `letters`, 0 for none."""
    place = 0
    for letter in suffix:
        place = place * 26 + ord(letter) - ord("a") + 1
    return max(0, place - 1)


def letters(number: int) -> str:
    """Return ``a`` … ``z``, ``aa`` … for 0, 1, 2 …"""
    text = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(ord("a") + digit) + text
    return text
