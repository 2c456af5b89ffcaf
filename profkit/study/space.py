"""The settings that a study tries: values of environment variables and of placeholders."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from profkit.errors import UsageError

#: Value that removes a variable from the environment.
UNSET = "unset"
#: Most settings of one study; a larger grid is a mistake in a range.
MOST_SETTINGS = 10_000

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RANGE = re.compile(
    r"(?P<low>\d{1,9})\.\.(?P<high>\d{1,9})(?:(?P<sign>[+x])(?P<step>\d{1,9})|(?P<log>:log))?"
)

#: One value per parameter, in order.
Setting = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """What is varied: an environment variable, or a placeholder ``{name}`` in the command.

    `scale`: ``int`` or ``log`` for a range of whole numbers, else empty. `words`: replacements by value for a
    placeholder that is a whole word.
    """

    name: str
    environment: bool
    values: tuple[str, ...]
    scale: str = ""
    words: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Space:
    """Parameters, and the command with their placeholders; `listed` settings replace all combinations."""

    command: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    listed: tuple[Setting, ...] = ()

    def check(self) -> None:
        """Raise `UsageError` if nothing varies, a name occurs twice, or the command lacks a placeholder."""
        if not self.parameters:
            raise UsageError("nothing to vary: name a parameter with its values, as in workers=1,2,4")
        names = [parameter.name for parameter in self.parameters]
        for name in names:
            if names.count(name) > 1:
                raise UsageError("is given twice; list all of its values in one place", "param", name)
        for parameter in self.parameters:
            if not parameter.environment and not any(
                f"{{{parameter.name}}}" in word for word in self.command
            ):
                raise UsageError(
                    f"the command has no {{{parameter.name}}}; put it where the value belongs, or use an "
                    "environment variable",
                    "param",
                    parameter.name,
                )

    def settings(self) -> list[Setting]:
        """Return every setting, the last parameter changing fastest; `UsageError` above `MOST_SETTINGS`."""
        size = len(self.listed) or math.prod(len(parameter.values) for parameter in self.parameters)
        if size > MOST_SETTINGS:
            raise UsageError(f"{size:,} settings are more than {MOST_SETTINGS:,}; try fewer values")
        return list(self.listed or itertools.product(*(parameter.values for parameter in self.parameters)))

    def command_of(self, setting: Setting) -> list[str]:
        """Return the command with values in place of the placeholders."""
        values = {
            f"{{{parameter.name}}}": value
            for parameter, value in zip(self.parameters, setting, strict=True)
            if not parameter.environment
        }
        if not values:
            return list(self.command)
        several = {
            f"{{{parameter.name}}}": parameter.words[parameter.values.index(value)]
            for parameter, value in zip(self.parameters, setting, strict=True)
            if parameter.words
        }
        # In one pass, so that a value that looks like a placeholder is kept.
        pattern = re.compile("|".join(map(re.escape, values)))
        words: list[str] = []
        for word in self.command:
            words += several.get(word, (pattern.sub(lambda found: values[found.group()], word),))
        return words

    def environment_of(self, setting: Setting, inherited: Mapping[str, str]) -> dict[str, str]:
        own = {p.name: value for p, value in zip(self.parameters, setting, strict=True) if p.environment}
        return {name: value for name, value in {**inherited, **own}.items() if own.get(name) != UNSET}

    def named(self, setting: Setting) -> dict[str, str]:
        """Return the values of a setting by parameter name."""
        return {parameter.name: value for parameter, value in zip(self.parameters, setting, strict=True)}

    def setting_of(self, named: Mapping[str, str]) -> Setting:
        """Return the setting with these values; empty where one is missing."""
        return tuple(named.get(parameter.name, "") for parameter in self.parameters)

    def label(self, setting: Setting) -> str:
        """Return a readable setting: ``workers=2 OMP_NUM_THREADS=1``."""
        return " ".join(f"{name}={value}" for name, value in self.named(setting).items())


def is_number(value: str) -> bool:
    """Return whether a value is a whole number."""
    return value.isascii() and value.isdigit()


def parse_parameter(text: str, *, environment: bool) -> Parameter:
    """Parse ``NAME=VALUES``, where VALUES are separated by commas; raises `UsageError` for another form.

    ``A..B`` is all whole numbers from A to B, ``A..B+K`` every Kth of them, ``A..BxK`` A, A × K, A × K² … up
    to B, and ``A..B:log`` all of them on a logarithmic scale.
    """
    wrong = partial(UsageError, parameter="env" if environment else "param", value=text)
    name, sign, rest = text.partition("=")
    if not sign or not _NAME.fullmatch(name):
        raise wrong("give NAME=VALUES, as in workers=1,2,4")
    values: list[str] = []
    scale = ""
    for item in rest.split(","):
        found = _RANGE.fullmatch(item)
        numbers = [item] if found is None else _numbers(found)
        if not numbers:
            raise wrong(f"{item} is not a range of numbers")
        values += numbers
        if found is not None and item == rest and found["sign"] is None:
            scale = "log" if found["log"] else "int"
        if len(values) > MOST_SETTINGS:
            raise wrong(f"has more than {MOST_SETTINGS:,} values")
    if "" in values:
        hint = f"; write {UNSET} for a variable that is not set" if environment else ""
        raise wrong(f"has an empty value{hint}")
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        raise wrong(f"has the value {twice} twice")
    return Parameter(name, environment, tuple(values), scale)


def _numbers(found: re.Match[str]) -> list[str]:
    """Return the numbers of a range; none if it is not a valid one."""
    low, high = int(found["low"]), int(found["high"])
    step = int(found["step"] or 1)
    geometric = bool(found["log"]) or found["sign"] == "x"
    if high < low or step < 1 or (found["sign"] == "x" and step < 2) or (geometric and low < 1):
        return []
    if found["sign"] != "x":
        return [str(number) for number in range(low, min(high, low + step * MOST_SETTINGS) + 1, step)]
    numbers = []
    while low <= high:
        numbers.append(str(low))
        low *= step
    return numbers


def parse_setting(text: str, parameters: Sequence[Parameter], *, listed: bool = True) -> Setting:
    """Parse ``NAME=VALUE,…`` with all parameters, values as `listed`; raises `UsageError` if invalid."""
    wrong = partial(UsageError, parameter="baseline", value=text)
    given = dict(item.partition("=")[::2] for item in text.split(","))
    wanted = [parameter.name for parameter in parameters]
    if sorted(given) != sorted(wanted) or text.count("=") < len(wanted):
        example = ",".join(f"{parameter.name}={parameter.values[0]}" for parameter in parameters)
        raise wrong(f"name each parameter once, as in {example}")
    for parameter in parameters:
        if listed and given[parameter.name] not in parameter.values:
            raise wrong(f"{given[parameter.name]} is not among the values of {parameter.name}")
    return tuple(given[parameter.name] for parameter in parameters)
