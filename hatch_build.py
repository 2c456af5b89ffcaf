"""Build hook: compiles the C parts of profkit, and lets the installation succeed where that is impossible.

Everything in `LIBRARIES` is compiled to a temporary file and moved into ``profkit/capture/native/lib`` on
success, for wheels and editable installs alike. A wheel is tagged for its platform only if it carries
something that was compiled. Without a compiler there is one warning: everything that reads runs
works, and captures have counters, no functions and no NVTX ranges.

``PROFKIT_REQUIRE_NATIVE=1`` makes a failed build fatal, and compiler warnings errors; ``PROFKIT_REQUIRE_NATIVE=0``
builds nothing. ``CC`` and ``CFLAGS`` are respected. ``PROFKIT_TRACER_PYTHONS`` names further interpreters up to 3.11
(paths or patterns, separated as in ``PATH``): each needs a tracer of its own, which a wheel for others should hold.
"""

from __future__ import annotations

import glob
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "PROFKIT_REQUIRE_NATIVE"
PYTHONS_VARIABLE = "PROFKIT_TRACER_PYTHONS"
NATIVE = Path("profkit", "capture", "native")

#: Without pages of their own for code, a library takes two mappings less, each of which costs whatever forks.
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


class Library(NamedTuple):  # hatchling loads this file in a way that dataclasses do not survive
    """One shared object: the C files of one directory, compiled in one call.

    Attributes
    ----------
    sources
        Directory under `NATIVE`; all of its ``*.c`` but those named in `without`.
    output
        File name under ``lib``.
    flags
        What it needs beyond `COMMON_FLAGS`.
    python
        Whether it is an extension module and needs Python's headers.
    until
        Last Python version whose installation has a use for it, ``None`` for all.
    include
        Where the headers of another interpreter are; those of this one without it.
    """

    sources: str
    output: str
    flags: tuple[str, ...] = ()
    python: bool = False
    until: tuple[int, int] | None = None
    without: tuple[str, ...] = ()
    include: str = ""

    def wanted(self) -> bool:
        """Whether this installation has a use for it."""
        # The collector and the tracer read what only Linux's kernel tells.
        return sys.platform.startswith("linux") and (self.until is None or sys.version_info[:2] <= self.until)


#: The tracer of one interpreter up to 3.11; `libraries` makes it for others too.
TRACER = Library(
    "tracer",
    f"_tracer{sysconfig.get_config_var('EXT_SUFFIX')}",
    ("-pthread", "-Wl,-z,nodelete"),
    python=True,
    until=(3, 11),
    without=("hook_monitoring.c",),
)
LIBRARIES = (
    # Their code must outlive a dlclose: NVTX keeps pointers to it, and so do fork and thread-end handlers.
    Library("nvtx", "libprofkit_nvtx.so", ("-pthread", "-Wl,-z,nodelete", "-Wl,-z,defs")),
    Library("yardsticks", "_yardsticks.abi3.so", python=True),
    TRACER,
    Library(
        "tracer",
        "_tracer_abi3.abi3.so",
        ("-pthread", "-Wl,-z,nodelete", "-DPROFKIT_ABI3"),
        python=True,
        without=("hook_profile.c",),
    ),
)


#: What another interpreter is asked: where its headers are, and how its extension modules are called.
_QUESTION = (
    "import json, sys, sysconfig; print(json.dumps([sys.version_info[:2], sysconfig.get_paths()['include'], "
    "sysconfig.get_config_var('EXT_SUFFIX')]))"
)


def libraries() -> list[Library]:
    """Return everything that is to be built: `LIBRARIES`, and tracers of the interpreters that are named.

    Raises
    ------
    NativeError
        One that is named cannot be run.
    """
    wanted = list(LIBRARIES)
    for pattern in filter(None, os.environ.get(PYTHONS_VARIABLE, "").split(os.pathsep)):
        for python in sorted(glob.glob(pattern)):
            try:
                said = subprocess.run([python, "-c", _QUESTION], capture_output=True, text=True, check=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise NativeError(f"{PYTHONS_VARIABLE}: {python} cannot be asked: {error}") from None
            version, include, suffix = json.loads(said.stdout)
            one = TRACER._replace(output=f"_tracer{suffix}", until=None, include=include)
            if tuple(version) <= (3, 11) and one.output not in [library.output for library in wanted]:
                wanted.append(one)
    return wanted


class NativeError(Exception):
    """Something cannot be compiled; the message is for the person who installs."""


def compiler() -> list[str]:
    """Return the C compiler's command, as ``CC`` or the machine has it."""
    named = os.environ.get("CC", "")
    for command in [named] if named else ["cc", "gcc", "clang"]:
        words = shlex.split(command)
        if words and shutil.which(words[0]):
            return words
    raise NativeError(f"there is no C compiler ({named or 'cc, gcc or clang'})")


def build(library: Library, root: Path, strict: bool) -> Path | None:
    """Compile one library in place.

    Returns
    -------
    Path or None
        What was built; ``None`` where this installation needs none or its sources are not there.

    Raises
    ------
    NativeError
        It cannot be compiled; what was there before stays.
    """
    found = (root / NATIVE / library.sources).glob("*.c")
    sources = sorted(path for path in found if path.name not in library.without)
    if not sources or not library.wanted():
        return None
    command = [*compiler(), *COMMON_FLAGS, *library.flags, *shlex.split(os.environ.get("CFLAGS", ""))]
    if strict:
        command.append("-Werror")
    if library.python:
        include = library.include or sysconfig.get_paths()["include"]
        if not library.include and sysconfig.get_config_var("Py_GIL_DISABLED"):
            raise NativeError(f"{library.output} relies on the GIL, which a free-threaded Python has not")
        if not Path(include, "Python.h").is_file():
            raise NativeError(f"{library.output} needs Python's headers (package python3-dev)")
        command.append(f"-I{include}")
    target = root / NATIVE / "lib" / library.output
    target.parent.mkdir(exist_ok=True)
    # On the same file system, and renamed when whole: a running capture keeps the old file.
    handle, temporary = tempfile.mkstemp(suffix=".so", prefix=".building-", dir=target.parent)
    os.close(handle)
    try:
        try:
            done = subprocess.run(
                [*command, *map(str, sources), "-o", temporary], capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise NativeError(f"{command[0]} cannot be run: {error}") from None
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise NativeError(f"{library.output} does not compile:\n{said[-2000:]}")
        os.chmod(temporary, 0o755)
        os.replace(temporary, target)
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)
    return target


def build_all(root: Path, strict: bool) -> tuple[list[Path], list[str]]:
    """Compile everything.

    Returns
    -------
    built : list of Path
    problems : list of str
        Why the others were not.
    """
    built: list[Path] = []
    problems: list[str] = []
    try:
        wanted = libraries()
    except NativeError as error:
        wanted, problems = list(LIBRARIES), [str(error)]
    for library in wanted:
        try:
            path = build(library, root, strict)
        except (NativeError, OSError) as error:
            problems.append(str(error))
        else:
            built += [] if path is None else [path]
    return built, list(dict.fromkeys(problems))


def platform_tag() -> str:
    """Return this platform as wheel names spell it."""
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


class NativeBuildHook(BuildHookInterface[Any]):
    """What hatchling calls before it collects the files of a wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, name what was built as part of the wheel, and tag the wheel accordingly."""
        asked = os.environ.get(VARIABLE, "")
        if asked == "0":
            self._remove_built()
            return
        built, problems = build_all(Path(self.root), strict=asked == "1")
        if problems and asked == "1":
            raise RuntimeError(f"{VARIABLE}=1, but: " + "; ".join(problems))
        if problems:
            self.app.display_warning(
                "profkit is installed without some of its compiled parts: captures will have counters, but no "
                "functions or no NVTX ranges. " + "; ".join(problems)
            )
        if not built:
            self._remove_built()
            return
        build_data["artifacts"] += [f"/{path.relative_to(self.root).as_posix()}" for path in built]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"

    def clean(self, versions: list[str]) -> None:
        """Remove what was built (``hatch clean``)."""
        self._remove_built()

    def _remove_built(self) -> None:
        for path in (Path(self.root) / NATIVE / "lib").glob("*.so"):
            path.unlink()
