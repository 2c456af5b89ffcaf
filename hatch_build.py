"""Build hook: compiles the C parts of profkit, and lets the installation succeed where that is impossible.

Everything in `LIBRARIES` of ``profkit/capture/native/build.py`` is compiled to a temporary file and moved into the
``lib`` beside its sources on success, for wheels and editable installs alike. A wheel is tagged for its platform
only if it carries something that was compiled. Without a compiler there is one warning: everything that reads runs
works, if more slowly, and captures have counters, no functions and no NVTX ranges.

``PROFKIT_REQUIRE_NATIVE=1`` makes a failed build fatal, and compiler warnings errors; ``PROFKIT_REQUIRE_NATIVE=0``
builds nothing. ``CC`` and ``CFLAGS`` are respected. ``PROFKIT_TRACER_PYTHONS`` names others, up to 3.11
or free-threaded (paths or patterns, separated as in ``PATH``): each needs a tracer of its own, which a wheel for all
should hold. Where profkit is installed already, ``profkit doctor --build-tracers`` builds them.
"""

from __future__ import annotations

import glob
import importlib.util
import json
import os
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "PROFKIT_REQUIRE_NATIVE"
PYTHONS_VARIABLE = "PROFKIT_TRACER_PYTHONS"
CAPTURE = Path("profkit", "capture", "native")
FORMATS = Path("profkit", "formats", "native")

# There is no profkit to import yet, and its dependencies are not there.
_found = importlib.util.spec_from_file_location("profkit_build", Path(__file__).parent / CAPTURE / "build.py")
assert _found is not None
assert _found.loader is not None
native = importlib.util.module_from_spec(_found)
_found.loader.exec_module(native)

#: What another interpreter is asked: where its headers are, and how its extension modules are called.
_QUESTION = (
    "import json, sys, sysconfig; print(json.dumps([sys.version_info[:2], sysconfig.get_paths()['include'], "
    "sysconfig.get_config_var('EXT_SUFFIX')]))"
)


def libraries() -> list[Any]:
    """Return everything that is to be built: what every installation has, and tracers of the interpreters named.

    Raises
    ------
    NativeError
        One that is named cannot be run.
    """
    wanted = list(native.LIBRARIES)
    for pattern in filter(None, os.environ.get(PYTHONS_VARIABLE, "").split(os.pathsep)):
        for python in sorted(glob.glob(pattern)):
            try:
                said = subprocess.run([python, "-c", _QUESTION], capture_output=True, text=True, check=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise native.NativeError(f"{PYTHONS_VARIABLE}: {python} cannot be asked: {error}") from None
            version, include, suffix = json.loads(said.stdout)
            one = native.tracer_of(tuple(version), include, suffix)
            if one.output not in [library.output for library in wanted]:
                wanted.append(one)
    return wanted


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
    except native.NativeError as error:
        wanted, problems = list(native.LIBRARIES), [str(error)]

    def made(library: Any) -> Path | Exception | None:
        beside = library.sources.parent.relative_to(native.NATIVE.parents[2])
        try:
            path: Path | None = native.build(library, root / beside / "lib", strict)
        except (native.NativeError, OSError) as error:
            return error
        return path

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for one in pool.map(made, wanted):
            if isinstance(one, Path):
                built.append(one)
            elif one is not None:
                problems.append(str(one))
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
        for native in (CAPTURE, FORMATS):
            for path in (Path(self.root) / native / "lib").glob("*.so"):
                path.unlink()
