"""Changes that keep an input's structure: JSON stays JSON, an archive keeps its checksums, a column its type.

Changing bytes at random would find again and again that a CRC is wrong. Here an archive is unpacked, its members are
changed by what they are, and it is packed again. Everything is decided by one random generator, so that a run can be
repeated.
"""

from __future__ import annotations

import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["FLOATS", "INTEGERS", "TEXTS", "Mutation", "packed", "unpacked"]

INTEGERS = (
    0,
    1,
    -1,
    2,
    7,
    127,
    255,
    256,
    65535,
    2**31 - 1,
    2**31,
    -(2**31),
    2**32,
    2**53,
    2**62,
    2**63 - 1,
    -(2**63),
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-9, 0.5, 5e-324, 1e-300, 1e9, 1e15, 1e18, 1e300, 1.7e308, -1e300)
#: Numbers that JSON writers of other languages leave, and that float64 holds.
ODD_FLOATS = (float("nan"), float("inf"), float("-inf"))

#: Texts that mean something to a terminal, a page, Markdown, a shell, a path, or a rule of masking.
TEXTS = (
    "",
    " ",
    "\n",
    "\x00",
    "\x1b[2J\x1b]0;title\x07",
    "\x9b31m",
    "\u202egnp.exe",
    "\u2028",
    "\ud800",
    "\udcff/caf\udce9.py",
    "é" * 40,
    "中文" * 20,
    "e\u0301\u0301\u0301",
    "a" * 300,
    "x y" * 500,
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "]]><svg onload=alert(1)>",
    "&lt;&#60;&amp;",
    '"><b>',
    "```\n# title\n```",
    "`" * 9,
    "~~~",
    "| a | b |",
    "**bold** _it_ [l](http://e.example/x)",
    "@team #12 !5 GH-5 0123456789abcdef0123456789abcdef01234567",
    "https://user:pw@h.example/p?X-Amz-Signature=abc#access_token=def",
    "me@corp.example",
    "--password=hunter2",
    "--token",
    "PGPASSWORD=x",
    "$(reboot); `id` && 'q' \"d\" \\",
    "%s %d {} {n} {0!r}",
    "/home/zelda/project/train.py",
    "/root/.ssh/id_rsa",
    "C:\\Users\\zelda\\x.py",
    "\\\\node17\\share\\x.py",
    "../../../etc/passwd",
    "~",
    "<built-in method time.sleep>",
    "<frozen importlib._bootstrap>",
    "<module>",
    "<lambda>",
    "/usr/lib/python3.11/threading.py",
    "/site-packages/numpy/core/_methods.py",
    "main",
    "rank",
    "worker",
    "killed",
    "python",
    "3.12.0",
    "2026-11-21T18:52:41.784+00:00",
    "forward",
    "step 12 0x7f 3.5",
    "OMP_NUM_THREADS",
    "1e999",
    "NaN",
    "-5",
)

_ITEM_SIZE = {"|u1": 1, "<i4": 4, "<u4": 4, "<i8": 8, "<u8": 8, "<f8": 8, "|b1": 1}
_NPY = re.compile(rb"'descr': '([<|]\w\d)'.*?'shape': \((\d+),\)", re.DOTALL)


@dataclass(slots=True)
class Mutation:
    """One step of mutation.

    Attributes
    ----------
    random
        Decides everything.
    bytes_of
        Changes bytes anywhere, as the engine does it, given the bytes and the most that there may be.
    """

    random: random.Random
    bytes_of: Callable[[bytes, int], bytes]

    # Values

    def integer(self, old: int = 0) -> int:
        """Return a number near to another one, or near to a limit."""
        kind = self.random.randrange(4)
        if kind == 0:
            return old + self.random.choice((-1, 1, 2, -2, 16, 1000))
        if kind == 1:
            return old * self.random.choice((-1, 2, 10, 1000))
        return self.random.choice(INTEGERS)

    def number(self, old: float = 0.0) -> float:
        """Return a float, seldom one that is no number."""
        kind = self.random.randrange(10)
        if kind == 0:
            return self.random.choice(ODD_FLOATS)
        if kind < 4:
            return old * self.random.choice((-1.0, 2.0, 1000.0, 1e-6, 0.9))
        return self.random.choice(FLOATS)

    def text(self, old: str = "") -> str:
        """Return a text, perhaps made of another one."""
        chosen = self.random.choice(TEXTS)
        kind = self.random.randrange(6)
        if kind == 0:
            at = self.random.randint(0, len(old))
            return old[:at] + chosen + old[at:]
        if kind == 1:
            return old[: self.random.randint(0, len(old))]
        if kind == 2:
            return old * 2
        return chosen

    def value(self, old: Any) -> Any:
        """Return another value: mostly of the same type, else of any."""
        if self.random.random() < 0.8:
            if isinstance(old, bool):
                return not old
            if isinstance(old, int):
                return self.integer(old)
            if isinstance(old, float):
                return self.number(old)
            if isinstance(old, str):
                return self.text(old)
        return self.random.choice(
            (None, True, False, self.integer(), self.number(), self.text(), [], {}, [[]], {"": None}, [1, 2])
        )

    # Trees: what JSON and marshal hold

    def tree(self, tree: Any) -> Any:
        """Return a tree of lists, dictionaries and scalars with one to three changes."""
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            tree = self._changed(tree)
        return tree

    def _changed(self, tree: Any) -> Any:
        places = _places(tree)
        path = self.random.choice(places)
        return _replaced(tree, path, self._branch)

    def _branch(self, old: Any) -> Any:
        kind = self.random.randrange(8)
        if isinstance(old, dict) and old and kind < 6:
            changed = dict(old)
            key = self.random.choice(list(changed))
            if kind == 0:
                del changed[key]
            elif kind == 1:
                changed[self.text(str(key))] = changed[key]
            elif kind == 2:
                changed[key] = changed[self.random.choice(list(changed))]
            else:
                changed[key] = self.value(changed[key])
            return changed
        if isinstance(old, list | tuple) and old and kind < 7:
            items = list(old)
            at = self.random.randrange(len(items))
            if kind == 0:
                del items[at]
            elif kind == 1:
                items.insert(at, items[self.random.randrange(len(items))])
            elif kind == 2:
                items = items * self.random.choice((2, 3))
            elif kind == 3:
                other = self.random.randrange(len(items))
                items[at], items[other] = items[other], items[at]
            elif kind == 4:
                items = items[:at]
            else:
                items[at] = self.value(items[at])
            return tuple(items) if isinstance(old, tuple) else items
        return self.value(old)

    # Bytes with a form

    def json_bytes(self, data: bytes) -> bytes:
        """Change a JSON document, seldom to what is none."""
        try:
            tree = json.loads(data)
        except (ValueError, RecursionError):
            return self.bytes_of(data, 2 * len(data) + 64)
        if self.random.random() < 0.05:
            return self.bytes_of(data, len(data) + 64)
        return json.dumps(self.tree(tree), separators=(",", ":")).encode("ascii")

    def column(self, data: bytes) -> bytes:
        """Change an array in numpy's form: its elements, its length with its header, or any byte."""
        start = 10 + int.from_bytes(data[8:10], "little")
        known = _NPY.search(data[:start])
        kind = known[1].decode() if known else ""
        size = _ITEM_SIZE.get(kind)
        if known is None or size is None or self.random.random() < 0.05:
            return self.bytes_of(data, len(data) + 64)
        items = bytearray(data[start:])
        count = len(items) // size
        for _ in range(self.random.choice((1, 1, 2, 5))):
            if not count:
                break
            at = size * self.random.randrange(count)
            items[at : at + size] = self._item(kind, bytes(items[at : at + size]))
        if self.random.random() < 0.1:
            items = bytearray(items[: size * self.random.randint(0, count)])
        elif self.random.random() < 0.1:
            items += items[-size:] * self.random.choice((1, 2, 50))
        head = re.sub(rb"\(\d+,\)", b"(%d,)" % (len(items) // size), data[:start].rstrip())
        return head.ljust(start - 1)[: start - 1] + b"\n" + bytes(items)

    def _item(self, kind: str, old: bytes) -> bytes:
        if kind == "<f8":
            return struct.pack("<d", self.number(struct.unpack("<d", old)[0]))
        signed = kind[1] == "i"
        value = self.integer(int.from_bytes(old, "little", signed=signed))
        return (value & (1 << 8 * len(old)) - 1).to_bytes(len(old), "little")

    def members(
        self, members: Mapping[str, bytes], by_name: Callable[[str, bytes], bytes]
    ) -> dict[str, bytes]:
        """Change one to three members of an archive, each as `by_name` does it, or leave out or add one."""
        changed = dict(members)
        for _ in range(self.random.choice((1, 1, 2, 3))):
            if not changed:
                return changed
            name = self.random.choice(list(changed))
            kind = self.random.randrange(20)
            if kind == 0:
                del changed[name]
            elif kind == 1:
                changed[self.text(name).replace("\x00", "") or "x"] = changed[name]
            elif kind == 2:
                changed[name] = changed[self.random.choice(list(changed))]
            else:
                changed[name] = by_name(name, changed[name])
        return changed


def _places(tree: Any) -> Sequence[tuple[Any, ...]]:
    """Return the path of every branch of a tree, the root's included."""
    found: list[tuple[Any, ...]] = []
    left: list[tuple[Any, tuple[Any, ...]]] = [(tree, ())]
    while left and len(found) < 5000:
        branch, path = left.pop()
        found.append(path)
        if isinstance(branch, dict):
            left += [(item, (*path, key)) for key, item in branch.items()]
        elif isinstance(branch, list | tuple) and len(path) < 30:
            left += [(item, (*path, at)) for at, item in enumerate(branch)]
    return found


def _replaced(tree: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(tree)
    if isinstance(tree, dict):
        return {**tree, path[0]: _replaced(tree[path[0]], path[1:], change)}
    items = list(tree)
    items[path[0]] = _replaced(items[path[0]], path[1:], change)
    return tuple(items) if isinstance(tree, tuple) else items


def unpacked(data: bytes) -> tuple[bytes, dict[str, bytes]] | None:
    """Return what stands before a ZIP archive, and its members; ``None`` where it is none."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            if any(info.file_size > 1 << 20 for info in infos):
                return None
            front = data[: min((info.header_offset for info in infos), default=0)]
            return front, {info.filename: archive.read(info) for info in infos}
    except Exception:  # whatever zipfile raises for it: the input is then changed as bytes
        return None


def packed(front: bytes, members: Mapping[str, bytes]) -> bytes:
    """Return a ZIP archive behind some bytes; equal members give equal bytes."""
    out = io.BytesIO()
    out.write(front)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name.encode("utf-8", "replace").decode(), (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data, compresslevel=1)
    return out.getvalue()
