"""What stands for private texts: placeholders with type and length (``<text 8>``), and pseudonyms of names.

In one report, only equal texts get equal placeholders (another is ``<text 8 b>``), so masked runs compare as
before. The letter is the order of first use, which reveals nothing of the text.
"""

from __future__ import annotations

import builtins
import hashlib
import hmac
import re
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from profkit.identity.rooted_paths import rooted
from profkit.model import BUILTIN, SITE, STDLIB, Profile, Roots, Run
from profkit.report.known_words import is_known, is_standard_module, suffix_of
from profkit.report.recorded_texts import roots_of

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
#: Label of a placeholder, and the letters that number it if there are several; ``<5 words>`` has none.
_NUMBERED = re.compile(r"^<?(.+?)(?:[ -]([a-z]{1,4}))?>?$")


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
            ((label, suffix),) = _NUMBERED.findall(found.group())
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
_ALONE = ((re.compile(r"(?<![\w./-])"), re.compile(r"(?![\w/-]|\.\w)")),)
_USER = (*_ALONE, (re.compile(r"(?<=[\\/_=:@])"), re.compile(r"(?=[\\/@:'\"\s])|\Z")))


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
        self._add(name, _Private(shown, _DISTINCT if distinct else _ALONE))

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


_WORDS = re.compile(rf"(?P<shown>{PLACEHOLDER.pattern})|(?P<word>[^\W\d]\w*)")
_WORD = re.compile(r"[^\W\d]\w*")
_DOTTED = re.compile(r"(?<!\w)[^\W\d]\w*(?:\.\w+)+")
_MADE = re.compile(r"n_[0-9a-f]{10}")
#: Hexadecimal digits of a pseudonym: 10,000 words have a collision with a probability of 1 in 20,000.
_DIGITS = 10
#: Words that Python itself puts into names of functions and threads.
_PYTHONS = frozenset(
    """
    lambda listcomp dictcomp setcomp genexpr locals module frozen string stdin built method function of objects
    MainThread Thread Dummy ThreadPoolExecutor QueueFeederThread QueueManagerThread
    """.split()  # noqa: SIM905
)
#: Built-in functions and types, and what these types have: ``list.append`` is public, whether or not a run calls it.
_BUILT_IN = {
    *vars(builtins),
    *(name for kind in vars(builtins).values() if isinstance(kind, type) for name in dir(kind)),
}


class Pseudonyms:
    """Replace the non-public words of names; whoever knows `secret` can find names by trial.

    Functions of the standard library and of packages in `runs` define the public words.
    """

    def __init__(self, secret: bytes, runs: Iterable[Run]) -> None:
        self._secret = secret
        self._public = {*_PYTHONS, *_BUILT_IN}
        self._packages: set[str] = set()
        self._given: dict[str, str] = {}
        for run in runs:
            roots = roots_of(run)
            for profile in {id(profile): profile for profile in run.profiles}.values():
                self._learn(profile, roots)

    def _learn(self, profile: Profile, roots: Roots) -> None:
        strings = profile.strings
        origin = {at: rooted(strings[at], roots) for at in set(profile.file.tolist())}
        columns = (profile.file, profile.name, profile.qualname, profile.module)
        rows = set(zip(*(column.tolist() for column in columns), strict=True))
        for file, *_ in rows:
            root, inside = origin[file]
            if root in (STDLIB, SITE):
                self._public.update(_WORD.findall(inside))
                if root == SITE:
                    self._packages.add(inside.partition("/")[0].removesuffix(".py"))
        for file, *called in rows:
            root, _ = origin[file]
            texts = [strings[at] for at in called]
            if root in (STDLIB, SITE) or (root == BUILTIN and all(map(self._is_public_builtin, texts))):
                for text in texts:
                    self._public.update(_WORD.findall(text))

    def _is_public_builtin(self, text: str) -> bool:
        """Return whether a C function belongs to Python or a package, by its module or name."""
        dotted = _DOTTED.findall(text)
        if dotted:
            return all(self._is_public_module(name.partition(".")[0]) for name in dotted)
        words = [word for word in _WORD.findall(text) if word not in _PYTHONS]
        if " of " in text and words:  # <method 'append' of 'list' objects>
            return words[-1] in _BUILT_IN
        return all(word in _BUILT_IN or self._is_public_module(word) for word in words)

    def _is_public_module(self, top: str) -> bool:
        return top == "builtins" or top in self._packages or is_standard_module(top)

    def is_public(self, word: str) -> bool:
        return (
            word in self._public
            or word in self._packages
            or is_known(word)
            or is_standard_module(word)
            or (word.startswith("__") and word.endswith("__"))
            or suffix_of(f"x.{word}") != ""
            or _MADE.fullmatch(word) is not None
        )

    def are_public(self, text: str) -> bool:
        return all(self.is_public(word) for word in _WORD.findall(text))

    def masked(self, text: str) -> str:
        return _WORDS.sub(lambda found: found["shown"] or self._of(found["word"]), text)

    def digest(self, text: str) -> str:
        """Return hexadecimal digits, equal for equal texts, that cannot be computed without the secret."""
        return hmac.new(self._secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def _of(self, word: str) -> str:
        known = self._given.get(word)
        if known is None:
            known = word if self.is_public(word) else f"n_{self.digest(word)[:_DIGITS]}"
            self._given[word] = known
        return known
