"""Find the compiled parts of profkit, which ``build.py`` compiles into ``lib``, without loading them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from profkit.capture.agent.settings import DISABLE_NATIVE_VARIABLE, NVTX_LIBRARY

LIB = Path(__file__).resolve().parent / "lib"


def nvtx_library() -> Path | None:
    """Return the NVTX collector for ``NVTX_INJECTION64_PATH``; ``None`` if not built or disabled."""
    path = LIB / NVTX_LIBRARY
    return path if path.is_file() and not os.environ.get(DISABLE_NATIVE_VARIABLE) else None


def users_tracers(environ: Mapping[str, str]) -> str:
    """Return the directory of tracers that the user built for this profkit; empty if none."""
    base = _users_base(environ)
    if base is None or not base.is_dir():
        return ""
    found = _of_these_sources(base)
    try:
        own = found.stat().st_uid == os.geteuid()
    except OSError:
        return ""
    return str(found) if own else ""


def users_directory(environ: Mapping[str, str]) -> Path | None:
    """Return the directory for the user's tracers; ``None`` if the environment names none."""
    base = _users_base(environ)
    return None if base is None else _of_these_sources(base)


def _users_base(environ: Mapping[str, str]) -> Path | None:
    """Return a directory in ``XDG_DATA_HOME``, or in ``~/.local/share`` if that is unset or relative."""
    if not hasattr(os, "geteuid"):
        return None
    base = environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(environ.get("HOME", ""), ".local", "share")
    return Path(base, "profkit", "tracers") if os.path.isabs(base) else None


def _of_these_sources(base: Path) -> Path:
    """Return the directory for these sources and this architecture: machines may share a home."""
    import hashlib  # only needed if that directory exists

    digest = hashlib.sha256(os.uname().machine.encode())
    for source in sorted((LIB.parent / "tracer").glob("*.[ch]")):
        digest.update(source.read_bytes())
    return base / digest.hexdigest()[:16]
