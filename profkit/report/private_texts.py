"""Known private texts (secrets, hosts, users), found elsewhere in time independent of their number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

#: Placeholder of a user's name and of a home.
HOME = "~"

_ROW = re.compile(r"[^\W_]+")
_ENDS = re.compile(r"^[\W_]+|(?<![\W_])[\W_]+$")
#: Most characters of a private text, and most lengths per first run of letters and digits. No typed command
#: exceeds them, and the allow-list hides texts that do.
_MOST_LENGTH = 4096
_MOST_LENGTHS = 64


#: What may be before and behind a private text. A text that is distinct may begin inside of a word; others, which may
#: be common words (a host called ``train``), stand alone; users also stand in paths, addresses and assignments.
_DISTINCT = ((re.compile(""), re.compile(r"(?![^\W_])")),)
_WORD = ((re.compile(r"(?<![\w./-])"), re.compile(r"(?![\w/-]|\.\w)")),)
_USER = (*_WORD, (re.compile(r"(?<=[\\/_=:@])"), re.compile(r"(?=[\\/@:'\"\s])|\Z")))


class _Private(NamedTuple):
    #: Empty for a secret.
    shown: str
    around: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]

    def stands(self, text: str, begin: int, end: int) -> bool:
        return any(before.match(text, begin) and after.match(text, end) for before, after in self.around)


class PrivateTexts:
    """Find private texts and replace them; `secret` returns a secret's placeholder."""

    def __init__(self, secret: Callable[[str], str]) -> None:
        self._secret = secret
        self._known: dict[str, _Private] = {}
        self._lengths: dict[str, list[int]] = {}

    def add_secret(self, text: str) -> None:
        """Add a secret, without signs at its ends."""
        self._add(_ENDS.sub("", text), _Private("", _DISTINCT))

    def add_host(self, name: str, shown: str) -> None:
        """Add a host; names like ``gpu-node17`` are also found inside file names."""
        distinct = re.search(r"[\d.-]", name) is not None or len(name) >= 10
        self._add(name, _Private(shown, _DISTINCT if distinct else _WORD))

    def add_user(self, name: str) -> None:
        """Add a user's name, found in paths and as a word."""
        self._add(name, _Private(HOME, _USER))

    def _add(self, text: str, private: _Private) -> None:
        first = _ROW.match(text)
        if first is None or len(text) > _MOST_LENGTH or text in self._known:
            return
        lengths = self._lengths.setdefault(first.group(), [])
        if len(text) not in lengths:
            if len(lengths) == _MOST_LENGTHS:
                return
            lengths.append(len(text))
            lengths.sort(reverse=True)
        self._known[text] = private

    def may_be_in(self, texts: Iterable[str]) -> bool:
        """Return whether any of many texts may contain one; false for most tables of names."""
        return not self._lengths.keys().isdisjoint(_ROW.findall("\n".join(texts)))

    def replaced(self, text: str, *, users: bool = True) -> str:
        """Replace the private parts of a text, users' names only if `users`."""
        if not self._lengths:
            return text
        parts: list[str] = []
        done = 0
        for row in _ROW.finditer(text):
            begin = row.start()
            if begin < done:
                continue
            for length in self._lengths.get(row.group(), ()):
                end = begin + length
                private = self._known.get(text[begin:end]) if end <= len(text) else None
                if private is None or (private.around is _USER and not users):
                    continue
                if private.stands(text, begin, end):
                    parts += (text[done:begin], private.shown or self._secret(text[begin:end]))
                    done = end
                    break
        return "".join((*parts, text[done:])) if parts else text
