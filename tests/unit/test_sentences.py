"""No layer parses another's sentences: results are data, and texts are made of them at the very end.

A module that looks for something in a text is listed here with the foreign text that it looks in. Our own
sentences may be printed, and nothing else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.shared import words_of

ROOT = Path(__file__).resolve().parents[2]
#: Rooms that make results and texts of them; those before read foreign formats and nothing of ours.
ROOMS = ("measure", "compare", "verdict", "report", "api", "cli")
MODULES = {
    str(path.relative_to(ROOT / "profkit")): ast.parse(path.read_text(encoding="utf-8"))
    for room in ROOMS
    for path in sorted((ROOT / "profkit" / room).rglob("*.py"))
}

#: Methods and functions that find something in a text or take it apart.
SEARCHES = {
    *("partition", "rpartition", "split", "rsplit", "splitlines", "startswith", "endswith", "find", "rfind"),
    *("removeprefix", "removesuffix", "search", "match", "fullmatch", "findall", "finditer"),
}
#: What such a method may be called on that is no text: arrays, and words of a shell.
NO_TEXT = {"np", "shlex"}
#: Fields and functions that hold or return our own sentences.
FIELDS = {"summary", "headline", "says", "about", "provenance"}
MAKERS = {
    "summary_of",
    "notice_text",
    "notice_texts",
    "evidence_texts",
    "advice_text",
    "finding_text",
    "moved_text",
    "told",
}

#: Modules that look for something in a text, by the kind of text, which is not ours.
FOREIGN: Mapping[str, Sequence[str]] = {
    "commands, options and environment variables": words_of(
        "api/verify.py compare/comparability.py measure/run_settings.py report/command_mask.py "
        "report/inventory_sections.py report/known_words.py report/safety.py verdict/advice/producers.py "
        "verdict/advice/size_limits.py"
    ),
    "paths of files and names of modules": words_of(
        "api/pytest_gate.py api/pytest_plugin.py compare/process_calls.py "
        "measure/import_table.py measure/imports.py measure/side_facts.py measure/size_calls.py"
    ),
    "names that programs, CPython or the kernel gave": words_of(
        "compare/folded_comprehensions.py measure/inventory.py measure/range_stats.py measure/role_parts.py "
        "measure/waits_by_name.py report/markdown.py report/name_parts.py report/pseudonyms.py report/text.py"
    ),
    "words that a user typed": words_of(
        "cli/app.py cli/capture.py cli/diff.py cli/options.py measure/selected_processes.py"
    ),
    "versions, dates, identities, and whatever else was recorded or printed": words_of(
        "api/fleet.py cli/demo.py compare/pair.py report/declared.py report/doctordoc.py report/placeholders.py "
        "report/private_texts.py report/recorded_texts.py report/secrets.py report/text_mask.py report/ticketdoc.py"
    ),
}
#: Modules that look at texts that this room has just formatted from numbers, and only at how they are set.
TYPESETTING: Mapping[str, str] = {
    "cli/__init__.py": "line breaks of an error's message",
    "report/jsonvalues.py": "names of members, which its callers write as one line of words",
    "report/htmlfigures.py": "its own file of markup",
    "report/layout.py": "units at the end of formatted numbers, which stand under each other",
    "report/notices.py": "its own table of nouns, in singular and plural",
    "report/pagedata.py": "a zero behind the point of a number",
}


def searches(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and source of what looks for something in a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(alias.name == "re" for alias in node.names):
            yield node.lineno, "import re"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES:
            of = node.func.value
            constant = isinstance(of, ast.Constant)  # a table that is written as one line of words
            if not constant and getattr(of, "id", "") not in NO_TEXT:
                yield node.lineno, ast.unparse(node)
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            left = node.left
            if isinstance(left, ast.Constant) and isinstance(left.value, str) and is_phrase(left.value):
                yield node.lineno, ast.unparse(node)


def is_phrase(text: str) -> bool:
    """Whether a text is more than a word that could be a key."""
    return not text.replace("-", "").replace("_", "").replace(".", "").isalnum()


def parses_ours(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and source of what looks for something in one of our own sentences."""

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
            yield node.lineno, ast.unparse(node)


def test_only_the_modules_that_are_listed_look_for_something_in_a_text() -> None:
    found = {
        module: [f"{line}: {source}" for line, source in searches(tree)] for module, tree in MODULES.items()
    }
    listed = {*TYPESETTING, *(module for modules in FOREIGN.values() for module in modules)}
    assert {module: said for module, said in found.items() if said and module not in listed} == {}
    assert [module for module in listed if not found[module]] == [], "they need no exception any more"
    # What has an id and numbers needs no search, least of all where sentences are made.
    assert not [module for module in listed if module.startswith("report/wording/")]


def test_no_module_looks_into_our_sentences() -> None:
    found = {module: [source for _, source in parses_ours(tree)] for module, tree in MODULES.items()}
    assert {module: said for module, said in found.items() if said} == {
        "cli/__init__.py": ["told(error).split()"]
    }


def test_a_search_and_a_look_into_a_sentence_would_be_found() -> None:
    found = (
        *("import re", "headline.partition(' (')", "text.split('; ')[0]", "title.startswith('waiting')"),
        *("re.match(r'(\\d+) %', evidence.baseline)", "'of the lost time' in line", "'# ' in advice"),
    )
    data = "'wall' in names|'part.most' in THRESHOLDS|np.split(a, 2)|shlex.split(line)|x in (1, 2)"
    ours = "'sampl' in notice_text(w)|'CPU' in verdict.summary|texts.says.split()|pattern.search(finding_text(f))"
    assert [source for source in found if not list(searches(ast.parse(source)))] == []
    assert [source for source in words_of(data, "|") if list(searches(ast.parse(source)))] == []
    assert [source for source in words_of(ours, "|") if not list(parses_ours(ast.parse(source)))] == []
