"""Puts the recorder under the nvtx package where no compiled collector receives what it says.

Not its functions are replaced but what they are built on: the classes and functions that the package imports
from its compiled part, ``nvtx._lib``. So `annotate` and `push_range` stay the package's own, in whatever order
and under whatever names the target imported them, and the Domain API is recorded too. Without a tool that part
hands out dummies that do nothing; here are stand-ins that behave as with one, except that they complain of
nothing. C and C++ code does not pass here.
"""

from __future__ import annotations

import sys
from _struct import Struct
from time import monotonic_ns

from .nvtx_files import RECORD
from .nvtx_record import MASK32, PUSH, Recorder

TYPE_CHECKING = False  # the module `typing` would cost every process of the target several milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Tuple

#: Where the package takes its compiled part from, and who may have taken names from there already.
MODULE = "nvtx._lib"
_TAKERS = (MODULE, "nvtx.nvtx", "nvtx")

#: Without one of these in the package it is of a kind that is not known here.
_NEEDED = ("Domain", "push_range", "pop_range", "start_range", "end_range", "mark")

#: What the domains of early versions do not have.
_LATER_METHODS = ("set_event_attributes", "mark", "push_range", "pop_range", "start_range", "end_range")

#: As in ``native/nvtx/layout.h``: the kinds of payload that Python's numbers are.
_I64, _F64 = 2 << 8, 3 << 8

_MASK64 = (1 << 64) - 1

#: What the package makes of no color.
_BLUE = 0x0000FF

_double = Struct("<d")
_word = Struct("<Q")


def patch(library: Any, recorder: Recorder) -> bool:
    """Put stand-ins into ``nvtx._lib`` and wherever its names went; false for an unknown package."""
    originals = {name: getattr(library, name, None) for name in _NEEDED}
    if None in originals.values():
        return False
    stand_ins = _stand_ins(recorder, getattr(library, "dummy_domain", None))
    for name in _LATER_METHODS:
        if not hasattr(library.Domain, name):
            delattr(stand_ins["Domain"], name)
    replaced = {id(getattr(library, name)): new for name, new in stand_ins.items() if hasattr(library, name)}
    for taker in _TAKERS:
        namespace = vars(sys.modules.get(taker, library))
        for name, value in list(namespace.items()):
            if id(value) in replaced:
                namespace[name] = replaced[id(value)]
    package = sys.modules.get("nvtx.nvtx")
    for name in ("_get_domain_cached", "get_domain"):
        forget = getattr(getattr(package, name, None), "cache_clear", None)
        if forget is not None:
            forget()  # the dummies that were given out before
    return True


def _stand_ins(recorder: Recorder, dummy: Any) -> Dict[str, Any]:
    begin = recorder.begin
    known: Dict[Any, Any] = {}
    pack_into, now = RECORD.pack_into, monotonic_ns
    try:
        colors: Dict[Any, int] = dict(sys.modules["nvtx.colors"]._NVTX_COLORS)
    except Exception:
        colors = {}

    class DomainHandle:
        """What the package hands to its compiled functions."""

        __slots__ = ("_name", "domain", "pop", "push")

        def __init__(self, name: Any = None) -> None:
            self._name = name
            self.domain = recorder.domain(name)
            self.push, self.pop = self.domain.push, self.domain.pop

        @property
        def name(self) -> str:
            return "" if self._name is None else str(self._name)

        def enabled(self) -> bool:
            return True

    class RegisteredString:
        """A message; `string` is ``None`` where there is none."""

        def __init__(self, domain: Any, string: Any = None) -> None:
            self.string = string
            self.domain = domain
            self.handle = self
            self.number = _number_of(recorder, string)

    class EventAttributes:
        """What an event says of itself, ready to be written."""

        __slots__ = ("_category", "_color", "_message", "_payload", "argb", "base", "bits", "id", "string")

        def __init__(
            self,
            message: Any = None,
            color: Any = None,
            category: Any = None,
            payload: Any = None,
            *more: Any,
        ) -> None:
            if isinstance(message, Domain):  # later versions put it in front
                message, color, category, payload = color, category, payload, more[0] if more else None
            self.string = 0 if message is None else getattr(message, "number", 0)
            self._message = message
            self._color = color
            try:
                self.argb = colors[color]
            except Exception:
                self.argb = _argb(color)
            self._category = category = category if category.__class__ is int else 0
            self.id = category & MASK32
            self._payload = payload
            if payload is None:
                self.base = self.string << 32
                self.bits = 0
            else:
                self._lay_out()

        def _lay_out(self) -> None:
            kind, self.bits = _payload_of(self._payload)
            self.base = kind | self.string << 32

        @property
        def message(self) -> Any:
            return self._message

        @message.setter
        def message(self, value: Any) -> None:
            self._message = value
            self.string = 0 if value is None else getattr(value, "number", 0)
            self._lay_out()

        @property
        def color(self) -> Any:
            return self._color

        @color.setter
        def color(self, value: Any) -> None:
            self._color = value
            self.argb = _argb(value)

        @property
        def category(self) -> Any:
            return self._category

        @category.setter
        def category(self, value: Any) -> None:
            self._category = value if isinstance(value, int) else 0
            self.id = self._category & MASK32

        @property
        def payload(self) -> Any:
            return self._payload

        @payload.setter
        def payload(self, value: Any) -> None:
            self._payload = value
            self._lay_out()

    # These two without a further call: they are what programs do a million times.

    def push_range(attributes: Any, handle: Any) -> None:
        try:
            if attributes.string in recorder.defined:
                room = recorder.local.room
                pack_into(
                    room.buffer,
                    next(room.slots),
                    now(),
                    handle.push + attributes.base,
                    attributes.id,
                    attributes.argb,
                    attributes.bits,
                )
                return
        except Exception:
            pass  # no room yet, or no more
        _begin(getattr(handle, "push", PUSH), attributes)

    def pop_range(handle: Any) -> None:
        time = now()  # first: what is done here is not in the range
        try:
            room = recorder.local.room
            pack_into(room.buffer, next(room.slots), time, handle.pop, 0, 0, 0)
        except Exception:
            recorder.pop(getattr(handle, "pop", recorder.default.pop))

    def mark(attributes: Any, handle: Any) -> None:
        _begin(handle.domain.mark, attributes)

    def start_range(attributes: Any, handle: Any) -> Tuple[int, Any]:
        return _begin(handle.domain.start, attributes), handle

    def end_range(started: Any, handle: Any = None) -> None:
        recorder.end(started[0] if isinstance(started, tuple) else started)

    def _begin(kind: int, attributes: Any) -> int:
        try:
            color = attributes.argb
            return begin(kind, attributes.string, attributes.base, attributes.id, color, attributes.bits)
        except Exception:
            return 0

    class Domain:
        """A domain; the same one whenever its name is asked for."""

        def __new__(cls, name: Any = None) -> Any:
            found: Any = known.get(name)
            if found is None:
                found = super().__new__(cls)
                found.name = name
                found.handle = DomainHandle(name)
                found.categories = {}
                found._strings = {}
                found = known.setdefault(name, found)
            return found

        def __init__(self, name: Any = None) -> None:
            pass

        def get_registered_string(self, string: Any) -> Any:
            found = self._strings.get(string)
            if found is None:
                found = RegisteredString(self.handle, string)
                if found.number or string is None:
                    self._strings[string] = found
            return found

        def get_category_id(self, name: Any) -> int:
            number = self.categories.get(name)
            if number is None:
                number = self.categories[name] = len(self.categories) + 1
                recorder.category(self.handle.domain, number, name)
            return int(number)

        def get_event_attributes(
            self, message: Any = None, color: Any = None, category: Any = None, payload: Any = None
        ) -> Any:
            try:
                if category is not None and isinstance(category, str):
                    category = self.get_category_id(category)
                if message is not None or _none_is_registered():
                    message = self._strings.get(message) or self.get_registered_string(message)
            except Exception:
                message = None  # a list, say, which the package would refuse with a tool, and not without
            return EventAttributes(message, color, category, payload)

        def set_event_attributes(self, attributes: Any, **values: Any) -> None:
            for name, value in values.items():
                if name == "message" and isinstance(value, str):
                    value = self.get_registered_string(value)
                elif name == "category" and isinstance(value, str):
                    value = self.get_category_id(value)
                setattr(attributes, name, value)

        def _attributes(self, attributes: Any, values: Dict[str, Any]) -> Any:
            if attributes is None:
                return self.get_event_attributes(**values)
            if values:
                self.set_event_attributes(attributes, **values)
            return attributes

        def mark(self, attributes: Any = None, **values: Any) -> None:
            _begin(self.handle.domain.mark, self._attributes(attributes, values))

        def push_range(self, attributes: Any = None, **values: Any) -> None:
            _begin(self.handle.domain.push, self._attributes(attributes, values))

        def pop_range(self) -> None:
            recorder.pop(self.handle.domain.pop)

        def start_range(self, attributes: Any = None, **values: Any) -> int:
            return _begin(self.handle.domain.start, self._attributes(attributes, values))

        def end_range(self, range_id: Any) -> None:
            recorder.end(range_id)

        def __getattr__(self, name: str) -> Any:
            # Counters, timestamps and what later versions have: as without a tool.
            return getattr(dummy, name)

    return {
        "Domain": Domain,
        "RegisteredString": RegisteredString,
        "EventAttributes": EventAttributes,
        "push_range": push_range,
        "pop_range": pop_range,
        "start_range": start_range,
        "end_range": end_range,
        "mark": mark,
    }


def _number_of(recorder: Recorder, text: Any) -> int:
    try:
        return recorder.name(text)
    except Exception:
        return 0


def _none_is_registered() -> bool:
    """Whether this version of the package expects a string object also where there is no message."""
    annotate = getattr(sys.modules.get("nvtx.nvtx"), "annotate", None)
    call = getattr(annotate, "__dict__", {}).get("__call__")
    return "string" in getattr(getattr(call, "__code__", None), "co_names", ())


def _payload_of(value: Any) -> Tuple[int, int]:
    """Return type and bits of a payload; other kinds than numbers have no place in a record."""
    kind = type(value)
    if kind is int and -(1 << 63) <= value < 1 << 63:
        return _I64, value & _MASK64
    if kind is float:
        return _F64, _word.unpack(_double.pack(value))[0]
    return 0, 0


def _argb(color: Any) -> int:
    """Return a color's number; 0 for one that only matplotlib, if it were imported, could look up."""
    if isinstance(color, int):
        return color & MASK32
    try:
        table: Dict[Any, int] = sys.modules["nvtx.colors"]._NVTX_COLORS
        known = table.get(color)
        if known is not None:
            return known
        if color is None:
            return _BLUE
        convert: Callable[..., Any] = sys.modules["matplotlib.colors"].to_rgba
        red, green, blue, alpha = (round(255 * part) for part in convert(color))
        return int(alpha << 24 | red << 16 | green << 8 | blue)
    except Exception:
        return 0
