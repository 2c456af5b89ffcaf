"""The user's secret from which pseudonyms are made, kept beside the cache of source files."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Mapping

from profkit.capture.source_cache import cache_file
from profkit.formats.regular_file import read_regular

#: Length of the digest that the secret is the key of.
_BYTES = 32


def name_secret(environ: Mapping[str, str]) -> bytes:
    """Return the user's secret, or one for this command alone if it cannot be stored safely."""
    cache = cache_file(environ)
    made = secrets.token_bytes(_BYTES)
    if cache is None:
        return made
    path = cache.with_name("names.key")
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Linked under its name only when complete: another command may read it at once.
        new = path.with_name(f"names.{secrets.token_hex(8)}")
        if not path.exists():
            handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(handle, made)
                os.close(handle)
                with contextlib.suppress(FileExistsError):
                    os.link(new, path)
            finally:
                os.unlink(new)
        found = os.lstat(path)
        own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
        if own and found.st_size == _BYTES:
            return read_regular(path, _BYTES)
    return made
