"""HTML and SVG elements as strings, with foreign text escaped: page and picture write all text this way."""

from __future__ import annotations

#: What ends or begins markup, in text as in attributes; a backtick ends attributes in some old readers.
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;", "`": "&#96;"})
#: Elements that have no end.
_VOID = frozenset({"meta", "br", "hr", "input"})


def escape(text: str) -> str:
    """Return `text` for use between tags or inside a quoted attribute.

    Its control characters are already cleaned; a lone surrogate, which UTF-8 cannot hold, is spelled here.
    """
    safe = text.translate(_ESCAPES)
    return safe if safe.isascii() else safe.encode("utf-8", "backslashreplace").decode("utf-8")


def attributes(**values: str | int | float | bool | None) -> str:
    """Return attributes, each after a space; ``True`` writes only the name, ``None`` and ``False`` nothing.

    A trailing underscore of a name is dropped (``class_``), others become hyphens.
    """
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


def number(value: float) -> str:
    """Return a short decimal for a coordinate: two places are finer than any screen."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
