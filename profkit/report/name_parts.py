"""Private parts of a name, known by the text around them: values of passwords, addresses, hosts, URLs.

Expressions must take linear time: each is bounded, or matches in one way only.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

from profkit.report.known_words import is_said, suffix_of
from profkit.report.placeholders import PLACEHOLDER, Placeholders
from profkit.report.secrets import holds_password, holds_secret

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
        if (
            suffix_of(host)
            or is_module(host)
            or not re.search("[A-Za-z]", host)
            or PLACEHOLDER.fullmatch(host)
        ):
            return found.group()
        return hidden("address")(found)

    def numeric(found: re.Match[str]) -> str:
        return hidden("address")(found) if _is_address(found.group()) else found.group()

    def assigned(found: re.Match[str]) -> str:
        name, sign, value = found.group("name", "sign", "value")
        harmless = ":" in sign and name.lower() in _OF_PROGRAMS
        return (
            found.group()
            if harmless or not _is_set(name, value)
            else f"{name}{sign}{placeholders.secret(value)}"
        )

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
