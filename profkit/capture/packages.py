"""Which distributions a target's environment has, from the names of their metadata directories."""

from __future__ import annotations

import os
from collections.abc import Iterable


def installed_packages(path: Iterable[str]) -> dict[str, str]:
    """Return distribution names with versions for the entries of an import path, earlier entries first.
    The directory's name suffices (PyPA, *Recording installed projects*: ``{name}-{version}.dist-info``): no
    metadata file is opened, and the target's interpreter is not asked."""
    found: dict[str, str] = {}
    for entry in dict.fromkeys(path):
        try:
            names = os.listdir(entry)
        except (OSError, ValueError):  # sys.path may hold anything, texts that name no file among them
            continue
        for name in names:
            base, dot, kind = name.rpartition(".")
            if dot and kind in ("dist-info", "egg-info") and "-" in base:
                distribution, _, version = base.partition("-")
                found.setdefault(distribution.replace("_", "-").lower(), version.partition("-")[0])
    return dict(sorted(found.items()))
