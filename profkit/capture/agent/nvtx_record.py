"""Records NVTX events in Python, where no compiled collector can: what each call of the target writes.

Used by `nvtx_patch` (the nvtx package) and `torch_nvtx` (PyTorch's functions). Each thread writes into a chunk of
its own, as the compiled collector does; taking a place in it is one call in C, so that neither another thread
nor a signal handler can take the same. Nothing here raises into the target.
"""

from __future__ import annotations

import _thread
import os
from itertools import count
from time import monotonic_ns

from . import process_facts
from .nvtx_files import CATEGORY, DOMAIN, RECORD, RETRY_NS, STRING, Files

TYPE_CHECKING = False  # the module `typing` would cost every process of the target several milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Tuple

SEGMENT, MARK, PUSH, POP, START, END, GAP = range(1, 8)

#: Bytes of a thread's first chunk, and most; each is four times as large as the one before.
_FIRST_CHUNK, _LARGEST_CHUNK = 1 << 16, 1 << 22

#: Records that the rest of an ended thread's chunk must have room for to be worth keeping.
_LEAST_REST = 16

#: Longest text of a name, in bytes; what is longer is cut.
_MOST_TEXT = 4000

#: Different names that are kept; from here on the digits of new ones are replaced, which leaves a reserve for
#: what is really new.
_MOST_NAMES, _RESERVED_NAMES = 1 << 16, 1 << 12

#: What the number of a domain may be.
_MOST_DOMAINS = 1 << 12

_pack_into = RECORD.pack_into
_now = monotonic_ns

#: Bits of categories and colors.
MASK32 = (1 << 32) - 1


class _Room:
    """Where one thread writes."""

    __slots__ = ("buffer", "chunk", "life", "lost", "next_size", "retry_ns", "serial", "slots")

    def __init__(self, life: _Life, serial: int) -> None:
        self.life = life
        self.chunk: Any = None
        self.buffer: Any = None
        self.slots: Iterator[int] = iter(())
        self.serial = serial
        self.next_size = _FIRST_CHUNK
        self.lost = 0
        self.retry_ns = 0

    def __del__(self) -> None:
        # The thread has ended: another goes on in the rest of its chunk.
        try:
            if self.chunk is not None:
                if self.slots.__length_hint__() >= _LEAST_REST:  # type: ignore[attr-defined]
                    self.life.rests.append((self.chunk, self.slots))
                else:
                    self.life.files.release(self.chunk)
        except Exception:
            pass  # the interpreter is being torn down


class _Life:
    """What belongs to one process; a forked child begins another."""

    def __init__(self, spool: str, generation: int, fork_parent: int) -> None:
        self.generation = generation & 0xFFFF
        self.files = Files(spool, generation, fork_parent)
        self.local = _thread._local()
        self.serials = count(1)
        self.rests: List[Tuple[Any, Iterator[int]]] = []
        self.defined: Dict[int, bool] = {0: True}  # names that are in this process's file


class Domain:
    """A domain's number, as it goes into records."""

    __slots__ = ("mark", "number", "pop", "push", "start")

    def __init__(self, number: int) -> None:
        self.number = number
        self.mark, self.push, self.pop, self.start = (
            kind | number << 16 for kind in (MARK, PUSH, POP, START)
        )


class Recorder:
    """All that one process image records."""

    def __init__(self, spool: str) -> None:
        self._spool = spool
        self._pid = os.getpid()
        self._names: Dict[str, int] = {}
        self._texts: List[bytes] = [b""]
        self._naming = _thread.allocate_lock()
        self._domains: Dict[str, Domain] = {}
        self._definitions: List[Tuple[int, int, int, bytes]] = []
        self.default = Domain(0)
        self.life = _Life(spool, 1, 0)
        self.local, self.defined = self.life.local, self.life.defined
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    @property
    def opened(self) -> bool:
        """Whether this process has recorded anything."""
        return self.life.files.opened

    # Names

    def name(self, text: Any) -> int:
        """Return the number of a string; 0 for none."""
        if text is None:
            return 0
        number = self._names.get(text)
        return number if number is not None else self._new_name(_plain(text))

    def _new_name(self, text: str) -> int:
        number = self._add_name(text, _MOST_NAMES)
        if number is None:
            self.life.files.count_folded()
            number = self._add_name(_without_digits(text), _MOST_NAMES + _RESERVED_NAMES - 1)
        if number is None:
            number = self._add_name("(more names than are kept)", _MOST_NAMES + _RESERVED_NAMES)
        return number or 0

    def _add_name(self, text: str, most: int) -> Optional[int]:
        number = self._names.get(text)
        # A signal handler that comes here while its thread holds the lock gets no name rather than a deadlock.
        if number is None and len(self._texts) <= most and self._naming.acquire(True, 1.0):
            try:
                number = self._names.get(text)
                if number is None:
                    number = len(self._texts)
                    self._texts.append(_encoded(text))
                    self._names[text] = number
            finally:
                self._naming.release()
        return number

    def domain(self, name: Any) -> Domain:
        """Return the domain of a name; ``None`` is the default one."""
        if name is None:
            return self.default
        text = _plain(name)
        found = self._domains.get(text)
        if found is None:
            with self.life.files.lock:
                found = self._domains.get(text)
                if found is None:
                    if len(self._domains) >= _MOST_DOMAINS:
                        return self.default
                    found = self._domains[text] = Domain(len(self._domains) + 1)
                    self._define(DOMAIN, found.number, 0, _encoded(text))
        return found

    def category(self, domain: Domain, number: int, name: Any) -> None:
        """Name a category."""
        self._define(CATEGORY, number & MASK32, domain.number, _encoded(_plain(name)))

    def _define(self, kind: int, number: int, extra: int, text: bytes) -> None:
        files = self.life.files
        with files.lock:
            self._definitions.append((kind, number, extra, text))
            if files.opened:
                files.define(kind, number, extra, text)

    def _define_name(self, life: _Life, number: int) -> None:
        with life.files.lock:
            if self._open(life) and life.files.define(STRING, number, 0, self._texts[number]):
                life.defined[number] = True

    # Events

    def begin(self, kind: int, string: int, base: int, category: int, color: int, payload: int) -> int:
        """Write a mark, or the beginning of a range; return the id that a started range has."""
        try:
            life = self.life
            if string not in life.defined:
                self._define_name(life, string)
            try:
                room = self.local.room
                place = next(room.slots)
            except (AttributeError, StopIteration):
                room, place = self._more_room()
                if place is None:
                    return 0
            _pack_into(room.buffer, place, _now(), kind + base, category, color, payload)
            if kind & 0xFF == START:
                return life.generation << 48 | int(room.chunk.offset + place)
        except Exception:
            pass
        return 0

    def pop(self, kind: int) -> None:
        """Write the end of the range that was pushed last; `kind` is a domain's ``pop``."""
        now = _now()  # first: what is done here is not in the range
        try:
            try:
                room = self.local.room
                place = next(room.slots)
            except (AttributeError, StopIteration):
                room, place = self._more_room()
                if place is None:
                    return
            _pack_into(room.buffer, place, now, kind, 0, 0, 0)
        except Exception:
            pass

    def end(self, number: Any) -> None:
        """Write the end of a started range."""
        now = _now()
        try:
            if not number:
                return  # the beginning was lost, and counted
            room, place = self._place()
            if place is not None:
                _pack_into(room.buffer, place, now, END, 0, 0, number)
        except Exception:
            pass

    def _place(self) -> Tuple[_Room, Optional[int]]:
        try:
            room = self.local.room
            return room, next(room.slots)
        except (AttributeError, StopIteration):
            return self._more_room()

    def _open(self, life: _Life) -> bool:
        """Open the files, and write what was defined before."""
        files = life.files
        if not files.opened:
            if not files.open(process_facts.command()):
                return False
            for definition in self._definitions:
                files.define(*definition)
        return True

    def _more_room(self) -> Tuple[_Room, Optional[int]]:
        life = self.life
        room: Optional[_Room] = getattr(life.local, "room", None)
        if room is None:
            room = life.local.room = _Room(life, next(life.serials))
        now = _now()
        files = life.files
        with files.lock:
            if now < room.retry_ns or not self._take_chunk(life, room):
                if now >= room.retry_ns:
                    room.retry_ns = now + RETRY_NS
                room.lost += 1
                files.count_lost()
                return room, None
            segment = SEGMENT | room.serial << 32
            _pack_into(room.buffer, next(room.slots), now, segment, 0, 0, _thread.get_native_id())
            if room.lost:
                _pack_into(room.buffer, next(room.slots), now, GAP, 0, 0, room.lost)
                room.lost = 0
            return room, next(room.slots)

    def _take_chunk(self, life: _Life, room: _Room) -> bool:
        """Give a thread room: the rest of an ended thread's chunk, or a new one."""
        if not self._open(life):
            return False
        if room.chunk is not None:
            life.files.release(room.chunk)
            room.chunk = room.buffer = None
        if life.rests:
            room.chunk, room.slots = life.rests.pop()
        else:
            chunk = life.files.chunk(room.next_size)
            if chunk is None:
                return False
            room.chunk = chunk
            room.slots = iter(range(0, room.next_size, RECORD.size))
            room.next_size = min(4 * room.next_size, _LARGEST_CHUNK)
        room.buffer = room.chunk.buffer
        return True

    def _forked(self) -> None:
        try:
            parent, self._pid = self._pid, os.getpid()
            old = self.life
            self._naming = _thread.allocate_lock()  # another thread of the parent may have held it
            self.life = _Life(self._spool, old.generation + 1, parent)
            self.local, self.defined = self.life.local, self.life.defined
            old.files.forget()
        except Exception:
            pass


def _plain(text: Any) -> str:
    """Return what a name says, whatever it is."""
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    return str.__str__(text) if isinstance(text, str) else str(text)


def _encoded(text: str) -> bytes:
    data = text.encode("utf-8", "replace")
    return data if len(data) <= _MOST_TEXT else data[:_MOST_TEXT].decode("utf-8", "ignore").encode()


def _without_digits(text: str) -> str:
    """Replace runs of ASCII digits by ``{n}``, the form in which reports show names that differ by a number."""
    parts: List[str] = []
    digits = False
    for letter in text:
        if not "0" <= letter <= "9":
            parts.append(letter)
        elif not digits:
            parts.append("{n}")
        digits = "0" <= letter <= "9"
    return "".join(parts)
