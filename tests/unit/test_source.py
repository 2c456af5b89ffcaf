"""Qualified names and source hashes, read from the text of a file."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import textwrap
import types
import typing
from pathlib import Path

import numpy.ma.core
import pytest

from profkit.capture.source import SourceFile, read_source

TEXT = textwrap.dedent(
    '''\
    import functools


    def plain(a,
              b=(1, 2)):  # comment
        """A docstring with a "quote" and
    text at the margin."""
        if a:
            return b

        # a comment at the end


    class Outer:
        @functools.lru_cache(
            maxsize=None,
        )
        def method(self):
            def inner(x):
                return {
        "key": x,
    }
            return inner

        async def later(self): return 1

        class Nested:
            def method(self):
                return lambda y: y + 1


    after = plain(1, [
        2])
    '''
)


def lines_of(name: str) -> list[int]:
    """First lines, decorators included, of every function of that name: as `co_firstlineno` has it."""
    found = []
    for node in ast.walk(ast.parse(TEXT)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            found.append(min([node.lineno, *(d.lineno for d in node.decorator_list)]))
    return sorted(found)


def test_qualified_names() -> None:
    source = SourceFile(TEXT)
    (plain,), (inner,), (later,) = lines_of("plain"), lines_of("inner"), lines_of("later")
    first, second = lines_of("method")
    assert source.qualname(plain, "plain") == "plain"
    assert source.qualname(first, "method") == "Outer.method"
    assert source.qualname(inner, "inner") == "Outer.method.<locals>.inner"
    assert source.qualname(later, "later") == "Outer.later"
    assert source.qualname(second, "method") == "Outer.Nested.method"
    assert source.qualname(plain, "another") == ""
    assert source.qualname(10_000, "plain") == ""


def changed(old: str, new: str) -> set[str]:
    """Functions whose hash changes when the text does."""
    assert TEXT.count(old) == 1
    at, added = TEXT[: TEXT.index(old)].count("\n"), new.count("\n") - old.count("\n")
    source, other = SourceFile(TEXT), SourceFile(TEXT.replace(old, new))
    lines = {name: lines_of(name)[0] for name in ("plain", "inner", "method")}
    there = {name: line + added if line > at + 1 else line for name, line in lines.items()}
    return {name for name in lines if source.hash(lines[name], name) != other.hash(there[name], name)}


def test_a_change_shows_in_the_function_and_in_those_around_it() -> None:
    assert changed("return b", "return a") == {"plain"}
    assert changed('"key": x', '"key": -x') == {"inner", "method"}
    assert changed("b=(1, 2)", "b=(1, 3)") == {"plain"}
    assert changed("maxsize=None", "maxsize=1") == {"method"}
    assert changed("text at the margin", "other text") == {"plain"}
    # Comments, blank lines and the place do not count.
    assert changed("# a comment at the end", "") == set()
    assert changed("# comment\n", "\n") == set()
    assert changed("import functools\n", "import functools\nimport os\n\n\n") == set()
    assert changed("after = plain(1, [", "after = 5, plain(1, [") == set()
    assert changed("        return b\n\n", "        return b\n\n\n\n") == set()


def test_hashes_are_those_in_files_that_were_written_before() -> None:
    """Runs of earlier versions are compared with new ones: another hash would look like changed code."""
    source = SourceFile(TEXT)
    (plain,), (inner,), methods = lines_of("plain"), lines_of("inner"), lines_of("method")
    assert source.hash(plain, "plain") == "a8a2b08101f9c83a"
    assert source.hash(inner, "inner") == "2b78081c22f0c2f8"
    assert [source.hash(line, "method") for line in methods] == ["eda0306b0bce4744", "19f0a47a091fcd57"]
    assert source.hash(1, "<module>") == "87d08a65c21db743"
    assert source.hash(methods[1] + 1, "<lambda>") == "ffc1cedfd74c4ef0"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('x = "# no comment"  # one', 'x = "# no comment"'),
        ("x = '''a # b\n' '' # c\n'''  # d", "x = '''a # b\n' '' # c\n'''"),
        (r'x = "a \" # b"  # c', r'x = "a \" # b"'),
        (r"x = '''a \''' # b'''  # c", r"x = '''a \''' # b'''"),
        ("x = 'not closed # b", "x = 'not closed"),
        ('x = """not closed # b', 'x = """not closed'),
        ("x = '' # b", "x = ''"),
        ('x = """""" # b', 'x = """"""'),
    ],
)
def test_what_is_a_comment(text: str, kept: str) -> None:
    head = "def f():\n    "
    assert SourceFile(head + text).hash(1, "f") == SourceFile(head + kept).hash(1, "f")


def test_files_that_are_no_source(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\ndef f():\n    return '\xe9'\n")
    (tmp_path / "broken.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "lib.so").write_bytes(b"def f(): pass")
    latin = read_source(str(tmp_path / "latin.py"))
    assert latin.qualname(2, "f") == "f"
    for name in ("broken.py", "lib.so", "missing.py", "."):
        assert read_source(str(tmp_path / name)) is None


@pytest.mark.parametrize("module", [argparse, dataclasses, inspect, textwrap, typing, numpy.ma.core])
def test_blocks_end_where_the_parser_says(module: types.ModuleType) -> None:
    """A function's hash is that of the lines that the compiler's parser finds, alone in a file."""
    text = inspect.getsource(module)
    lines = text.splitlines(keepends=True)
    source = SourceFile(text)
    checked = 0
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            alone = "".join(lines[first - 1 : node.end_lineno])
            assert source.hash(first, node.name) == SourceFile(alone).hash(1, node.name), node.name
            qualname = source.qualname(first, node.name)
            assert qualname.rpartition(".")[2] == node.name
            checked += 1
    assert checked > 5


CALLS = '''\
import torch
torch.set_num_threads(8)  # torch.set_num_threads(1)
"""torch.set_num_threads(2)"""
class Loader:
    pool = Pool(3)

    def load(self):
        def inner():
            pass
        with ctx.Pool(
                4) as pool, ThreadPool(5):
            return torch.set_num_threads
'''


def test_calls_and_the_functions_around_them() -> None:
    source = SourceFile(CALLS)
    assert list(source.calls("torch.set_num_threads")) == ["<module>"]
    assert list(source.calls("Pool")) == ["<module>", "Loader.load"]
    assert list(SourceFile(TEXT).calls("plain")) == ["<module>"]


def test_where_code_without_a_file_is_defined() -> None:
    text = """\
def outer(x):
    found = [y for y in x]
    return lambda: found


class Kept:
    @staticmethod
    def method(x):
        return x


double = lambda x: [y for y in x]
"""
    source = SourceFile(text)
    defined = {
        (1, "outer", "outer"),
        (1, "outer", ""),  # Python 3.10 has no qualified names
        (2, "<listcomp>", "outer.<locals>.<listcomp>"),
        (3, "<lambda>", "outer.<locals>.<lambda>"),
        (7, "method", "Kept.method"),
        (12, "<lambda>", "<lambda>"),
        (12, "<listcomp>", "<lambda>.<locals>.<listcomp>"),
    }
    others = {
        (2, "outer", "outer"),
        (1, "inner", "inner"),
        (1, "outer", "other.<locals>.outer"),
        (2, "<listcomp>", "<listcomp>"),
        (3, "<lambda>", "other.<locals>.<lambda>"),
        (3, "<lambda>", ""),
        (99, "<lambda>", "<lambda>"),
    }
    assert {code for code in defined | others if source.defines(*code)} == defined


def test_all_functions_of_a_file_have_the_hash_that_a_call_finds() -> None:
    source = SourceFile(TEXT)
    found = source.hashes()
    assert found["plain"] == source.hash(lines_of("plain")[0], "plain")
    # With its decorators; of two definitions of one name nothing is known.
    assert found["Outer.method"] == source.hash(lines_of("method")[0], "method")
    twice = SourceFile("def one():\n    return 1\n\n\ndef one():\n    return 2\n\n\ndef other():\n    pass\n")
    assert set(twice.hashes()) == {"other"}
    # A newer Python's syntax costs the decorators only.
    assert set(SourceFile("match = 1\n@a\ndef f():\n    pass\nx = (\n").hashes()) == {"f"}
