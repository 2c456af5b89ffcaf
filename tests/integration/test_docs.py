"""The manual's examples are run: commands print what the page shows, Python blocks run as they stand.

``pytest --update-golden`` writes what is printed now into the pages and the terminal's picture.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs import pictures
from tests.integration.capturing import ROOT, environment, in_process
from tests.requirements import require
from tests.shared import succeeded

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "sample_profiles" / "README.md"])
#: Pages whose links are checked, beside those.
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, kind: str) -> list[str]:
    found = [match[2] for match in _BLOCK.finditer(page.read_text(encoding="utf-8")) if match[1] == kind]
    # Cells of a notebook have no language of their own: the site's builder knows none.
    return found if kind != "text" else [block for block in found if block.startswith("%load_ext")]


def pages_with(kind: str) -> pytest.MarkDecorator:
    """Run a test on each page that has blocks of a kind."""
    found = [page for page in PAGES if blocks(page, kind)]
    return pytest.mark.parametrize("page", found, ids=lambda page: str(page.relative_to(ROOT)))


def printed(command: str, directory: Path, **variables: str) -> str:
    """What a shell user sees of one ``profkit`` command in the repository's root, on 80 columns.

    Its standard output may go through filters: ``profkit … | sed …``.
    """
    words, *filters = (shlex.split(part) for part in re.split(r" \| (?=sed |jq )", command))
    assert words[0] == "profkit"
    done = in_process(directory, *words[1:], status=None, NO_COLOR="1", **variables)
    assert done.returncode in (0, 1), done.stderr
    shown = done.stdout
    for filter in filters:
        require(filter[0], shutil.which(filter[0]) is not None, f"{filter[0]} is not installed")
        shown = subprocess.run(filter, input=shown, capture_output=True, encoding="utf-8", check=True).stdout
    return shown + done.stderr


def rerun(block: str, **variables: str) -> str:
    """A console block as it would be printed now; a line ``…`` in it stands for any lines left out."""
    result = []
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        # A line of nothing but … stands for what the page leaves out.
        now = printed(command, ROOT, **variables)
        head, mark, tail = shown.partition("\n…\n")
        if mark:
            lines = now.splitlines(keepends=True)
            first, last = head.count("\n") + 1, tail.count("\n")
            now = "".join(lines[:first]) + "…\n" + "".join(lines[len(lines) - last :] if last else [])
        result.append(f"$ {command}\n{now}")
    return "".join(result)


@pages_with("console")
def test_commands_print_what_the_page_shows(
    page: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    text = page.read_text(encoding="utf-8")
    now = text
    for block in blocks(page, "console"):
        printed_now = rerun(block, PROFKIT_FLEET=str(tmp_path / "fleet"))
        now = now.replace(f"```console\n{block}```", f"```console\n{printed_now}```")
    if request.config.getoption("--update-golden"):
        page.write_text(now, encoding="utf-8")
    else:
        assert text == now


@pages_with("python")
def test_python_examples_run(page: Path) -> None:
    succeeded([sys.executable, "-c", _EXAMPLES, *blocks(page, "python")], ROOT, env=environment())


#: Runs each argument as a program of its own, but for what is imported already.
_EXAMPLES = """
import sys
for example in sys.argv[1:]:
    exec(compile(example, "<string>", "exec"), {"__name__": "__main__"})
"""


@pages_with("text")
def test_cells_of_notebooks_run(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "text"):
        cells = re.split(r"\n\n(?=%)", block.strip())
        env = environment(PYTHONPATH=str(ROOT), IPYTHONDIR=str(tmp_path / "ipython"))
        succeeded([sys.executable, "-c", _CELLS, *cells], tmp_path, env=env)


#: Runs each argument as a cell.
_CELLS = (
    "import sys; from IPython.core.interactiveshell import InteractiveShell as Shell\n"
    "shell = Shell.instance()\n"
    "for cell in sys.argv[1:]: shell.run_cell(cell).raise_error()\n"
)


def test_the_picture_of_the_terminal_shows_what_is_printed(request: pytest.FixtureRequest) -> None:
    now = pictures.terminal()
    if request.config.getoption("--update-golden"):
        pictures.TERMINAL.write_text(now, encoding="utf-8")
    # How rich draws differs between its versions; what it draws does not.
    assert written_in(pictures.TERMINAL.read_text(encoding="utf-8")) == written_in(now)


def written_in(svg: str) -> list[str]:
    return re.findall(r"<text [^>]*>(.*?)</text>", svg, re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The fragments under which GitHub and GitLab show a page's headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, fragment in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        linked = page.parent / target if target else page
        assert linked.exists(), f"{page.name}: {target}"
        assert not fragment or fragment in anchors(linked), f"{page.name}: {target}#{fragment}"


def test_the_files_that_contributing_names_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:profkit|tests|benchmarks|docs|sample_profiles|\.ci)/[\w./-]+)`", text))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_command_is_in_the_readme() -> None:
    shown = printed("profkit --help", ROOT)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^  (\w[\w-]*)  ", shown.partition("Commands:")[2], re.MULTILINE)
    assert commands
    for command in commands:
        assert f"profkit {command}" in readme, f"the README does not mention profkit {command}"
