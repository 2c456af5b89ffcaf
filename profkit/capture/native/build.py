"""Compile the C parts from the sources beside this file.

``hatch_build.py`` loads this file by path before profkit can be imported, so it imports only the standard
library.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import NamedTuple

NATIVE = Path(__file__).resolve().parent
FORMATS = NATIVE.parents[1] / "formats" / "native"

#: Without separate pages for code a library has two mappings less, which makes every fork cheaper.
COMMON_FLAGS = (
    "-std=c11",
    "-O2",
    "-g0",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Wl,-z,noseparate-code",
)

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

#: A compiler's message for a missing header.
_NO_HEADER = re.compile(r"fatal error: '?([\w./+-]+)'?(?:: No such file| file not found)")
_GET_COMPILER = "install gcc and libc6-dev (Debian, Ubuntu), gcc (Fedora, RHEL) or build-base (Alpine)"


class Library(NamedTuple):  # hatchling's way of loading hooks breaks dataclasses
    """One shared object: the C files of one directory, compiled in one call.

    `python`: an extension module, built with Python's headers, at `include` for another interpreter. `until`
    is the last version that uses it; `without` are files to leave out.
    """

    sources: Path
    output: str
    flags: tuple[str, ...] = ()
    python: bool = False
    until: tuple[int, int] | None = None
    without: tuple[str, ...] = ()
    include: str = ""

    def wanted(self) -> bool:
        """Whether this installation can use it."""
        if FREE_THREADED and self.output.endswith(".abi3.so") and not self.include:
            return False  # free-threaded Pythons have no stable ABI
        # The collector and the tracer need Linux.
        return sys.platform.startswith("linux") and (self.until is None or sys.version_info[:2] <= self.until)


#: The tracer of one interpreter up to 3.11, and the tracer of all later ones.
TRACER = Library(
    NATIVE / "tracer",
    f"_tracer{sysconfig.get_config_var('EXT_SUFFIX')}",
    ("-pthread", "-Wl,-z,nodelete"),
    python=True,
    until=(3, 11),
    without=("hook_monitoring.c",),
)
LATER_TRACER = Library(
    NATIVE / "tracer",
    "_tracer_abi3.abi3.so",
    ("-pthread", "-Wl,-z,nodelete", "-DPROFKIT_ABI3"),
    python=True,
    without=("hook_profile.c",),
)
FREE_TRACER = TRACER._replace(
    flags=(*LATER_TRACER.flags, "-DPROFKIT_FREE_THREADED"),
    until=None,
    without=("hook_profile.c", "hook_monitoring.c"),
)
LIBRARIES = (
    # `nodelete`: NVTX and the fork and thread-end handlers keep pointers to the code after a dlclose.
    Library(NATIVE / "nvtx", "libprofkit_nvtx.so", ("-pthread", "-Wl,-z,nodelete", "-Wl,-z,defs")),
    Library(NATIVE / "yardsticks", "_yardsticks.abi3.so", python=True),
    Library(FORMATS / "pstats", "_pstats.abi3.so", python=True),
    FREE_TRACER if FREE_THREADED else TRACER,
    LATER_TRACER,
)


def tracer_of(version: tuple[int, int], include: str, suffix: str) -> Library:
    """Return the tracer of an interpreter with headers in `include` and the module suffix `suffix`."""
    if re.match(r"\.cpython-\d+t", suffix):
        return FREE_TRACER._replace(output=f"_tracer{suffix}", include=include)
    if version > (3, 11):
        return LATER_TRACER._replace(include=include)
    return TRACER._replace(output=f"_tracer{suffix}", until=None, include=include)


class NativeError(Exception):
    """A failed compilation; the message is for the person who installs."""


def compiler() -> list[str]:
    """Return the command of the C compiler in ``CC``, or of the first one found."""
    named = os.environ.get("CC", "")
    for command in [named] if named else ["cc", "gcc", "clang"]:
        words = shlex.split(command)
        if words and shutil.which(words[0]):
            return words
    raise NativeError(f"there is no C compiler ({named or 'cc, gcc or clang'}); {_GET_COMPILER}")


def build(library: Library, directory: Path, strict: bool = False) -> Path | None:
    """Compile one library into `directory`, creating it if needed; return its path.

    Return ``None`` if this installation does not need it or the sources are missing. Raise `NativeError` if
    it cannot be compiled; an earlier library then stays.
    """
    found = library.sources.glob("*.c")
    sources = sorted(path for path in found if path.name not in library.without)
    if not sources or not library.wanted():
        return None
    command = [*compiler(), *COMMON_FLAGS, *library.flags, *shlex.split(os.environ.get("CFLAGS", ""))]
    if strict:
        command.append("-Werror")
    if library.python:
        include = library.include or sysconfig.get_paths()["include"]
        if not Path(include, "Python.h").is_file():
            raise NativeError(f"{include}/Python.h is missing; {_get_headers(include)}")
        command.append(f"-I{include}")
    target = directory / library.output
    directory.mkdir(parents=True, exist_ok=True)
    # On the same file system, to be renamed when complete: a running capture keeps the old file.
    handle, temporary = tempfile.mkstemp(suffix=".so", prefix=".building-", dir=directory)
    os.close(handle)
    try:
        try:
            done = subprocess.run(
                [*command, *map(str, sources), "-o", temporary],
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
            )
        except OSError as error:
            raise NativeError(f"{command[0]} cannot be run: {error}") from None
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            missing = _NO_HEADER.search(said)
            if missing:
                raise NativeError(f"{missing[1]} is missing; {_GET_COMPILER}")
            raise NativeError(f"{library.output} does not compile:\n{said[-2000:]}")
        os.chmod(temporary, 0o755)
        os.replace(temporary, target)
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)
    return target


def _get_headers(include: str) -> str:
    name = os.path.basename(include)
    if include.startswith("/usr/include/") and re.fullmatch(r"python3\.\d+", name):
        return f"install {name}-dev (Debian, Ubuntu) or {name}-devel (Fedora, SUSE)"
    return "install the headers of this Python"
