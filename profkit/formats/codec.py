"""Dataclasses as JSON objects and back, derived from the types of their fields.

Input is untrusted: wrong types and numbers out of bounds (`model.bounds`) raise `MemberError`. Missing fields
get defaults; unknown ones (of later versions) are ignored. `_reader` lists the types. Notices of older files
are sentences (`notice_of`).
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import MappingProxyType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from profkit.model import Notice, OpenCall
from profkit.model.bounds import bounds_of

Record = TypeVar("Record")
#: From a field's name (for messages) and a document's value to the field's value.
Reader = Callable[[str, Any], Any]

#: Dataclasses that are stored as the lists of their fields.
_LISTED = (OpenCall,)


class MemberError(ValueError):
    """A document has a wrong value; the message names the field."""


def whole(name: str, value: Any) -> int:
    """Return the value if it is an integer of at most 64 bits, else raise `MemberError`."""
    if type(value) is not int or abs(value) >= 1 << 63:
        raise MemberError(f"{name} is not a whole number")
    return value


def _number(name: str, value: Any) -> float:
    if type(value) not in (int, float):
        raise MemberError(f"{name} is not a number")
    try:
        result = float(value)
    except OverflowError:
        raise MemberError(f"{name} is out of range") from None
    if not math.isfinite(result):
        raise MemberError(f"{name} is not a finite number")
    return result


def _instance_of(type_: type[Any], problem: str) -> Reader:
    def read(name: str, value: Any) -> Any:
        if not isinstance(value, type_):
            raise MemberError(f"{name} {problem}")
        return value

    return read


_flag = _instance_of(bool, "is neither true nor false")
_text = _instance_of(str, "is not a string")
#: Return the value if it is an object or a list, else raise `MemberError`.
as_object: Callable[[str, Any], dict[str, Any]] = _instance_of(dict, "is not an object")
as_list: Callable[[str, Any], list[Any]] = _instance_of(list, "is not a list")


class Codec(Generic[Record]):
    """Writer and reader of one dataclass or ``TypedDict``.

    Fields in `elsewhere` are not in the object; `readers` are for fields stored in another form than their
    type. Raise `TypeError` if a field's type has no JSON form.
    """

    def __init__(
        self,
        record: type[Record],
        *,
        elsewhere: Collection[str] = (),
        readers: Mapping[str, Reader] = MappingProxyType({}),
    ) -> None:
        self._record = record
        types = get_type_hints(record, include_extras=True)
        known: Any = record
        stored = [] if is_typeddict(record) else [f for f in fields(known) if f.name not in elsewhere]
        self._types = {name: type_ for name, type_ in types.items() if name not in elsewhere}
        self._readers = {
            name: readers.get(name) or _reader(type_, f"{record.__name__}.{name}")
            for name, type_ in self._types.items()
        }
        self._defaults: dict[str, Any] = {
            f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in stored
        }
        self._required = [name for name, default in self._defaults.items() if default is MISSING]

    def write(self, record: Record) -> dict[str, Any]:
        """Return the object for a record.

        A number that its type or JSON rejects becomes null, or is left out of a mapping.
        """
        if isinstance(record, Mapping):
            return {
                name: _plain(type_, record[name]) for name, type_ in self._types.items() if name in record
            }
        return {name: _plain(type_, getattr(record, name)) for name, type_ in self._types.items()}

    def write_short(self, record: Record) -> dict[str, Any]:
        """Return the object for a record of a dataclass without the fields that have their defaults."""
        return {
            name: _plain(type_, value)
            for name, type_ in self._types.items()
            if (value := getattr(record, name)) != self._defaults[name]
        }

    def read(self, name: str, value: Any) -> Record:
        """Return the record for an object; `name` is for messages. Raise `MemberError` if it is invalid."""
        return self._record(**self.read_fields(name, value))

    def read_fields(self, name: str, value: Any) -> dict[str, Any]:
        """Return a record's fields as arguments for its class; see `read`."""
        given = as_object(name, value)
        found = {
            key: read(f"{name}.{key}", given[key]) for key, read in self._readers.items() if key in given
        }
        for key in self._required:
            if key not in found:
                raise MemberError(f"{name}.{key} is missing")
        return found


@functools.cache
def _nested(record: type[Any]) -> Codec[Any]:
    return Codec(record)


def _plain(type_: Any, value: Any) -> Any:
    if value is None:
        return None
    type_, may_be_none = _without_none(type_)
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is Mapping:
        return {
            str(key): _plain(arguments[1], item)
            for key, item in value.items()
            if not _is_odd(arguments[1], item)
        }
    if origin is tuple:
        return [_plain(arguments[0], item) for item in value]
    if isinstance(value, Notice):
        return value.as_json()
    if isinstance(value, _LISTED):
        return [getattr(value, field.name) for field in fields(value)]
    if is_typeddict(type_) or is_dataclass(type_):
        return _nested(type_).write(value)
    return None if may_be_none and _is_odd(type_, value) else value


def _is_odd(type_: Any, value: Any) -> bool:
    """Return whether a value is a number that its type or JSON rejects; such a counter is unknown."""
    bounds = bounds_of(type_)
    if bounds is not None:
        return bool(bounds.problem(value))
    return isinstance(value, float) and not math.isfinite(value)


def _without_none(type_: Any) -> tuple[Any, bool]:
    """Return the type without ``None``, and whether ``None`` was allowed."""
    arguments = get_args(type_)
    if get_origin(type_) in (Union, UnionType) and len(arguments) == 2 and NoneType in arguments:
        return next(a for a in arguments if a is not NoneType), True
    return type_, False


_SCALARS: Mapping[Any, Reader] = {str: _text, int: whole, float: _number, bool: _flag}


def _reader(type_: Any, where: str) -> Reader:
    """Return a reader of values of a type; `where` names the field in messages."""
    if type_ in _SCALARS:
        return _SCALARS[type_]
    origin, arguments = get_origin(type_), get_args(type_)
    known, may_be_none = _without_none(type_)
    if may_be_none:
        return optional(_reader(known, where))
    if origin is Annotated:
        return _bounded(_reader(arguments[0], where), type_)
    if origin is Literal and all(isinstance(word, str) for word in arguments):
        return _one_of(arguments)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        item = _reader(arguments[0], where)
        return lambda name, value: tuple(
            [item(f"{name} {i}", one) for i, one in enumerate(as_list(name, value))]
        )
    if origin is Mapping and arguments[0] is str:
        member = _reader(arguments[1], where)
        return lambda name, value: {
            key: member(f"{name}.{key}", one) for key, one in as_object(name, value).items()
        }
    if is_typeddict(type_):
        return _nested(type_).read
    if type_ is Notice:
        return _notice
    if isinstance(type_, type) and is_dataclass(type_):
        return listed(type_) if type_ in _LISTED else _nested(type_).read
    raise TypeError(f"{where}: there is no JSON for {type_}")


def optional(read: Reader) -> Reader:
    return lambda name, value: None if value is None else read(name, value)


def _bounded(read: Reader, type_: Any) -> Reader:
    bounds = bounds_of(type_)

    def checked(name: str, value: Any) -> Any:
        number = read(name, value)
        problem = bounds.problem(number) if bounds is not None else ""
        if problem:
            raise MemberError(f"{name} {problem}")
        return number

    return checked


def _one_of(words: Collection[str]) -> Reader:
    def reader(name: str, value: Any) -> str:
        word: str = _text(name, value)
        if word not in words:
            raise MemberError(f"{name} is not one of {', '.join(words)}")
        return word

    return reader


def listed(record: type[Any]) -> Reader:
    """Return a reader of a dataclass from the list of its fields, whose last ones may be missing."""
    codec: Codec[Any] = Codec(record)
    names = [field.name for field in fields(record)]

    def read(name: str, value: Any) -> Any:
        values = as_list(name, value)
        if len(values) > len(names):
            raise MemberError(f"{name} has more than {len(names)} values")
        return codec.read(name, dict(zip(names, values, strict=False)))

    return read


def _notice(name: str, value: Any) -> Notice:
    try:
        return notice_of(value)
    except ValueError as error:
        raise MemberError(f"{name} {error}") from None


#: How old files name a sentence's processes, in front of it.
_PROCESSES = r"(?:process (\d{1,9})|(\d{1,9}) processes \((\d{1,9}(?:, \d{1,9})*)(?:, …)?\))(: | )"
#: Beginnings of old sentences on which results depend, with the version of Python, and their codes.
_BEGINNINGS = {
    "written by the sampling profiler: ": "sampled-profile",
    r"(?:cProfile of|ran several threads under) Python (?P<python>\d+\.\d+)": "threads-in-one-stack",
}


def notice_of(value: object) -> Notice:
    """Return a notice from its object (`Notice.as_json`) or sentence; raise `ValueError` for anything else."""
    return _of_sentence(value) if isinstance(value, str) else Notice.from_json(value)


def _of_sentence(sentence: str) -> Notice:
    of = re.match(_PROCESSES, sentence)
    said = sentence[of.end() :] if of else sentence
    for beginning, code in _BEGINNINGS.items():
        if found := re.match(beginning, said):
            return _at(Notice(code, "", found.groupdict()), of)
    # A prefix with a colon can be removed; without one it is part of the sentence.
    return _at(Notice("text", said), of) if of and of[4] == ": " else Notice("text", sentence)


def _at(notice: Notice, of: re.Match[str] | None) -> Notice:
    """Return the notice with the processes named at the sentence's beginning."""
    if of is None:
        return notice
    return notice.at(pids=map(int, (of[1] or of[3]).split(", ")), pids_total=int(of[2] or 0))
