"""The distributions in a target's environment, from the names of their metadata directories."""

from __future__ import annotations

import os
from collections.abc import Iterable


def installed_packages(path: Iterable[str]) -> dict[str, str]:
    """Return distributions and versions by ``*.dist-info`` names (PyPA, *Recording installed projects*)."""
    found: dict[str, str] = {}
    for entry in dict.fromkeys(path):
        try:
            names = os.listdir(entry)
        except (OSError, ValueError):  # sys.path may hold anything
            continue
        for name in names:
            base, dot, kind = name.rpartition(".")
            if dot and kind in ("dist-info", "egg-info") and "-" in base:
                distribution, _, version = base.partition("-")
                found.setdefault(distribution.replace("_", "-").lower(), version.partition("-")[0])
    return dict(sorted(found.items()))
