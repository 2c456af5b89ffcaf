"""Mask command lines by an allow-list.

Known words, numbers, option names, profiled files and imported modules are shown. Others become placeholders,
equal for equal values, so masked commands differ only where the originals do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from profkit.model import PROJECT
from profkit.report.known_words import NUMBER, is_known, is_number, is_standard_module, suffix_of
from profkit.report.learned_texts import HOMES, HOST_OPTION, NOBODY, LearnedTexts
from profkit.report.placeholders import HOME, PLACEHOLDER
from profkit.report.secrets import holds_password, holds_secret, looks_random, masked_by_rules

#: Words of a command that are shown; the rest is counted.
MOST_WORDS = 400
#: Hosts shown of a list, and characters of a shown value.
MOST_HOSTS = 32
MOST_CHARACTERS = 160

_SPACES = re.compile(r"\s")
#: Parts of a shown value: placeholders, numbers, words, and signs between them.
_ATOM = re.compile(
    rf"(?P<shown>{PLACEHOLDER.pattern})|(?P<number>{NUMBER})"
    rf"|(?P<word>[A-Za-z_][A-Za-z0-9_.-]*)|(?P<sign>[,:;=|+*^()\[\]{{}}-])"
)
#: The end of ``0-3``, a list of CPUs; more digits may be those of a telephone number.
_RANGE_END = re.compile(r"-\d{1,3}")

#: ``--name``, ``-x``, ``--trainer.max_epochs``. Bounded digits keep secrets from matching.
_OPTION = re.compile(r"--?[A-Za-z][A-Za-z]*\d{0,3}(?:[-_.][A-Za-z]*\d{0,3})*")
_PLAIN_OPTION = re.compile(r"--?[a-z]+(?:-[a-z]+)*")
_MOST_OPTION = 60
#: The name in ``NAME=value`` (environment) and ``model.lr=value`` (configuration).
_ASSIGNED = re.compile(r"[+~]{0,2}[A-Za-z_]+\d{0,3}(?:[-_./][A-Za-z]*\d{0,3})*")
_PROGRAM = re.compile(r"[A-Za-z][\w.+-]{0,40}")

_EMAIL = re.compile(r"[^\s@:/]+@[^\s@:/]+\.[A-Za-z]{2,}")
_ADDRESS = re.compile(
    r"\[?[0-9a-fA-F:]*::?[0-9a-fA-F:.]*\]?(?::\d+)?|\d{1,3}(?:\.\d{1,3}){3}(?:[:/]\d+)?"
    r"|[^\s@]+@[^\s@]+|[A-Za-z0-9.-]+\.[A-Za-z0-9-]+:\d{1,5}"
)
_HEX_DIGITS = re.compile(r"[0-9a-fA-F]{7,}")
_PATH_LIKE = re.compile(r"[A-Za-z]:[\\/]|[~.]{0,2}[\\/]|[^\s=,;:'\"<>|{}()\[\]@]{1,255}[\\/]")

#: Names of hosts that are common words with numbers, such as ``gpu-1`` and ``node[01-04]``.
_NUMBERED = re.compile(r"[A-Za-z][\w-]*[\d\[]")
_MODULE_OPTION = re.compile(r"-m|--module")


def kind_of(text: str) -> str:
    """Return the type that a hidden value's placeholder names."""
    if "://" in text:
        return "url"
    if text[:1] in ("{", "["):
        return "data"
    if len(text) > 400 or _SPACES.search(text):
        return "text"
    if _EMAIL.fullmatch(text):
        return "email"
    if text.isdigit():
        return "number"
    if _ADDRESS.fullmatch(text):
        return "address"
    return "hex" if _HEX_DIGITS.fullmatch(text) else "text"


@dataclass(slots=True, eq=False)
class CommandMask:
    """Mask the command lines of one report by what was learned of its runs."""

    learned: LearnedTexts
    _lines: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)

    def words(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return the masked words of a command line; words beyond `MOST_WORDS` are only counted."""
        line = tuple(command)
        known = self._lines.get(line)
        if known is None:
            known = self._lines[line] = self._words(line)
        return known

    def _words(self, line: tuple[str, ...]) -> tuple[str, ...]:
        shown: list[str] = []
        option = ""
        for place, word in enumerate(line[:MOST_WORDS]):
            masked, option = self._program(word) if not place else self._word(word, option)
            shown.append(masked)
        rest = line[MOST_WORDS:]
        if rest:
            shown.append(self.learned.placeholders.of(f"{len(rest)} words", rest))
        return tuple(shown)

    def _program(self, word: str) -> tuple[str, str]:
        directory, slash, name = word.replace("\\", "/").rpartition("/")
        if "=" in word or not _PROGRAM.fullmatch(name) or not self._is_harmless(name):
            return self._word(word, "")
        return (f"{self.directory(directory)}/{name}" if slash else name), ""

    def _word(self, word: str, option: str) -> tuple[str, str]:
        """Return the masked word, and the option whose value the next word may be."""
        name, sign, value = word.partition("=")
        if not option or self._is_option_after(word, option):
            if self._is_option(name):
                return (f"{name}={self.value(value, name)}", "") if sign else (name, name)
            if word.startswith("-") and not is_number(word):
                return self._attached(word), ""
            option = ""
        if sign and value and not holds_secret(option, word) and self._is_variable(name):
            return f"{name}={self.value(value, name)}", ""
        return self.value(word, option), ""

    def _is_variable(self, name: str) -> bool:
        return len(name) <= _MOST_OPTION and _ASSIGNED.fullmatch(name) is not None and self._is_harmless(name)

    def _is_option_after(self, word: str, option: str) -> bool:
        """Return whether the word after `option` is another option; a password may begin with a hyphen."""
        if not word.startswith("-") or is_number(word):
            return False
        return not holds_password(option) or _PLAIN_OPTION.fullmatch(word.partition("=")[0]) is not None

    def _is_option(self, name: str) -> bool:
        if len(name) > _MOST_OPTION or not _OPTION.fullmatch(name) or not self._is_harmless(name):
            return False
        # A value may follow a single-hyphen letter directly: -phunter2.
        return name.startswith("--") or len(name) == 2 or is_known(name[1:])

    def _attached(self, word: str) -> str:
        """Show ``-j8``; hide the rest of ``-phunter2`` and of words that only begin like an option."""
        if re.match(r"-[A-Za-z]", word):
            rest = word[2:]
            # ``-n=4``
            sign = "=" if rest.startswith("=") else ""
            return f"{word[:2]}{sign}{self.value(rest[len(sign) :], word[:2])}"
        return f"-{self.value(word[1:])}" if len(word) > 1 else word

    def _is_harmless(self, name: str) -> bool:
        return (
            self.learned.private.replaced(name) == name
            and not looks_random(name)
            and masked_by_rules(name, lambda _: "") == name
        )

    # Values ----------------------------------------------------------------------------------------------------

    def value(self, text: str, option: str = "") -> str:
        """Mask the value of an option or variable; `option` is its name, hyphens included."""
        if not text:
            return text
        if holds_secret(option, text) and not PLACEHOLDER.fullmatch(text) and text not in self.learned.files:
            return self.learned.placeholders.secret(text)
        if HOST_OPTION.fullmatch(option):
            if hosts := self._host_list(text):
                return hosts
            if _NUMBERED.match(text):
                return self.learned.placeholders.of(kind_of(text), text, len(text))
        if _MODULE_OPTION.fullmatch(option) and self._is_module(text):
            return text
        return self.shown(text)

    def shown(self, text: str) -> str:
        """Mask a text whose meaning is unknown."""
        if text in self.learned.files or text in ("~", ".", ".."):
            return text
        if (known := self._host(text)) is not None:
            return known
        if self.is_shown(text):
            return text
        # A placeholder from an earlier masking may contain a space.
        bare = PLACEHOLDER.sub("_", text) if "<" in text else text
        is_path = _PATH_LIKE.match(bare) is not None or bool(suffix_of(bare))
        if is_path and "://" not in text and len(text) <= 4096 and not _SPACES.search(bare):
            return self.path(text)
        return self.learned.placeholders.of(kind_of(text), text, len(text))

    def is_shown(self, text: str) -> bool:
        """Return whether a value consists only of numbers, known words and placeholders."""
        if len(text) > MOST_CHARACTERS or text.count(":") > 3:
            return False
        at, before, joined = 0, "", 0
        for atom in _ATOM.finditer(text):
            kind = atom.lastgroup or ""
            # Numbers and words must have a sign between them, unless the number ends a range.
            apart = kind == "sign" or (before == "number" and _RANGE_END.fullmatch(atom.group()) is not None)
            if atom.start() != at or (before not in ("", "sign") and not apart):
                return False
            if kind == "word" and not is_known(atom.group()):
                return False
            if kind == "number":
                joined += atom.group().startswith("-") and before != ""
            joined += atom.group() == "-"
            at, before = atom.end(), kind
        # One hyphen makes a range; several may separate the digits of a card or telephone number.
        return at == len(text) and (joined <= 1 or "," in text)

    def _is_module(self, name: str) -> bool:
        top, *inner = name.split(".")
        learned = self.learned.parts
        return (
            re.fullmatch(r"[A-Za-z_][\w.]{0,200}", name) is not None
            and (top in learned or is_known(top) or is_standard_module(top))
            and all(part in learned or is_known(part) or part.startswith("__") for part in inner)
        )

    def _host(self, text: str) -> str | None:
        """Return ``host-a:29500`` for a known host, with or without a port."""
        name, sign, port = text.partition(":")
        known = self.learned.hosts.get(name)
        if known is None or (sign and not (port.isdigit() and len(port) <= 5)):
            return None
        return f"{known}{sign}{port}"

    def _host_list(self, text: str) -> str:
        """Return a list of hosts as pseudonyms; empty if the text is no such list."""
        parts = text.split(",")
        shown = [
            self._host(part) or (part if self.is_shown(part) and not _NUMBERED.match(part) else "")
            for part in parts[:MOST_HOSTS]
        ]
        if not all(shown):
            return ""
        rest = tuple(parts[MOST_HOSTS:])
        return ",".join(shown + ([self.learned.placeholders.of(f"{len(rest)} hosts", rest)] if rest else []))

    # Paths -----------------------------------------------------------------------------------------------------

    def path(self, text: str) -> str:
        """Mask a path: ``<dir>/<file>.yaml``, ``<project>/train.py``."""
        directory, slash, name = text.replace("\\", "/").rpartition("/")
        return f"{self.directory(directory)}/{self.file_name(name)}" if slash else self.file_name(name)

    def file_name(self, name: str) -> str:
        """Mask the last part of a path."""
        if not name or name in self.learned.files or name in (".", "..", "~") or self.is_shown(name):
            return name
        suffix = suffix_of(name)
        stem = name[: len(name) - len(suffix)]
        if PLACEHOLDER.fullmatch(stem):
            return name
        if suffix and self.is_shown(stem):
            return name
        return f"{self.learned.placeholders.of('file', stem)}{suffix}"

    def directory(self, directory: str) -> str:
        """Mask a directory; an empty one is the file system's root."""
        parts = directory.split("/")
        common = all(
            part in ("", ".", "..", "~") or PLACEHOLDER.fullmatch(part) or is_known(part) for part in parts
        )
        if common and not self.learned.own_place(directory.rstrip("/")) and not self._is_private(directory):
            return directory
        return self.place(directory)

    def _is_private(self, directory: str) -> bool:
        """Return whether a directory of common words is a user's, or has a name that is known to be private."""
        home = HOMES.search(f"{directory}/")
        user = (home["user"] or "") if home is not None else ""
        own = bool(user) and user.lower() not in NOBODY and not PLACEHOLDER.fullmatch(user)
        return own or self.learned.private.replaced(directory) != directory

    def place(self, directory: str) -> str:
        """Mask a directory of a command or manifest, keeping its place below a root."""
        directory = directory.rstrip("/")
        for (root, prefix), known in self.learned.prefixes.items():
            if root == PROJECT and prefix and f"{directory}/".startswith(prefix):
                return self._inside(known, directory[len(prefix) :])
        own = self.learned.own_place(directory)
        if own is not None:
            return self._inside(f"/{self.learned.placeholders.of('dir', own)}", directory[len(own) + 1 :])
        # Keep an absolute path absolute.
        return ("/" if directory.startswith("/") else "") + self.learned.placeholders.of("dir", directory)

    def _inside(self, shown: str, rest: str) -> str:
        return "/".join((shown, *map(self.part, rest.split("/") if rest else ())))

    def part(self, part: str) -> str:
        known = is_known(part) and self.learned.private.replaced(part) == part
        if part in ("", ".", "..", HOME) or known or PLACEHOLDER.fullmatch(part) or part[1:] == ":":
            return part
        return self.learned.placeholders.of("dir", part)
