"""What a secret looks like: names of options that hold one, and forms (``assets/secret-rules.txt``).

Masking's second defence, for every text that `command_mask` and `declared` let through.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, partial
from itertools import pairwise
from typing import NamedTuple

from profkit.report.known_words import asset_lines


class SecretRule(NamedTuple):
    """One form of a secret: `group` of `pattern`, in texts that contain one of the lower-case `needs`."""

    id: str
    needs: tuple[str, ...]
    pattern: re.Pattern[str]
    group: str | int

    def may_be_in(self, lower: str) -> bool:
        return any(piece in lower for piece in self.needs)


@cache
def rules() -> tuple[SecretRule, ...]:
    found = []
    for name, needs, expression in (line.split(maxsplit=2) for line in asset_lines("secret-rules.txt")):
        pattern = re.compile(expression)
        group = "secret" if "secret" in pattern.groupindex else 0
        found.append(SecretRule(name, tuple(needs.split(",")), pattern, group))
    return tuple(found)


def suspects(texts: Iterable[str]) -> tuple[SecretRule, ...]:
    """Return the forms in any of many texts: one joined text is searched many times faster than 100,000."""
    together = "\n".join(texts)
    lower = together.lower()
    return tuple(rule for rule in rules() if rule.may_be_in(lower) and rule.pattern.search(together))


def masked_by_rules(
    text: str, replace: Callable[[str], str], among: Sequence[SecretRule] | None = None
) -> str:
    """Replace the secrets of a text; `among` limits the forms (default: all)."""
    chosen = rules() if among is None else among
    lower = text.lower() if chosen else ""
    for rule in chosen:
        if rule.may_be_in(lower):
            text = rule.pattern.sub(partial(_without, rule.group, replace), text)
    return text


def _without(group: str | int, replace: Callable[[str], str], match: re.Match[str]) -> str:
    begin, end = (at - match.start() for at in match.span(group))
    whole = match.group()
    return whole[:begin] + replace(whole[begin:end]) + whole[end:]


# Names ---------------------------------------------------------------------------------------------------------

#: Parts of a name (split at signs and capitals) of an option or variable that holds a secret.
_PASSWORDS = frozenset(
    """
    password passwords passwd passwds passphrase passcode pass pw pwd psw pswd pin otp totp mfa secret secrets
    userpwd ssn cvv cred creds credential credentials
    """.split()  # noqa: SIM905
)
_SECRETS = _PASSWORDS | frozenset(
    """
    token tokens key keys apikey apikeys accesskey secretkey authkey auth authorization authentication bearer cookie
    cookies jwt sas sig signature dsn session sessionid sessid csrf nonce oauth license licence webhook hook hooks
    privatekey sshkey signingkey encryptionkey salt seedphrase mnemonic user username login account email mail netrc
    proxy proxies
    """.split()  # noqa: SIM905
)
#: Words about the size or place of tokens and keys, and about passes over data.
_HARMLESS = frozenset(
    """
    max min num n per count size sizes length len dim dims heads head total avg mean limit budget id ids pad eos bos
    unk mask sep cls new image special stop file files path dir type types kind rate ratio first second backward
    forward cache query value kv merge split fusion weight dropout proj
    """.split()  # noqa: SIM905
)
#: The same for passwords: ``--pin-memory``, ``I_MPI_PIN_DOMAIN``.
_NO_PASSWORD = frozenset(
    "max min num length len size count rate ratio type memory domain mpi cpu core file path dir".split()  # noqa: SIM905
)
_ENDINGS = ("password", "passwd", "passphrase", "secret", "apikey")
_DIVIDED = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NUMBER = re.compile(r"[+-]?\d{1,7}(?:\.\d{0,7})?")
_SWITCH = frozenset(("true", "false", "yes", "no", "none", "null", "auto", "on", "off"))


@lru_cache(maxsize=4096)
def _holds(name: str) -> tuple[bool, bool]:
    """Return whether the name is that of a password, and that of any secret."""
    parts = frozenset(part.lower() for part in _DIVIDED.findall(name[:200]))
    password = _are_among(parts, _PASSWORDS) and not parts & _NO_PASSWORD
    return password, password or (_are_among(parts, _SECRETS) and not parts & _HARMLESS)


def _are_among(parts: frozenset[str], words: frozenset[str]) -> bool:
    # Capitals are not split: PGPASSWORD.
    return bool(parts & words) or any(part.endswith(_ENDINGS) for part in parts)


def holds_password(name: str) -> bool:
    """Return whether an option or variable of this name holds a secret even if its value is a number."""
    return _holds(name)[0]


def holds_secret(name: str, value: str = "") -> bool:
    """Return whether a value is secret by its name; numbers and switches only if it names a password."""
    password, secret = _holds(name)
    if password or not secret:
        return password
    return _NUMBER.fullmatch(value) is None and value.lower() not in _SWITCH


# Randomness ----------------------------------------------------------------------------------------------------

#: Length of a run of letters and digits that is tested for randomness: keys are longer, pieces of names
#: shorter.
RANDOM_LENGTH = 20
#: Shannon entropy in bits per character that marks such a run as random, if it mixes upper case, lower case
#: and digits; 20 random characters of 62 average 4.0.
RANDOM_BITS = 3.5
#: Share (0 to 1) of neighbouring characters of different kinds (upper case, lower case, digit) that marks
#: such a run as random: 0.62 on average for uniform characters, about 0.25 in names built from words.
RANDOM_CHANGES = 0.3
#: Hexadecimal digits in a row that make a digest or key (128 bits).
HEX_LENGTH = 32
_ROW = re.compile(rf"[A-Za-z0-9]{{{RANDOM_LENGTH},}}")
_HEX = re.compile(r"(?:[0-9a-f]+|[0-9A-F]+)")
_UUID = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])", re.IGNORECASE)


def looks_random(text: str) -> bool:
    """Return whether `text` has a run of letters and digits as long and mixed as generated ones."""
    return any(_is_random(match.group()) for match in _ROW.finditer(text)) or _UUID.search(text) is not None


def _is_random(row: str) -> bool:
    digits = sum(char.isdigit() for char in row)
    if len(row) >= HEX_LENGTH and _HEX.fullmatch(row):
        return 0 < digits < len(row)
    return digits > 0 and _is_mixed(row)


def _is_mixed(row: str) -> bool:
    kinds = [0 if char.islower() else 1 if char.isupper() else 2 for char in row]
    changes = sum(a != b for a, b in pairwise(kinds))
    if not {0, 1} <= set(kinds) or changes < RANDOM_CHANGES * (len(row) - 1):
        return False
    parts = (row.count(char) / len(row) for char in set(row))
    return -sum(part * math.log2(part) for part in parts) >= RANDOM_BITS
