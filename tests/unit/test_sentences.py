"""No layer parses another's sentences: results are data, and texts are made of them at the very end.

A module that looks for something in a text is listed here with the foreign text that it looks in. Our own
sentences may be printed, and nothing else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

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
MAKERS = {"summary_of", "notice_text", "evidence_texts", "advice_text", "finding_text", "moved_text", "told"}

#: Modules that look for something in a text, with the text that is not ours.
FOREIGN: Mapping[str, str] = {
    "api/verify.py": "commands that may be masked, and their words",
    "api/pytest_gate.py": "names of modules, and what pytest printed",
    "api/pytest_plugin.py": "names of modules and paths, and what pytest says of a file",
    "cli/app.py": "the word that a user is completing",
    "cli/capture.py": "a share that a user gave in an option",
    "cli/demo.py": "what the demo's program printed",
    "cli/diff.py": "the causes that a user named in an option",
    "cli/options.py": "the word that a user is completing",
    "compare/comparability.py": "words of commands",
    "compare/pair.py": "versions of interpreters",
    "measure/side_facts.py": "paths of source files",
    "measure/waits_by_name.py": "names of native functions",
    "compare/folded_comprehensions.py": "names that CPython gives to functions",
    "measure/imports.py": "paths of source files, and names of modules",
    "measure/import_table.py": "paths of source files, and names of modules",
    "measure/inventory.py": "names of threads",
    "api/fleet.py": "identities of files and revisions in the store",
    "compare/process_calls.py": "paths of source files",
    "compare/started_processes.py": "names of native functions and paths of source files",
    "measure/range_roles.py": "names that programs gave to their NVTX ranges",
    "measure/range_stats.py": "names that programs gave to their NVTX ranges",
    "measure/selected_processes.py": "the process that a user named in an option",
    "measure/run_settings.py": "names of environment variables",
    "measure/size_calls.py": "paths of source files",
    "report/command_mask.py": "commands, their options and paths",
    "report/declared.py": "versions, dates and words that files hold",
    "report/inventory_sections.py": "environment variables with their values",
    "report/doctordoc.py": "versions of interpreters",
    "report/known_words.py": "words of commands and of messages of other programs",
    "report/markdown.py": "names that would be markup",
    "report/placeholders.py": "placeholders in runs that were masked before",
    "report/name_parts.py": "names of functions and ranges, which a program made",
    "report/private_texts.py": "secrets, hosts and users in whatever was recorded",
    "report/pseudonyms.py": "words of names, which a program made",
    "report/recorded_texts.py": "paths and commands in whatever was recorded",
    "report/safety.py": "settings of variables, thread pools and codes of later versions",
    "report/secrets.py": "secrets in whatever was recorded",
    "report/ticketdoc.py": "dates, members of archives and paths of source files",
    "report/text_mask.py": "paths, hosts and users in whatever was recorded",
    "report/text.py": "control characters in foreign names",
    "verdict/advice/size_limits.py": "commands, their options and environment variables",
    "verdict/advice/producers.py": "names of environment variables",
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
    listed = {*FOREIGN, *TYPESETTING}
    assert {module: said for module, said in found.items() if said and module not in listed} == {}
    assert [module for module in listed if not found[module]] == [], "they need no exception any more"


def test_no_module_looks_into_our_sentences() -> None:
    found = {module: [source for _, source in parses_ours(tree)] for module, tree in MODULES.items()}
    assert {module: said for module, said in found.items() if said} == {
        "cli/__init__.py": ["told(error).split()"]
    }


def test_makers_of_sentences_look_for_nothing() -> None:
    """What has an id and numbers needs no search, least of all where sentences are made."""
    assert not {module for module in {*FOREIGN, *TYPESETTING} if module.startswith("report/wording/")}


@pytest.mark.parametrize(
    "source",
    [
        *("import re", "headline.partition(' (')", "text.split('; ')[0]"),
        *("re.match(r'(\\d+) %', evidence.baseline)", "'of the lost time' in line", "'# ' in advice"),
        "title.startswith('waiting')",
    ],
)
def test_a_search_would_be_found(source: str) -> None:
    assert list(searches(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        *("'sampl' in notice_text(w)", "'CPU' in verdict.summary", "texts.says.split()"),
        "pattern.search(finding_text(f))",
    ],
)
def test_a_look_into_a_sentence_would_be_found(source: str) -> None:
    assert list(parses_ours(ast.parse(source)))


def test_data_are_no_texts() -> None:
    for source in (
        *("'wall' in names", "'part.most' in THRESHOLDS", "np.split(a, 2)", "shlex.split(line)"),
        "x in (1, 2)",
    ):
        assert not list(searches(ast.parse(source))), source
