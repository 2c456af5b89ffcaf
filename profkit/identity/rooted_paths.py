"""Source paths of any operating system as ``(root, path relative to that root)``.

The run's recorded directories decide, else the form of the path.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import lru_cache

from profkit.model import BUILTIN, GENERATED, PROJECT, SITE, STDLIB, Roots

_DRIVE = re.compile(r"^[A-Za-z]:[\\/]")
#: Extended-length and device prefixes of Windows, irrelevant for identity.
_EXTENDED = re.compile(r"^[\\/]{2}[?.][\\/](?:UNC[\\/])?")
_FROZEN = re.compile(r"^<frozen ([\w.]+)>$")
ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
#: ``<ipython-input-12-0a1b2c3d4e5f>``: the execution counter changes, the hash of the cell's text does not.
_CELL = re.compile(r"^<ipython-input-\d+-([0-9a-f]+)>$")
#: How paths of cells begin, as `rooted` returns them.
CELLS = ("<ipython-input-", "ipykernel/")
#: A counter at the end of a generated name: ``<lambdifygenerated-3>``, ``<python-input-7>``.
_COUNTER = re.compile(r"-\d+>$")
_KERNEL = re.compile(r"(?:^|/)ipykernel_\d+/([^/]+)$")
_INDUCTOR = re.compile(r"(?:^|/)torchinductor_[^/]+/(.+)$")
_AUTOGRAPH = re.compile(r"(?:^|/)__autograph_generated_file[^/]*\.py$")
#: A file named by `tempfile`, directly in a directory for temporary files.
_TEMPORARY = re.compile(r"(?:^|/)(?:tmp|temp|T)/tmp[a-z0-9_]{8}(\.\w+)?$", re.IGNORECASE)

_SITE = re.compile(r".*(?:^|/)(?:site|dist)-packages/(.*)$", re.DOTALL)
_EGG = re.compile(r"(?:^|.*/)[^/]+\.egg/(.*)$", re.DOTALL)
_POSIX_LIB = re.compile(
    r"(?:^|.*?/)(?:lib(?:32|64|x32)?/(?:python|pypy)(\d(?:\.\d+)?)t?|lib-python/(\d(?:\.\d+)?))/(.*)$",
    re.DOTALL,
)
_ZIPPED_LIB = re.compile(r"(?:^|.*/)python(\d)(\d*)\.zip/(.*)$", re.DOTALL)
_LIB = re.compile(r"(?:^|/)(Lib|lib|LIB)/(?=([^/]+))")
_PYTHON_HOME = re.compile(
    r"(?:python|conda|pyenv|(?:^|/)\.?(?:venv|env|envs|virtualenvs)(?:/|$))", re.IGNORECASE
)

#: Modules of older Pythons that this interpreter no longer lists.
# fmt: off
_REMOVED = frozenset(
    (
        "aifc", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk", "crypt", "distutils",
        "imghdr", "imp", "lib2to3", "mailcap", "msilib", "nis", "nntplib", "ossaudiodev", "pipes",
        "smtpd", "sndhdr", "spwd", "sunau", "telnetlib", "uu", "xdrlib", "Queue", "StringIO",
        "ConfigParser", "urllib2", "urlparse", "cPickle", "commands", "sets",
    )
)
# fmt: on
#: Roots of a run that recorded none: the form of each path decides.
ANYWHERE = Roots()
_STDLIB_MODULES = frozenset(sys.stdlib_module_names) | _REMOVED


def joined_roots(several: Iterable[Roots]) -> Roots:
    """Return the directories of several interpreters, each once."""
    every = tuple(several)
    return Roots(
        *(
            tuple(dict.fromkeys(directory for roots in every for directory in getattr(roots, name)))
            for name in ("stdlib", "site", "project")
        )
    )


def normalise(file: str) -> str:
    """Return a path with ``/`` between its parts, without ``./`` and ``//``, drive in lower case."""
    if "\\" in file and (_DRIVE.match(file) or file.startswith("\\\\") or "/" not in file):
        file = _EXTENDED.sub("", file).replace("\\", "/")
    elif file[1:3] != ":/" and "//" not in file and "./" not in file:
        return file
    if file[1:2] == ":":
        file = file[0].lower() + file[1:]
    if "//" in file:
        file = re.sub(r"(?<!^)//+", "/", file)
    if "./" in file:
        file = re.sub(r"(?:(?<=/)|^)\./", "", file)
        previous = None
        while previous != file:
            previous = file
            file = re.sub(r"(?:^|(?<=/))(?!\.\./)[^/]+/\.\./", "", file, count=1)
    return file


@lru_cache(maxsize=256)
def directory_form(directory: str) -> str:
    """Spell a root directory as `normalise` does, ending in one ``/``; empty stays empty."""
    return normalise(directory).rstrip("/") + "/" if directory else ""


def rooted(file: str, roots: Roots = ANYWHERE) -> tuple[str, str]:
    """Return the root (one of `profkit.model.ROOTS`) of a recorded file name, and the path relative to it.

    Project files outside every known root keep the normalised path.
    """
    if file == "~":
        return BUILTIN, ""
    if file.startswith("<") and file.endswith(">"):
        frozen = _FROZEN.match(file)
        if frozen:
            return STDLIB, frozen[1].replace(".", "/") + ".py"
        cell = _CELL.match(file)
        if cell:
            return GENERATED, f"<ipython-input-{cell[1]}>"
        return GENERATED, _COUNTER.sub(">", ADDRESS.sub("", file))
    if not file:
        return GENERATED, ""
    path = normalise(file)
    generated = _generated(path)
    if generated is not None:
        return GENERATED, generated
    site = _site(path)
    if site is not None:
        return SITE, site
    for root, directories in ((SITE, roots.site), (STDLIB, roots.stdlib)):
        inside = relative_to(path, directories)
        if inside is not None:
            return root, inside
    inside = relative_to(path, roots.project)
    library = _stdlib(path, in_project=inside is not None)
    if library is not None:
        return STDLIB, library
    return PROJECT, path if inside is None else inside


def rooted_all(files: Iterable[str], roots: Roots = ANYWHERE) -> list[tuple[str, str]]:
    """Return `rooted` of each file, mostly asking once per directory."""
    found = []
    inside: dict[str, tuple[str, str] | None] = {}
    for file in files:
        directory, _, name = file.rpartition("/")
        if directory not in inside:
            inside[directory] = _of_directory(directory, roots)
        known = inside[directory]
        if known is None or not name or name.startswith(_TELLING) or "\\" in name or "\n" in name:
            found.append(rooted(file, roots))
        else:
            found.append((known[0], known[1] + name))
    return found


#: First letters of temporary and generated files, whose names decide their root.
_TELLING = ("t", "T", "__autograph", ".")
_SOME_NAME = "x.py"


@lru_cache(maxsize=4096)  # replicates mostly have the same directories
def _of_directory(directory: str, roots: Roots) -> tuple[str, str] | None:
    """Return root and path of a directory, ending in ``/``; ``None`` if the file names decide."""
    # In ``lib``, the file name decides whether it is a module of the standard library.
    if not directory or directory[0] == "<" or "\\" in directory or directory.endswith(("lib", "Lib", "LIB")):
        return None
    root, path = rooted(f"{directory}/{_SOME_NAME}", roots)
    return (root, path.removesuffix(_SOME_NAME)) if path.endswith(_SOME_NAME) else None


def relative_to(path: str, directories: tuple[str, ...]) -> str | None:
    """Return a normalised path below the deepest of the directories; ``None`` if it is in none."""
    best: str | None = None
    for directory in directories:
        prefix = directory_form(directory)
        if not prefix:
            continue
        same = path.startswith(prefix)
        if not same and path[1:2] == ":":
            same = path[: len(prefix)].lower() == prefix.lower()
        if same and (best is None or len(path) - len(prefix) < len(best)):
            best = path[len(prefix) :]
    return best


def _generated(path: str) -> str | None:
    if "ipykernel_" in path and (kernel := _KERNEL.search(path)):
        return f"ipykernel/{kernel[1]}"
    if "torchinductor_" in path and (inductor := _INDUCTOR.search(path)):
        return f"torchinductor/{inductor[1]}"
    if "__autograph_generated_file" in path and _AUTOGRAPH.search(path):
        return "__autograph_generated_file.py"
    if "/tmp" in path and (temporary := _TEMPORARY.search(path)):
        return f"tmp{temporary[1] or ''}"
    return None


def _site(path: str) -> str | None:
    if "-packages/" in path and (site := _SITE.match(path)):
        inside = site[1]
        egg = _EGG.match(inside) if ".egg/" in inside else None
        return egg[1] if egg else inside
    if ".egg/" in path and (egg := _EGG.match(path)):
        return egg[1]
    return None


def _stdlib(path: str, in_project: bool) -> str | None:
    if "lib" in path and (posix := _POSIX_LIB.match(path)):
        return posix[3]
    if ".zip/" in path and (zipped := _ZIPPED_LIB.match(path)):
        return zipped[3]
    if not in_project and ("ib/" in path or "IB/" in path):
        for library in _LIB.finditer(path):
            # A project's own ``lib`` is not the standard library: the module must be a standard one, and the
            # directory spelt ``Lib`` or located in an interpreter's home.
            spelt = library[1] == "Lib" or _PYTHON_HOME.search(path, 0, library.start())
            if spelt and library[2].removesuffix(".py") in _STDLIB_MODULES:
                return path[library.end() :]
    return None
