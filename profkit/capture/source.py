"""Reads source files: qualified names for old interpreters, and a hash of each function's text.

The hash covers the lines from the first decorator to the end of the block, without comments, blank lines and
leading indentation, so it is the same on every machine and Python version.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from profkit.formats.regular_file import read_regular

#: Larger files are generated tables; they are not read.
_MOST_BYTES = 8 * 2**20

#: A string, to skip its contents. For speed, here and in what is made of it, each alternative begins with a
#: character of its own and no group is around them: the engine then skips what begins with none of these.
_STRING = (
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
    r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    r"""|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'"""
)
#: Comments, with strings so that a ``#`` inside them is passed over.
_COMMENT = re.compile(rf"{_STRING}|\#[^\n]*", re.DOTALL)
#: What decides the end of a block: strings, comments, brackets, and ends of lines that are not joined.
_TOKEN = re.compile(rf"{_STRING}|\#[^\n]*|\(|\[|\{{|\)|\]|\}}|\\\n|\n", re.DOTALL)
#: From a function's first line, perhaps a decorator's, to the line with its `def`.
_HEAD = re.compile(r"(?:[ \t]*(?:@[^\n]*)?\n)*[ \t]*(?:async[ \t]+)?(?:def|class)\b[^\n]*\n")
_DEFINITION = re.compile(r"^([ \t]*)(?:(?:async[ \t]+)?(def)|(class))[ \t]+(\w+)", re.MULTILINE)


class SourceFile:
    """One source file, for its functions in the profile."""

    def __init__(self, text: str) -> None:
        self._text = text.replace("\r\n", "\n").replace("\r", "\n")
        if not self._text.endswith("\n"):
            self._text += "\n"

    @functools.cached_property
    def _starts(self) -> npt.NDArray[np.intp]:
        """Return the line starts and the end of the text; not made for files that are only hashed whole."""
        if self._text.isascii():
            characters = np.frombuffer(self._text.encode("ascii"), np.uint8)
        else:
            characters = np.frombuffer(self._text.encode("utf-32-le", "surrogatepass"), "<u4")
        return np.append(0, np.flatnonzero(characters == ord("\n")) + 1)

    def line(self, number: int) -> str:
        """Return a line without its indentation; empty if it does not exist."""
        starts = self._starts
        return self._text[starts[number - 1] : starts[number]].strip() if 0 < number < len(starts) else ""

    def qualname(self, line: int, name: str) -> str:
        """Return the qualified name of the function `name` with code from `line` on; empty if not found."""
        # A decorated function's code starts at its first decorator; its `def` is the next of that name.
        for at in range(line, min(line + 50, len(self._starts))):
            if at in self._definitions:
                _, qualname, _ = self._definitions[at]
                return qualname if qualname.rpartition(".")[2] == name else ""
        return ""

    def defines(self, line: int, name: str, qualname: str) -> bool:
        """Return whether code of this name begins at a line; an empty `qualname` is not known."""
        if not name.startswith("<"):
            return bool(found := self.qualname(line, name)) and qualname in ("", found)
        if not 0 < line < len(self._starts) or not qualname:
            return False
        # A lambda or comprehension: within the same function.
        outer = qualname.split(".<locals>.")[:-1]
        while outer and outer[-1].rpartition(".")[2].startswith("<"):
            outer.pop()
        return self._around(int(self._starts[line - 1])) == (".<locals>.".join(outer) or "<module>")

    def calls(self, name: str) -> Iterator[str]:
        """Yield the function around each call of a dotted name: its qualified name, or ``<module>``.

        Calls in strings and comments do not count.
        """
        at = self._text.find(f"{name}(")
        while at >= 0:
            before = self._text[at - 1 : at]
            is_defined = self._text.endswith(("def ", "class "), 0, at)
            in_text = any(begin <= at < end for begin, end in self._literals)
            if not (before.isalnum() or before == "_" or is_defined or in_text):
                yield self._around(at)
            at = self._text.find(f"{name}(", at + 1)

    @functools.cached_property
    def _literals(self) -> list[tuple[int, int]]:
        """Return where strings and comments begin and end."""
        return [match.span() for match in _COMMENT.finditer(self._text)]

    def _around(self, offset: int) -> str:
        line = bisect_right(self._starts.tolist(), offset)
        indent = _indent(self._text, int(self._starts[line - 1]))
        for at, (before, qualname, is_function) in reversed(self._definitions.items()):
            if at < line and before < indent:
                if is_function:
                    return qualname
                indent = before
        return "<module>"

    @functools.cached_property
    def _definitions(self) -> dict[int, tuple[int, str, bool]]:
        """Return functions and classes by line: indent, qualified name, whether it is a function."""
        found: dict[int, tuple[int, str, bool]] = {}
        outer: list[tuple[int, str, bool]] = []
        starts = self._starts.tolist()
        for match in _DEFINITION.finditer(self._text):
            indent = len(match[1].expandtabs())
            while outer and outer[-1][0] >= indent:
                outer.pop()
            parts = [name + (".<locals>" if function else "") for _, name, function in outer]
            is_function = match[2] is not None
            found[bisect_right(starts, match.start())] = indent, ".".join([*parts, match[4]]), is_function
            outer.append((indent, match[4], is_function))
        return found

    def hash(self, line: int, name: str) -> str:
        """Return 16 hexadecimal digits of SHA-256: of a block, lambda's statement, or ``<module>``."""
        if name == "<module>" and line == 1:
            return _digest(self._text)
        starts = self._starts
        if not 1 <= line < len(starts):
            return ""
        if name == "<module>":
            return _digest(self._text)
        first = int(starts[line - 1])
        text = self._text[first : self._end(first, has_block=not name.startswith("<"))]
        if "#" in text:
            text = _COMMENT.sub(lambda match: "" if match[0][0] == "#" else match[0], text)
        lines = list(filter(None, map(str.rstrip, text.split("\n"))))
        if not lines:
            return ""
        margin = len(lines[0]) - len(lines[0].lstrip())
        if margin:
            common = lines[0][:margin]
            lines = [
                part[margin:] if part.startswith(common) or not part[:margin].strip() else part
                for part in lines
            ]
        return _digest("\n".join(lines))

    def hashes(self) -> dict[str, str]:
        """Return the hash of each function by qualified name; of functions of one name, that of none."""
        found: dict[str, str] = {}
        for line, (_, qualname, is_function) in self._definitions.items():
            if is_function:
                digest = self.hash(self._first_line(line), qualname.rpartition(".")[2])
                found[qualname] = "" if qualname in found else digest
        return {qualname: digest for qualname, digest in found.items() if digest}

    def _first_line(self, line: int) -> int:
        """Return the line of the first decorator of a definition, or its own."""
        first = at = line
        while at > 1:
            at -= 1
            above = self.line(at)
            if above.startswith("@"):
                first = at
            elif ")" in above and at == first - 1:  # perhaps the end of a decorator
                return self._decorated.get(line, first)
            elif above and not above.startswith("#"):
                break
        return first

    @functools.cached_property
    def _decorated(self) -> dict[int, int]:
        """Return the first decorator's line by the line of a definition; slow."""
        try:
            tree = ast.parse(self._text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return {}
        return {
            node.lineno: min(decorator.lineno for decorator in node.decorator_list)
            for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.decorator_list
        }

    def _end(self, first: int, has_block: bool) -> int:
        """Return the offset after the block, or after the statement if it has no block."""
        if has_block:
            indent = _indent(self._text, first)
            head = _HEAD.match(self._text, first)
            if head is not None:
                after = _dedent(indent).search(self._text, head.end() - 1)
                end = after.end() if after is not None else len(self._text)
                # A line without deeper indentation ends the block, unless in brackets or a string.
                block = self._text[first:end]
                if all(block.count(a) == block.count(b) for a, b in ("()", "[]", "{}")) and not (
                    block.count('"""') % 2 or block.count("'''") % 2
                ):
                    return end
        return self._end_by_tokens(first, has_block)

    def _end_by_tokens(self, first: int, has_block: bool) -> int:
        text = self._text
        indent = _indent(text, first)
        depth = 0
        defined = False  # past the `def` line (decorators come before it)
        end = len(text)
        line_start = first
        deeper = " " * (indent + 1)
        for match in _TOKEN.finditer(text, first):
            kind = text[match.start()]
            if kind in "([{":
                depth += 1
            elif kind in ")]}":
                depth -= 1
            elif kind == "\n" and depth <= 0:
                end = match.end()
                if not has_block:
                    return end
                if not defined:
                    defined = _HEAD.match(text, line_start, end) is not None
                line_start = end
                if not defined or text.startswith(deeper, end):
                    continue
                following = text[end : text.find("\n", end) + 1].strip()
                if following and following[0] != "#" and _indent(text, end) <= indent:
                    return end
        return end


def _indent(text: str, at: int) -> int:
    width = 0
    while text[at : at + 1] in (" ", "\t"):
        width += 1 if text[at] == " " else 8 - width % 8
        at += 1
    return width


@functools.cache
def _dedent(indent: int) -> re.Pattern[str]:
    """Return a pattern for the line break (a literal, which is fast) before code of at most this indent."""
    return re.compile(rf"\n(?=[ ]{{0,{indent}}}[^\s#]|\t{{0,{indent // 8}}}[^\s#])")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_source(path: str) -> SourceFile | None:
    """Return a source file, ``None`` if it does not exist or is no Python source."""
    if not path.endswith((".py", ".pyw", ".ipy")) and "." in path.rpartition("/")[2]:
        return None
    try:
        data = read_regular(path, _MOST_BYTES)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return SourceFile(data.decode(encoding))
    except (OSError, SyntaxError, LookupError, ValueError):
        return None
