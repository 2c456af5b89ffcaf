"""Values that must not be in a ticket: how a token, a password or a key is recognised.

Works on command lines word by word, where an option's name says what its value is, and on running text by the
forms that secrets have. Pure functions over strings; what is applied to which field is decided in `safety`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

__all__ = [
    "MASK",
    "is_plain_name",
    "is_secret_name",
    "looks_random",
    "masked_text",
    "masked_words",
    "secret_values",
]

#: What stands for a secret.
MASK = "***"

#: Names of options and variables whose value is a secret. The name must end so: ``--token``, ``HF_TOKEN`` and
#: ``--wandb-api-key`` do, ``--tokenizer``, ``--max-tokens`` and ``--token-file`` do not.
_SECRET_NAME = re.compile(
    r"(?:^|[_.-])(?:pass(?:w(?:or)?d|phrase|code)?|pwd|pin|secret|token|credentials?|bearer|cookie|jwt|sas|dsn"
    r"|(?:api|access|account|auth|private|secret|ssh|encryption|signing|license|wandb|hf|aws)[_-]?key(?:[_-]id)?"
    r"|apikey|authorization|auth)$",
    re.IGNORECASE,
)
#: Names that end so by chance: sizes and ids of tokens in language models.
_NO_SECRET_NAME = re.compile(
    r"(?:max|min|num|n|per|pad|eos|bos|unk|mask|sep|cls|new|image|special|stop)[_-]?token$", re.IGNORECASE
)
_PASSWORD_NAME = re.compile(r"pass|pwd|pin$", re.IGNORECASE)
#: Values that are none, whatever the option is called: switches, and numbers of a size or a position.
_PLAIN_VALUE = re.compile(r"(?:[+-]?\d{1,7}(?:\.\d*)?|true|false|yes|no|none|null|auto)", re.IGNORECASE)
#: Names whose value is random by nature and is no secret.
_REVISION_NAME = re.compile(
    r"(?:^|[_.-])(?:revision|rev|commit|sha|ref|hash|digest|checksum)$", re.IGNORECASE
)

#: Secrets that can be recognised by their form, as their issuers document it.
_KNOWN = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"hf_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{8,}|github_pat_\w{10,}|gl(?:pat|ptt|dt|rt|cbt)-[\w-]{10,}"
    r"|sk-[A-Za-z0-9_-]{8,}|(?:sk|pk|rk)_(?:live|test)_\w{8,}|(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}"
    r"|xox[abeoprs]-[\w-]{8,}|AIza[\w-]{30,}|ya29\.[\w.-]{10,}|npm_\w{20,}|pypi-[\w-]{16,}|dop_v1_\w{16,}"
    r"|SG\.[\w-]{10,}\.[\w-]{10,}|eyJ[\w-]{6,}\.[\w-]{4,}(?:\.[\w-]*)?|r8_\w{20,}|nvapi-[\w-]{10,}|dckr_pat_[\w-]{10,}"
    r")"
)
#: What `_KNOWN` begins with, to see quickly that a file name has none of it.
_PLAIN_NAME = re.compile(
    r"(?!hf_|gh|gl|[sprd]k|xox|npm|pypi|dop|r8|nvapi|dckr|SG|A[KSRI]|ya29|eyJ)[A-Za-z_]\w{0,40}(?:\.\w{1,6})?"
)
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL
)
#: Credentials in front of the host of an address.
_USERINFO = re.compile(r"(?<=://)[^\s/@'\"“”]+@")
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[\w.+/=~-]{6,}", re.IGNORECASE)
#: ``name=value`` and ``name: value`` in text and in the query of an address; the value may be quoted.
_ASSIGNED = re.compile(
    r"(?P<name>-{0,2}[A-Za-z][\w.-]*)(?P<sign>\s?[=:]\s?)(?P<value>'[^']*'|\"[^\"]*\"|[^\s'\"&;,“”()\[\]{}]+)"
)
#: The query of an address.
_QUERY = re.compile(r"(?<=[?&;])(?P<name>[\w.-]+)(?P<sign>=)(?P<value>[^\s&;#'\"]+)")
#: ``--name value`` in text.
_OPTION = re.compile(
    r"(?P<name>(?<![\w-])--?[A-Za-z][\w.-]*)(?P<sign>\s+)(?P<value>'[^']*'|\"[^\"]*\"|[^\s'\"“”-][^\s'\"“”]*)"
)
#: ``'NAME=value of several words'``, as a shell word is quoted.
_QUOTED = re.compile(
    r"(?P<open>['\"])(?P<name>-{0,2}[A-Za-z][\w.-]*)=(?P<value>(?:(?!(?P=open)).)*)(?P=open)"
)
#: curl's way to give a password.
_USER_OPTION = re.compile(
    r"(?<![\w-])(?P<name>-u|--user)(?P<sign>\s+|=)(?P<user>[^\s:'\"]+):(?P<value>[^\s'\"]+)"
)
_UUID = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])", re.IGNORECASE)

#: Letters and digits in a row from which a word is looked at for randomness: shorter keys are not in use, and
#: names made by people are put together from shorter pieces.
RANDOM_LENGTH = 20
#: Bits per character (Shannon) of such a row from which it is taken for random, when it mixes upper case, lower
#: case and digits; 20 random characters of 62 have 4.0 on average.
RANDOM_BITS = 3.5
#: Part of the neighbouring characters of such a row that are of different kinds (upper case, lower case, digit):
#: 0.62 on average where each of 62 characters is as likely, about 0.25 in names put together from words.
RANDOM_CHANGES = 0.3
#: Hexadecimal digits in a row that are a digest or a key (128 bits).
HEX_LENGTH = 32
_RUN = re.compile(rf"[A-Za-z0-9]{{{RANDOM_LENGTH},}}")
_HEX = re.compile(r"(?:[0-9a-f]+|[0-9A-F]+)")
#: An AWS secret key: 40 characters of base 64, in which slashes are no directories.
_BASE64_KEY = re.compile(r"(?<![A-Za-z0-9/+._~-])[A-Za-z0-9+][A-Za-z0-9/+]{39}(?![A-Za-z0-9/+._-])")
#: What a random word is made of, around the row that shows it.
_RANDOM_WORD = re.compile(rf"[A-Za-z0-9_+/.~-]*[A-Za-z0-9]{{{RANDOM_LENGTH},}}[A-Za-z0-9_+/=.~-]*")


def is_secret_name(name: str) -> bool:
    """Whether an option or a variable of this name holds a secret."""
    bare = name.lstrip("-")
    return _SECRET_NAME.search(bare) is not None and _NO_SECRET_NAME.search(bare) is None


def is_plain_name(name: str) -> bool:
    """Whether a file name obviously holds no secret: most do not, and this is quicker than looking for one."""
    return _PLAIN_NAME.fullmatch(name) is not None


def looks_random(text: str) -> bool:
    """Whether a row of letters and digits in `text` is long and mixed as only generated ones are."""
    return any(_is_random(match.group()) for match in _RUN.finditer(text)) or _UUID.search(text) is not None


def _is_random(run: str) -> bool:
    digits = sum(char.isdigit() for char in run)
    if len(run) >= HEX_LENGTH and _HEX.fullmatch(run):
        return 0 < digits < len(run)
    return digits > 0 and _is_mixed(run)


def _is_mixed(run: str) -> bool:
    kinds = [0 if char.islower() else 1 if char.isupper() else 2 for char in run]
    changes = sum(a != b for a, b in pairwise(kinds))
    if not {0, 1} <= set(kinds) or changes < RANDOM_CHANGES * (len(run) - 1):
        return False
    parts = (run.count(char) / len(run) for char in set(run))
    return -sum(part * math.log2(part) for part in parts) >= RANDOM_BITS


def _is_value_of(name: str, value: str) -> bool:
    """Whether `value` is a secret because its option is called `name`."""
    if not value or not is_secret_name(name) or value.strip("'\"") in ("", MASK):
        return False
    return _PASSWORD_NAME.search(name) is not None or _PLAIN_VALUE.fullmatch(value) is None


def masked_text(text: str, *, random: bool = True) -> str:
    """Return running text without secrets.

    Parameters
    ----------
    text
        Anything: a sentence, a joined command, a path.
    random
        Whether words that look random are secrets too; not where names of generated functions are expected.
    """
    if "-----BEGIN" in text:
        text = _KEY_BLOCK.sub(MASK, text)
    text = _KNOWN.sub(MASK, text)
    if "://" in text:
        text = _QUERY.sub(_assignment, _USERINFO.sub(f"{MASK}@", text))
    if " " in text:
        text = _BEARER.sub(rf"\1 {MASK}", text)
        if "-" in text:
            text = _USER_OPTION.sub(rf"\g<name>\g<sign>\g<user>:{MASK}", text)
            text = _OPTION.sub(_assignment, text)
    if "=" in text or ":" in text:
        text = _QUOTED.sub(_quoted, text)
        text = _ASSIGNED.sub(_assignment, text)
    if random and len(text) >= RANDOM_LENGTH:
        text = _UUID.sub(MASK, text)
        text = _BASE64_KEY.sub(lambda m: MASK if _is_mixed(m.group()) else m.group(), text)
        text = _RANDOM_WORD.sub(lambda m: _without_random(m.group()), text)
    return text


def _assignment(match: re.Match[str]) -> str:
    name, sign, value = match["name"], match["sign"], match["value"]
    if not _is_value_of(name, value):
        return match.group()
    return f"{name}{sign}{MASK}"


def _quoted(match: re.Match[str]) -> str:
    quote, name, value = match["open"], match["name"], match["value"]
    return f"{quote}{name}={MASK}{quote}" if _is_value_of(name, value) else match.group()


def _without_random(word: str) -> str:
    """Mask the pieces of a word that look random; directories and suffixes around them stay."""
    if not looks_random(word):
        return word
    if "/" in word[1:] and "." in word:
        return _RUN.sub(lambda m: MASK if _is_random(m.group()) else m.group(), word)
    return MASK


def _pairs(words: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Every ``(place, name, value)`` that a command line assigns; `place` is the word that holds the value."""
    for place, word in enumerate(words):
        name, sign, value = word.partition("=")
        if sign and re.fullmatch(r"-{0,2}[A-Za-z][\w.-]*", name):
            yield place, name, value
        elif re.fullmatch(r"--?[A-Za-z][\w.-]*", word) and place + 1 < len(words):
            following = words[place + 1]
            if not following.startswith("--"):
                yield place + 1, word, following


def masked_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command line without secrets, word by word.

    The value of an option or variable whose name says that it is secret goes whole; of all other words what
    has the form of a secret.
    """
    result = list(words)
    kept: set[int] = set()
    for place, name, value in _pairs(words):
        if _is_value_of(name, value):
            result[place] = MASK if words[place] == value else f"{name}={MASK}"
        elif name in ("-u", "--user") and ":" in value:
            result[place] = value.partition(":")[0] + ":" + MASK
        elif _REVISION_NAME.search(name.lstrip("-")):
            kept.add(place)
    return tuple(
        masked_text(word, random=place not in kept) if word == words[place] else word
        for place, word in enumerate(result)
    )


def secret_values(words: Sequence[str]) -> set[str]:
    """Find the secrets of a command line, to look for them elsewhere: in paths, notes and advice.

    Only values of at least six characters are returned: shorter ones occur by chance.
    """
    found = {value for _, name, value in _pairs(words) if _is_value_of(name, value)}
    found |= {
        value.partition(":")[2]
        for _, name, value in _pairs(words)
        if name in ("-u", "--user") and ":" in value
    }
    for place, (word, masked) in enumerate(zip(words, masked_words(words), strict=True)):
        if MASK in masked and masked == MASK:
            found.add(words[place])
        elif MASK in masked:
            found.update(match.group() for match in _KNOWN.finditer(word))
            found.update(match.group()[:-1] for match in _USERINFO.finditer(word))
            found.update(match.group() for match in _RUN.finditer(word) if _is_random(match.group()))
    return {value for value in found if len(value) >= 6 and not _PLAIN_VALUE.fullmatch(value)}
