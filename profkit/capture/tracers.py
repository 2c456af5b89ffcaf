"""Which Pythons can be traced, and tracers for the others: ``profkit doctor --build-tracers``.

Up to 3.11 each minor version needs its own, built beside the installation's or in a directory of the user's.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from profkit.capture.agent import settings
from profkit.capture.native import LIB, build, users_directory
from profkit.errors import UsageError

PATIENCE_S = 20.0
#: Names of interpreters on the path; not ``python2.7``.
_NAMES = re.compile(r"python(3(\.\d+)?)?")
#: Asks an interpreter, which may be Python 2, what it is and whether it loads a tracer as an agent does: the
#: fields of `Interpreter`, except its path.
_QUESTION = """
import sys
if sys.path[0] == "":
    del sys.path[0]
import json, os, sysconfig
agent, elsewhere = sys.argv[1:]
name = getattr(getattr(sys, "implementation", None), "name", "cpython")
said = {
    "executable": os.path.realpath(sys.executable),
    "version": list(sys.version_info[:3]),
    "release": sys.version.split()[0],
    "implementation": "pypy" if hasattr(sys, "pypy_version_info") else name,
    "include": sysconfig.get_paths()["include"],
    "suffix": sysconfig.get_config_var("EXT_SUFFIX") or ".so",
    "prefix": sys.prefix,
    "import_path": sys.path,
    "traced": False,
}
if said["implementation"] == "cpython" and sys.version_info >= (3, 8):
    from _frozen_importlib_external import SourceFileLoader

    names = {}
    exec(SourceFileLoader("loader", agent + "/loader.py").get_code("loader"), names)
    said["traced"] = names["load"](agent, "native", lambda native: native.load(elsewhere) is not None)
print(json.dumps(said))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One Python, as it describes itself; `include` has its headers, `suffix` is of extension modules."""

    path: str
    executable: str
    version: tuple[int, int, int]
    release: str
    implementation: str
    include: str
    suffix: str
    prefix: str
    import_path: tuple[str, ...]
    traced: bool

    @property
    def name(self) -> str:
        """Return its name for people."""
        return "Python " + ".".join(map(str, self.version))

    def refusal(self) -> str:
        """Return why no tracer can be built for it; empty if one can."""
        if self.implementation != "cpython":
            return f"this is {self.implementation}, and profkit profiles CPython"
        if self.version < (3, 8):
            return "profkit profiles Python 3.8 and later"
        if not sys.platform.startswith("linux"):
            return "the tracer needs Linux"
        return ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one interpreter: what it `says` is for people; `traced`: it has a tracer now."""

    path: str
    says: str
    traced: bool


def ask(path: str, environ: Mapping[str, str], *, site: bool = False) -> Interpreter:
    """Ask a Python what it is, if `site` with what is installed; raise `UsageError` if that fails."""
    agent = str(Path(__file__).parent / "agent")
    directory = users_directory(environ)
    inherited = {name: text for name, text in environ.items() if name != settings.DISABLE_NATIVE_VARIABLE}
    flags = () if site else ("-E", "-s", "-S")  # Python 2 has no -I
    try:
        done = subprocess.run(
            [path, *flags, "-c", _QUESTION, agent, "" if directory is None else str(directory)],
            env=inherited,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        said = json.loads(done.stdout.splitlines()[-1])
        version, import_path = tuple(said.pop("version")), tuple(said.pop("import_path"))
        return Interpreter(path=path, version=version, import_path=import_path, **said)
    except OSError as error:
        problem = f"cannot be run ({error.strerror})"
    except subprocess.TimeoutExpired:
        problem = f"did not answer within {PATIENCE_S:.0f} s; name another one"
    except (ValueError, LookupError, TypeError, AttributeError):
        problem = "is not a working Python; name another one"
    raise UsageError(problem, "python", path)


def build_tracers(named: Sequence[str], environ: Mapping[str, str]) -> list[Outcome]:
    """Build missing tracers of `named`, or of all Pythons; raise `UsageError` if a named one is missing."""
    pythons = _asked(named, environ) if named else _found(environ)
    built: dict[str, Path | str] = {}
    return [_outcome(one, environ, built) for one in pythons]


def _outcome(one: Interpreter, environ: Mapping[str, str], built: dict[str, Path | str]) -> Outcome:
    """Build a tracer if it is missing; `built` has what became of each by its file: the path, or what was wrong."""
    if one.traced:
        return Outcome(one.path, f"{one.name}: has a tracer", True)
    refusal = one.refusal()
    if refusal:
        return Outcome(one.path, f"{one.name}: not profiled: {refusal}", False)
    library = build.tracer_of(one.version[:2], one.include, one.suffix)
    if library.output not in built:
        built[library.output] = _built(library, environ)
    found = built[library.output]
    if isinstance(found, str):
        return Outcome(one.path, f"{one.name}: not built: {found}", False)
    with contextlib.suppress(UsageError):
        if ask(one.path, environ).traced:
            return Outcome(one.path, f"{one.name}: built {found}", True)
    return Outcome(one.path, f"{one.name}: built {found}, which it cannot load", False)


def _built(library: build.Library, environ: Mapping[str, str]) -> Path | str:
    """Return the file of a tracer, or why it could not be built."""
    directory = LIB
    try:
        directory = _directory(environ)
        found = build.build(library, directory)
    except build.NativeError as error:
        return _line(str(error))
    except OSError as error:
        return f"{error.filename or directory}: {error.strerror}"
    return found or "profkit was installed without the tracer's sources; install it again"


def _line(message: str) -> str:
    """Return the line of a compiler's message that has the error."""
    first, *rest = message.splitlines()
    said = [line for line in rest if "error" in line]
    return " ".join([first, said[0].strip()]) if said else " ".join([first, *rest[-1:]])


def _asked(named: Iterable[str], environ: Mapping[str, str]) -> list[Interpreter]:
    found = []
    for name in named:
        for path in _places(name, environ):
            with contextlib.suppress(UsageError):
                found.append(ask(path, environ))
                break
        else:
            where = "" if os.path.dirname(name) else " on PATH or of pyenv"
            raise UsageError(f"{name}: no working Python{where}; give the path of an interpreter")
    return found


def _places(name: str, environ: Mapping[str, str]) -> Iterable[str]:
    """Return where an interpreter of this name may be; a version manager's shim may not answer."""
    if os.path.dirname(name):
        return [name]
    on_path = shutil.which(name, path=environ.get("PATH"))
    wanted = re.fullmatch(r"python(3\.\d+)", name)
    return [
        *([on_path] if on_path else []),
        *(path for path in reversed(_of_pyenv(environ)) if wanted and f"/{wanted[1]}." in path),
    ]


def _found(environ: Mapping[str, str]) -> list[Interpreter]:
    """Return all interpreters on the path and of pyenv that answer, each once."""
    candidates = [sys.executable]
    for folder in environ.get("PATH", "").split(os.pathsep):
        try:
            names = sorted(name for name in os.listdir(folder or ".") if _NAMES.fullmatch(name))
        except OSError:
            continue
        candidates += [os.path.join(folder, name) for name in names]
    found: dict[str, Interpreter] = {}
    seen = set()
    for path in [*candidates, *_of_pyenv(environ)]:
        real = os.path.realpath(path)
        if real in seen or not os.access(real, os.X_OK):
            continue
        seen.add(real)
        with contextlib.suppress(UsageError):
            one = ask(path, environ)
            found.setdefault(one.executable, one)
            seen.add(one.executable)
    return sorted(found.values(), key=lambda one: one.version)


def _of_pyenv(environ: Mapping[str, str]) -> list[str]:
    """Return pyenv's interpreters, the oldest first."""
    root = environ.get("PYENV_ROOT") or os.path.join(environ.get("HOME", ""), ".pyenv")
    found = Path(root, "versions").glob("*/bin/python")
    ordered = sorted(found, key=lambda path: [int(number) for number in re.findall(r"\d+", path.parts[-3])])
    return list(map(str, ordered))


def _directory(environ: Mapping[str, str]) -> Path:
    """Return where to build tracers; raise `NativeError` if there is no place."""
    if os.access(LIB if LIB.exists() else LIB.parent, os.W_OK):
        return LIB
    found = users_directory(environ)
    if found is None:
        raise build.NativeError(f"{LIB} is not writable, and neither HOME nor XDG_DATA_HOME is set")
    return found
