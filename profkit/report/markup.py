"""Elements of HTML and SVG as strings, with everything escaped that comes from elsewhere.

The one way in which the page and the picture write text and attributes; what they say is not known here.
"""

from __future__ import annotations

#: What ends or begins markup, in text as in attributes; a backtick ends attributes in some old readers.
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;", "`": "&#96;"})
#: Elements that have no end.
_VOID = frozenset({"meta", "br", "hr", "input"})


def escape(text: str) -> str:
    """Return `text` for use between tags or inside a quoted attribute.

    Strings were cleaned when the document was built; a lone surrogate, which UTF-8 cannot hold, is spelled here.
    """
    safe = text.translate(_ESCAPES)
    return safe if safe.isascii() else safe.encode("utf-8", "backslashreplace").decode("utf-8")


def attributes(**values: str | int | float | bool | None) -> str:
    """Attributes with a space before each; ``True`` writes the name alone, ``None`` and ``False`` nothing.

    An underscore at the end of a name is left away (``class_``), others become hyphens.
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
    """One element around content that is markup already."""
    begin = f"<{tag}{attributes(**values)}>"
    return begin if tag in _VOID else f"{begin}{''.join(content)}</{tag}>"


def number(value: float) -> str:
    """Short decimal for a coordinate: two places are finer than any screen."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
