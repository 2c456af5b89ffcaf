"""Taking a run: start the target with the agent in its environment, wait, and pack what the agents wrote.

``profkit.capture`` names both this package and the user's function ``with profkit.capture("x.prof"):``. The
import system binds it to the package on any import from it, so the package is callable and calls
`profkit.capture.block.capture`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from profkit.capture.block import Block


class _Room(ModuleType):
    """A module that can be called; the language's data model describes how to set a module's class."""

    def __call__(self, output: str | os.PathLike[str]) -> Block:
        from profkit.capture.block import capture

        return capture(output)


sys.modules[__name__].__class__ = _Room
