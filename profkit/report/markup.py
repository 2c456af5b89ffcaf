"""HTML and SVG elements as strings; page and picture escape all text here."""

from __future__ import annotations

from importlib import resources

from profkit.model.surrogates import spelled_out

#: Characters that begin or end markup or attributes; a backtick ends attributes in some old readers.
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;", "`": "&#96;"})
_VOID = frozenset({"meta", "br", "hr", "input"})


def escape(text: str) -> str:
    """Escape a cleaned text for markup; lone surrogates, which UTF-8 cannot hold, are spelled out."""
    return spelled_out(text.translate(_ESCAPES))


def attributes(**values: str | int | float | bool | None) -> str:
    """Return attributes, each after a space; ``class_`` becomes ``class``, other underscores hyphens."""
    written = []
    for name, value in values.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        if value is True:
            written.append(f" {key}")
        else:
            text = number(value) if isinstance(value, int | float) else escape(value)
            written.append(f' {key}="{text}"')
    return "".join(written)


def element(tag: str, *content: str, **values: str | int | float | bool | None) -> str:
    """Return one element around content that is already markup."""
    begin = f"<{tag}{attributes(**values)}>"
    return begin if tag in _VOID else f"{begin}{''.join(content)}</{tag}>"


def assets(*names: str) -> str:
    """Return files of ``assets``, one below the other."""
    folder = resources.files("profkit.report") / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def number(value: float) -> str:
    """Return a coordinate with at most two decimals, finer than any screen."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
