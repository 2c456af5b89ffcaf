"""Sphinx's settings: ``make docs`` builds the site into build/site, and every warning is an error."""

from __future__ import annotations

import re
from typing import Any

import profkit

project = "profkit"
author = "the profkit maintainers"
release = version = profkit.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
]
exclude_patterns = ["site"]
html_theme = "furo"
html_title = f"profkit {release}"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False

myst_heading_anchors = 4  # links name headings as GitHub and GitLab do
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.header"]  # a page of a how-to may begin below its title
pygments_style = "friendly"

autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = False

#: Pages of the repository that are pages of the site under another name.
_MOVED = {
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changelog.md",
    "../SECURITY.md": "security.md",
    "../examples/README.md": "examples.md",
    "../sample_profiles/README.md": "samples.md",
}


def _site_links(_app: object, docname: str, source: list[str]) -> None:
    """Point links that leave docs/ in the repository to the pages of the site that include those files."""
    up = "../" * docname.count("/")
    for path, page in _MOVED.items():
        source[0] = re.sub(rf"\]\({re.escape(up + path)}", f"]({up}{page}", source[0])


def _included_links(_app: object, relative: object, parent: str, content: list[str]) -> None:
    """The same for the text of an included file, whose links are relative to its own directory."""
    content[0] = re.sub(r"\]\((?:\.\./)?docs/", "](", content[0])
    content[0] = (
        content[0].replace("](CHANGELOG.md", "](changelog.md").replace("](SECURITY.md", "](security.md")
    )
    content[0] = re.sub(r"\]\((?:\.\./)?examples/README\.md", "](examples.md", content[0])
    content[0] = re.sub(r"\]\((?!https?:|#|[\w-]+\.md)[^)]*\)", "]", content[0])


def _literal_examples(_app: object, _context: object, lines: list[str]) -> None:
    """Show the examples of a command as they are printed: sphinx-click takes them for markup."""
    shown = [line.removeprefix("| ").strip("\b") for line in lines]
    lines[:] = ["::", "", *("    " + line for line in shown), ""] if any(shown) else []


def _named_arguments(_app: object, _context: object, lines: list[str]) -> None:
    """Leave out arguments that a command takes only to say what is wrong with them: they have no name."""
    if any(line.strip() == ".. option::" for line in lines):
        at = next(i for i, line in enumerate(lines) if line.strip() == ".. option::")
        end = next((i for i in range(at + 1, len(lines)) if lines[i].startswith(".. ")), len(lines))
        del lines[at:end]


def setup(app: Any) -> None:
    """Connect the handlers; Sphinx calls this."""
    app.connect("sphinx-click-process-arguments", _named_arguments)
    app.connect("sphinx-click-process-epilog", _literal_examples)
    app.connect("source-read", _site_links)
    app.connect("include-read", _included_links)
