"""The shape of the package, read from its sources: which room may import which, and what each promises."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.shared import ROOT, words_of

PACKAGE = ROOT / "profkit"

#: A room may import the rooms before it, and itself.
ROOMS = tuple(
    words_of("errors model formats capture identity measure compare verdict study fleet report api cli")
)

#: Rooms that compute: no files, no clock, no environment, no output.
PURE = ("identity", "measure", "compare", "verdict")

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)
AGENT = [path for path in MODULES if path.is_relative_to(PACKAGE / "capture" / "agent")]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports_of(path: Path) -> list[tuple[str, int]]:
    """Return every module that a source imports, anywhere in it, as a dotted name with the line."""
    return list(imported_by(path, tree_of(path)))


def imported_by(path: Path, tree: ast.Module) -> Iterator[tuple[str, int]]:
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            if module == "profkit" or (node.level and not node.module):
                # ``from profkit import model`` names a room, not an attribute.
                for alias in node.names:
                    yield f"{module}.{alias.name}", node.lineno
            else:
                yield module, node.lineno


def room_of(dotted: str) -> str | None:
    """Return the room of a dotted name, ``None`` for what is not ours or stands outside the rooms."""
    parts = dotted.split(".")
    return parts[1] if parts[0] == "profkit" and len(parts) > 1 and parts[1] in ROOMS else None


def own_room(path: Path) -> str | None:
    return room_of(".".join(path.relative_to(ROOT).with_suffix("").parts))


def wrong_direction(path: Path, source: str | None = None) -> list[str]:
    room = own_room(path)
    allowed = ROOMS[: ROOMS.index(room) + 1]
    tree = tree_of(path) if source is None else ast.parse(source)
    return [
        f"{relative(path)}:{line} imports {name}"
        for name, line in imported_by(path, tree)
        if room_of(name) is not None and room_of(name) not in allowed
    ]


def test_the_sources_were_found_and_every_directory_is_a_known_room() -> None:
    assert set(ROOMS) <= {own_room(path) for path in MODULES}
    assert AGENT
    known = {*ROOMS, "demo", "__pycache__"}
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir()} <= known


def test_no_two_modules_of_the_lower_rooms_share_a_name() -> None:
    """A name in a traceback or in an editor's tab says which module it is."""
    rooms = ROOMS[: ROOMS.index("verdict") + 1]
    names = Counter(path.stem for path in MODULES if own_room(path) in rooms and path.stem != "__init__")
    assert {name for name, modules in names.items() if modules > 1} == set()


def test_a_module_imports_only_rooms_above_its_own() -> None:
    assert [wrong for path in MODULES if own_room(path) for wrong in wrong_direction(path)] == []


def test_a_wrong_import_would_be_found() -> None:
    module = PACKAGE / "model" / "bad.py"
    wrong = (
        "from profkit.report import Document|from profkit import cli|import profkit.verdict.diagnosis|"
        "def f():\n    from ..formats import load|from .. import capture"
    )
    for source in words_of(wrong, "|"):
        assert wrong_direction(module, source), source
    right = "from profkit.errors import FormatError\nfrom .run import Run\nimport numpy"
    assert wrong_direction(module, right) == []


def outside_imports(path: Path) -> set[str]:
    """Return the top-level names of what a module imports that is neither ours nor the standard library's."""
    tops = {name.partition(".")[0] for name, _ in imports_of(path)}
    return {top for top in tops if top != "profkit" and top not in sys.stdlib_module_names}


def test_what_every_installation_gets_is_what_the_package_imports() -> None:
    """But for ``nvtx``: users' programs import it. What is imported beside comes with an extra, or is not needed."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = project.partition("\ndependencies = [")[2].partition("\n]")[0]
    required = set(re.findall(r'^ *"([\w-]+)', listed, re.MULTILINE))
    imported = set().union(*(outside_imports(path) for path in MODULES if path not in AGENT))
    assert required - imported == {"nvtx"}
    assert imported - required == set(
        words_of("IPython distributed duckdb fsspec mcp optuna pyarrow pynvml tornado")
    )


def test_the_model_depends_on_numpy_alone() -> None:
    for path in (path for path in MODULES if own_room(path) == "model"):
        assert outside_imports(path) <= {"numpy"}, relative(path)


def test_what_computes_is_pure() -> None:
    impure = {"os", "time", "datetime", "pathlib", "io", "subprocess", "tempfile", "shutil", "socket"}
    for path in (path for path in MODULES if own_room(path) in PURE):
        imported = {name for name, _ in imports_of(path)}
        assert outside_imports(path) <= {"numpy"}, relative(path)
        assert {room_of(name) for name in imported} <= {None, "model", "errors", *PURE}, relative(path)
        assert {name.partition(".")[0] for name in imported} & impure == set(), relative(path)
        nodes = [node.func for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
        calls = {node.id for node in nodes if isinstance(node, ast.Name)}
        assert calls & {"open", "print", "input", "exec", "eval"} == set(), relative(path)


def test_a_pair_is_prepared_in_one_place() -> None:
    """What selects, folds, aligns and brings under common rows is called there, and for one run alone."""
    prepare = {
        *("select", "select_processes", "summed", "folded_alike", "in_shares", "fold_comprehensions"),
        *("gather", "join", "align_joined", "build_table", "call_table"),
    }
    users = {
        relative(path)
        for path in MODULES
        if own_room(path) in ("compare", "verdict")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and prepare & {alias.name for alias in node.names}
    }
    assert users == {"profkit/compare/pair.py", "profkit/verdict/alone.py"}


def test_the_agent_needs_nothing_but_an_old_python() -> None:
    """It runs inside the target, where profkit is not installed: siblings are imported as its own package."""
    for path in AGENT:
        ast.parse(path.read_text(encoding="utf-8"), filename=str(path), feature_version=(3, 8))
    agent = "profkit.capture.agent"
    # The injected directory and package are on the target's path under names of their own.
    own = {p.stem for p in AGENT} | {p.name for p in (PACKAGE / "capture" / "agent").iterdir() if p.is_dir()}
    foreign = [
        f"{relative(path)}:{line} imports {name}"
        for path in AGENT
        for name, line in imports_of(path)
        if not (name == agent or name.startswith(agent + "."))
        and name.partition(".")[0] not in sys.stdlib_module_names
        and name.partition(".")[0] not in own | {"profkit_agent"}
    ]
    assert foreign == []


def test_a_module_says_what_it_is() -> None:
    for path in MODULES:
        # What is injected into every interpreter opens with a comment: that costs the target nothing.
        injected = path.parent.name == "inject" and path.read_text(encoding="utf-8").startswith("# ")
        assert injected or ast.get_docstring(tree_of(path)), f"{relative(path)} has no docstring"


def test_the_demo_workload_knows_nothing_of_profkit() -> None:
    for path in (PACKAGE / "demo").glob("*.py"):
        assert outside_imports(path) <= {"numpy"}
        assert not any(name.partition(".")[0] == "profkit" for name, _ in imports_of(path)), relative(path)


# No layer parses another's sentences: results are data, and texts are made of them at the very end

#: Rooms that make results and texts of them; those before read foreign formats and nothing of ours.
MAKING = ("measure", "compare", "verdict", "report", "api", "cli")
#: Methods and functions that find something in a text or take it apart.
SEARCHES = {
    *("partition", "rpartition", "split", "rsplit", "splitlines", "startswith", "endswith", "find", "rfind"),
    *("removeprefix", "removesuffix", "search", "match", "fullmatch", "findall", "finditer"),
}
#: Fields and functions that hold or return our own sentences.
FIELDS = {"summary", "headline", "says", "about", "provenance"}
MAKERS = words_of(
    "summary_of notice_text notice_texts evidence_texts advice_text finding_text moved_text told"
)


def parses_ours(tree: ast.AST) -> Iterator[str]:
    """Yield the source of what looks for something in one of our own sentences."""

    def is_ours(node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr in FIELDS
        return isinstance(node, ast.Call) and getattr(node.func, "id", "") in MAKERS

    for node in ast.walk(tree):
        searched: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES:
            searched = [node.func.value, *node.args]
        elif isinstance(node, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            searched = node.comparators
        if any(map(is_ours, searched)):
            yield ast.unparse(node)


def test_no_module_looks_into_our_sentences() -> None:
    making = (path for path in MODULES if own_room(path) in MAKING)
    found = {relative(path): list(parses_ours(tree_of(path))) for path in making}
    assert {module: said for module, said in found.items() if said} == {
        "profkit/cli/__init__.py": ["told(error).split()"]
    }


def test_a_look_into_a_sentence_would_be_found() -> None:
    ours = "'sampl' in notice_text(w)|'CPU' in verdict.summary|texts.says.split()|pattern.search(finding_text(f))"
    assert [source for source in words_of(ours, "|") if not list(parses_ours(ast.parse(source)))] == []
