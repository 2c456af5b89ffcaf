"""What a secret looks like: names of options, forms (``assets/secret-rules.txt``), private parts of names.

The second defence of masking, for every text that `command_mask` and `declared` let through. Expressions must take
linear time: each is bounded, or matches in one way only.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, partial
from itertools import pairwise
from typing import NamedTuple

from profkit.report.known_words import asset_lines, is_said, suffix_of
from profkit.report.placeholders import PLACEHOLDER, Placeholders


class SecretRule(NamedTuple):
    """One form of a secret: `group` of `pattern`, in texts that contain one of the lower-case `needs`."""

    needs: tuple[str, ...]
    pattern: re.Pattern[str]
    group: str | int

    def may_be_in(self, lower: str) -> bool:
        return any(piece in lower for piece in self.needs)


@cache
def rules() -> tuple[SecretRule, ...]:
    found = []
    for _, needs, expression in (line.split(maxsplit=2) for line in asset_lines("secret-rules.txt")):
        pattern = re.compile(expression)
        group = "secret" if "secret" in pattern.groupindex else 0
        found.append(SecretRule(tuple(needs.split(",")), pattern, group))
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


#: Every name with a private part has one of these; few function names do.
_SIGNS = re.compile(r"[=:@]|\d\.\d|(?<!\S)-[pP]|(?<![A-Za-z0-9])ip-\d")
_URL = re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s'\"<>|()]+")
#: ``::`` separates C++ names and assigns nothing.
_ASSIGNED = re.compile(
    r"(?<![\w.-])(?P<name>-{0,2}[A-Za-z_][\w.-]{0,60}['\"]?)(?P<sign>\s{0,2}(?:=|(?<!:):(?!:))\s{0,2}['\"]?)"
    r"(?P<value>[^\s=,;&'\"()\[\]{}][^\s,;&'\"()\[\]{}]*)"
)
#: Schemes of an ``Authorization`` header; the credentials after them are found by form.
_SCHEMES = frozenset(("bearer", "basic", "negotiate", "digest"))
#: Words with other uses (``backward pass: 3``, ``fn(key: Tensor)``); secret only with ``=``.
_OF_PROGRAMS = frozenset(
    ("key", "keys", "pass", "pin", "hook", "hooks", "session", "nonce", "salt", "sig", "user")
)
_ATTACHED = re.compile(r"(?<!\S)-[pP](?P<secret>[^\s=-]\S{3,})")
_IPV4 = re.compile(
    r"(?<![A-Za-z0-9.])\d{1,3}(?:\.\d{1,3}){3}(?!\.?\d)|(?<![A-Za-z0-9])ip(?:-\d{1,3}){4}(?!\d)"
)
_IPV6 = re.compile(r"(?<![A-Za-z0-9:])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![A-Za-z0-9:])")
#: First group of assigned, local and link-local addresses; ``c10::add`` is a C++ name.
_BEGINS_IPV6 = re.compile(r"[23][0-9a-f]{3}|f[cde][0-9a-f]{2}", re.IGNORECASE)
_MAC = re.compile(r"(?<![A-Za-z0-9:])[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}(?![A-Za-z0-9:])")
#: A dotted name alone may be a module; a host has a port or follows an ``@``.
_WITH_PORT = re.compile(r"(?<![\w.-])(?P<host>[A-Za-z0-9][\w-]{0,62}(?:\.[\w-]{1,63}){1,8}):\d{2,5}(?!\w)")
_WITH_USER = re.compile(
    r"(?<![\w.+@-])[\w.+-]{1,64}@(?P<host>[A-Za-z0-9][\w-]{0,62}(?:(?:\.[\w-]{1,63}){1,8}|(?=:[/~\w])))"
)


def may_hold_parts(text: str) -> bool:
    """Return whether a name may have private parts; a quick first check."""
    return _SIGNS.search(text) is not None


def masked_parts(text: str, placeholders: Placeholders, is_module: Callable[[str], bool]) -> str:
    """Mask a name's private parts; names that `is_module` accepts may be followed by a line number."""

    def hidden(kind: str) -> Callable[[re.Match[str]], str]:
        return lambda found: placeholders.of(kind, found.group(), len(found.group()))

    def machine(found: re.Match[str]) -> str:
        host = found["host"]
        shown = suffix_of(host) or is_module(host) or PLACEHOLDER.fullmatch(host)
        return found.group() if shown or not re.search("[A-Za-z]", host) else hidden("address")(found)

    def numeric(found: re.Match[str]) -> str:
        return hidden("address")(found) if _is_address(found.group()) else found.group()

    def assigned(found: re.Match[str]) -> str:
        name, sign, value = found.group("name", "sign", "value")
        harmless = ":" in sign and name.lower() in _OF_PROGRAMS
        if harmless or not _is_set(name, value):
            return found.group()
        return f"{name}{sign}{placeholders.secret(value)}"

    def attached(found: re.Match[str]) -> str:
        word = found.group()
        return word if is_said(word[1:]) else f"{word[:2]}{placeholders.secret(found['secret'])}"

    text = _URL.sub(hidden("url"), text)
    text = _ASSIGNED.sub(assigned, text)
    text = _ATTACHED.sub(attached, text)
    text = _WITH_USER.sub(machine, text)
    text = _IPV4.sub(numeric, text)
    text = _MAC.sub(hidden("address"), text)
    text = _IPV6.sub(numeric, text)
    return _WITH_PORT.sub(machine, text)


def _is_set(name: str, value: str) -> bool:
    """Return whether ``name=value`` sets a secret; words about how a program runs may be passwords only."""
    if suffix_of(name) or PLACEHOLDER.match(value) or value.lower() in _SCHEMES:
        return False
    return holds_secret(name, value) and (holds_password(name) or not is_said(value))


def _is_address(text: str) -> bool:
    """Return whether this is the address of another machine."""
    try:
        address = ipaddress.ip_address(text.removeprefix("ip-").replace("-", "."))
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified:
        return False
    if address.version == 4:
        return True
    # Else ``c10::add`` would be an address.
    given_out = _BEGINS_IPV6.fullmatch(text.partition(":")[0]) is not None or text.count(":") > 2
    return given_out and any(char.isdigit() for char in text)
