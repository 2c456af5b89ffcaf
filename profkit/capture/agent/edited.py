"""Run a Python program with one line edited, without changing its files.

``python edited.py FILE LINE FUNCTION CODE SCRIPT [WORDS…]`` or ``… -m MODULE [WORDS…]``: CODE is the
corrected call or assignment, such as ``torch.set_num_threads(2)``. Calls of the same function inside FUNCTION
of FILE, which begins at LINE, get the number of CODE; the source is edited when it is compiled.
"""

from __future__ import annotations

import ast
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, Iterator, List, Optional, Sequence, Tuple

#: Keywords that carry the number if it is not the first argument.
_KEYWORDS = ("processes", "max_workers", "num_workers", "num_threads", "nthreads", "limits", "n")


def edit(source: str, file: str, line: int, function: str, code: str) -> Tuple[ast.Module, List[int]]:
    """Return the edited program and the numbers of the edited lines.

    `function` is the qualified name of the function that begins at `line`, or ``<module>``.
    """
    tree = ast.parse(source, file)
    wanted = ast.parse(code.replace("…, ", "")).body[0]
    place = _function(tree, line, function.rpartition(".")[2])
    lines: List[int] = []
    for node in _own(place) if place is not None else ():
        if isinstance(wanted, ast.Expr) and isinstance(wanted.value, ast.Call):
            if isinstance(node, ast.Call) and _name(node.func) == _name(wanted.value.func):
                _resize(node, wanted.value)
                lines.append(node.lineno)
        elif (
            isinstance(wanted, ast.Assign)
            and isinstance(node, ast.Assign)
            and any(ast.dump(target) == ast.dump(wanted.targets[0]) for target in node.targets)
        ):
            node.value = wanted.value
            lines.append(node.lineno)
    return ast.fix_missing_locations(tree), lines


def _function(tree: ast.Module, line: int, name: str) -> Optional[ast.AST]:
    if name == "<module>":
        return tree
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name
    ]
    begins = [[*(d.lineno for d in node.decorator_list), node.lineno] for node in found]
    return next((node for node, at in zip(found, begins) if not line or line in at), None)


def _own(place: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function or module, except those of nested functions."""
    for node in ast.iter_child_nodes(place):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
            yield from _own(node)


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _resize(call: ast.Call, wanted: ast.Call) -> None:
    if wanted.args:
        value = wanted.args[0]
        named = next((k for k in call.keywords if k.arg in _KEYWORDS), None)
        if call.args and not isinstance(call.args[0], ast.Starred):
            call.args[0] = value
        elif named is not None:
            named.value = value
        else:
            call.args.insert(0, value)
    for keyword in wanted.keywords:
        named = next((k for k in call.keywords if k.arg == keyword.arg), None)
        if named is not None:
            named.value = keyword.value
        else:
            call.keywords.append(keyword)


def _compiled(path: str, line: str, function: str, code: str) -> CodeType:
    with open(path, "rb") as file:
        data = file.read()
    import importlib.util

    tree, _ = edit(importlib.util.decode_source(data), path, int(line), function, code)
    return compile(tree, path, "exec", dont_inherit=True)


def main(words: Sequence[str]) -> None:
    """Run the program, edited."""
    edited, line, function, code = words[:4]
    rest = list(words[4:])
    import importlib.machinery

    loader: Any = importlib.machinery.SourceFileLoader
    get_code = loader.get_code

    def get_edited(self: Any, fullname: str) -> Any:
        if os.path.realpath(self.path) == os.path.realpath(edited):
            return _compiled(self.path, line, function, code)
        return get_code(self, fullname)

    loader.get_code = get_edited
    if rest[0] == "-m":
        import runpy

        sys.argv = rest[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(rest[1], run_name="__main__", alter_sys=True)
        return
    script = rest[0]
    sys.argv = rest
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    if sys.version_info >= (3, 9):
        script = os.path.abspath(script)
    import types

    program = types.ModuleType("__main__")
    program.__dict__.update(__file__=script, __builtins__=__builtins__)
    if os.path.realpath(script) == os.path.realpath(edited):
        compiled = _compiled(script, line, function, code)
    else:
        with open(script, "rb") as file:
            compiled = compile(file.read(), script, "exec", dont_inherit=True)
    sys.modules["__main__"] = program
    exec(compiled, program.__dict__)


if __name__ == "__main__":
    main(sys.argv[1:])
