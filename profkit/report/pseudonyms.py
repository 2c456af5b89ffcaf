"""Pseudonyms for a program's names (``--mask-names``).

Words without a public meaning become ``n_`` and ten hexadecimal digits, an HMAC with the user's secret: equal
in all outputs of that user, and not guessable without the secret.
"""

from __future__ import annotations

import builtins
import hashlib
import hmac
import re
from collections.abc import Iterable

from profkit.identity.rooted_paths import rooted
from profkit.model import BUILTIN, SITE, STDLIB, Profile, Roots, Run
from profkit.report.known_words import is_known, is_standard_module, suffix_of
from profkit.report.placeholders import PLACEHOLDER
from profkit.report.recorded_texts import roots_of

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


class Pseudonyms:
    """Replace the non-public words of names; whoever knows `secret` can find names by trial.

    Functions of the standard library and of packages in `runs` define the public words.
    """

    def __init__(self, secret: bytes, runs: Iterable[Run]) -> None:
        self._secret = secret
        self._public: set[str] = set(_PYTHONS)
        self._packages: set[str] = set()
        self._given: dict[str, str] = {}
        gathered = list(runs)
        for run in gathered:
            if run.manifest is not None:
                self._packages.update(re.sub(r"[-.]+", "_", name) for name in run.manifest.packages)
        for run in gathered:
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
            return hasattr(builtins, words[-1])
        return all(hasattr(builtins, word) or self._is_public_module(word) for word in words)

    def _is_public_module(self, top: str) -> bool:
        return top == "builtins" or top in self._packages or is_standard_module(top)

    def is_public(self, word: str) -> bool:
        """Return whether a word of a name may be shown."""
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

    def _of(self, word: str) -> str:
        known = self._given.get(word)
        if known is None:
            known = word
            if not self.is_public(word):
                made = hmac.new(self._secret, word.encode("utf-8", "surrogatepass"), hashlib.sha256)
                known = f"n_{made.hexdigest()[:_DIGITS]}"
            self._given[word] = known
        return known
