"""Placeholders of masked texts: type and length, ``<text 8>``.

In one report, only equal texts get equal placeholders (another is ``<text 8 b>``), so masked runs compare as
before. The letter is the order of first use, which reveals nothing of the text.
"""

from __future__ import annotations

import re
from collections.abc import Hashable

#: Placeholder of a secret, without its length.
MASK = "***"

#: Everything that masking writes; text masked earlier is left as it is.
PLACEHOLDER = re.compile(
    r"<(?:text|url|email|address|data|hex|number|dir|file|name|user)(?: \d{1,9})?(?: [a-z]{1,4})?>"
    r"|<\d{1,9} (?:words|hosts)(?: [a-z]{1,4})?>"
    r"|<(?:project|site|stdlib)(?:-\d{1,4})?>"
    r"|\*\*\*(?:-[a-z]{1,4}(?![A-Za-z0-9]))?"
    r"|(?<![A-Za-z0-9])(?:host|job)-[a-z]{1,4}(?![A-Za-z0-9])"
)


class Placeholders:
    def __init__(self) -> None:
        self._given: dict[str, dict[Hashable, int]] = {}
        self._next: dict[str, int] = {}

    def of(self, kind: str, value: Hashable, length: int | None = None) -> str:
        """Return a value's placeholder, equal for equal values of a `kind`; `length` is in characters."""
        label = kind if length is None else f"{kind} {length}"
        number = self._number(label, value)
        return f"<{label} {letters(number)}>" if number else f"<{label}>"

    def secret(self, value: Hashable) -> str:
        """Return the placeholder of a secret; a placeholder is returned unchanged."""
        if isinstance(value, str) and PLACEHOLDER.fullmatch(value):
            return value
        number = self._number(MASK, value)
        return f"{MASK}-{letters(number)}" if number else MASK

    def pseudonym(self, kind: str, name: str) -> str:
        """Return the pseudonym of a ``host`` or ``job``: ``host-a``; a pseudonym is returned unchanged."""
        return name if PLACEHOLDER.fullmatch(name) else f"{kind}-{letters(self._number(kind, name))}"

    def keep(self, text: str) -> None:
        """Reserve the placeholders that `text` contains from an earlier masking."""
        for found in PLACEHOLDER.finditer(text):
            shown = found.group()
            if not shown.startswith("<"):
                label, _, suffix = shown.partition("-")
            else:
                inner = shown.strip("<>")
                label, _, suffix = inner.rpartition(" ")
                if not label or not suffix.isalpha() or suffix in ("words", "hosts"):
                    label, suffix = inner, ""
            self._next[label] = max(self._next.get(label, 0), number_of(suffix) + 1)

    def _number(self, label: str, value: Hashable) -> int:
        given = self._given.setdefault(label, {})
        number = given.get(value)
        if number is None:
            number = given[value] = self._next.get(label, 0)
            self._next[label] = number + 1
        return number


def number_of(suffix: str) -> int:
    """Return the number of a suffix: the inverse of `letters`, 0 for none."""
    place = 0
    for letter in suffix:
        place = place * 26 + ord(letter) - ord("a") + 1
    return max(0, place - 1)


def letters(number: int) -> str:
    """Return ``a`` … ``z``, ``aa`` … for 0, 1, 2 and so on."""
    text = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(ord("a") + digit) + text
    return text
