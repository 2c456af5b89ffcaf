"""Keys of a profile's functions, computed per unique file and name."""

from __future__ import annotations

from itertools import takewhile

import numpy as np

from profkit.identity.lookup_columns import Keys, Looked
from profkit.identity.rooted_paths import ADDRESS, ANYWHERE, normalise, rooted_all
from profkit.model import PROJECT, Profile, Roots
from profkit.model.arrays import Index
from profkit.model.versions import python_of_paths

#: A project root with fewer parts identifies no project (``/``, ``/home``, ``c:/Users``).
MIN_ROOT_PARTS = 3


def clean_name(name: str) -> str:
    """Remove object addresses from a name: they differ between identical runs."""
    return ADDRESS.sub("", name) if " at 0x" in name else name


def unique_files(profile: Profile) -> tuple[Index, Index]:
    """Return string indices of the files that occur, shape (f,), and each row's index in them, shape (n,)."""
    seen = np.zeros(len(profile.strings), np.bool_)
    seen[profile.file] = True
    files = np.flatnonzero(seen).astype(np.int32)
    place = np.zeros(len(profile.strings), np.int32)
    place[files] = np.arange(len(files), dtype=np.int32)
    return files, place[profile.file]


def function_keys(profile: Profile, roots: Roots = ANYWHERE) -> Keys:
    """Return the key of every row; an unknown project root is inferred, to keep home directories out."""
    if not roots.project:
        roots = Roots(roots.stdlib, roots.site, infer_roots(profile).project)
    files, of_row = unique_files(profile)
    places = rooted_all(map(profile.strings.__getitem__, files.tolist()), roots)
    named = np.where(profile.qualname != 0, profile.qualname, profile.name)
    used, name = np.unique(named, return_inverse=True)
    names = tuple(clean_name(profile.strings[i]) for i in used.tolist())
    return Keys(of_row, places, Looked(name.astype(np.int32).reshape(len(profile)), names))


def infer_roots(profile: Profile) -> Roots:
    """Infer the roots of a foreign profile; ``project`` are the deepest directories without libraries."""
    stdlib: set[str] = set()
    site: set[str] = set()
    project: list[list[str]] = []
    files = [profile.strings[f] for f in unique_files(profile)[0].tolist()]
    for file, (root, inside) in zip(files, rooted_all(files), strict=True):
        if root == PROJECT:
            parts = inside.split("/")[:-1]
            if parts:
                project.append(parts)
        elif root in ("stdlib", "site") and not file.startswith("<"):
            prefix = normalise(file).removesuffix(inside).rstrip("/")
            (stdlib if root == "stdlib" else site).add(prefix)
    return Roots(tuple(sorted(stdlib)), tuple(sorted(site)), tuple(sorted(_project_roots(project))))


def infer_python(profile: Profile) -> tuple[int, int] | None:
    """Return the Python version (major, minor) of most library paths, ``None`` if none has one."""
    return python_of_paths(tuple([profile.strings[f] for f in unique_files(profile)[0].tolist()]))


def _project_roots(directories: list[list[str]]) -> set[str]:
    """Return the deepest common directories; too shallow ones are divided by their next part."""
    roots: set[str] = set()
    pending = [directories]
    while pending:
        group = pending.pop()
        if not group:
            continue
        common = _common(group)
        shallow = len(common) < MIN_ROOT_PARTS and any(len(parts) > len(common) for parts in group)
        absolute = common[:1] == [""] or common[:1] == [] or common[0].endswith(":")
        if not (shallow and absolute):
            if common and common != [""]:
                roots.add("/".join(common))
            continue
        split: dict[str, list[list[str]]] = {}
        for parts in group:
            if len(parts) > len(common):
                split.setdefault(parts[len(common)], []).append(parts)
            elif common and common != [""]:
                roots.add("/".join(common))
        pending.extend(split.values())
    return roots


def _common(group: list[list[str]]) -> list[str]:
    pairs = zip(min(group), max(group), strict=False)
    return [part for part, other in takewhile(lambda pair: pair[0] == pair[1], pairs)]
