"""Lone surrogates: how Python keeps undecodable bytes of file names in a text."""


def spelled_out(text: str) -> str:
    r"""Write lone surrogates as ``\udcXX``: UTF-8 cannot hold them, and strict JSON readers reject them."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
