"""Capture of a run: start the target, wait for it, and pack what the agents wrote.

``profkit.capture`` names both this package and the user's function. Any import from the package binds the
name to the package, so the package is callable.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from profkit.capture.block import Block


class _Room(ModuleType):
    """A callable module; the language's data model documents how to set a module's class."""

    def __call__(self, output: str | os.PathLike[str]) -> Block:
        from profkit.capture.block import capture

        return capture(output)


sys.modules[__name__].__class__ = _Room
