"""Capture of a run; callable, since ``profkit.capture`` is both this package and the user's function."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from profkit.capture.block import Block


class _Room(ModuleType):
    def __call__(self, output: str | os.PathLike[str]) -> Block:
        from profkit.capture.block import capture

        return capture(output)


sys.modules[__name__].__class__ = _Room
