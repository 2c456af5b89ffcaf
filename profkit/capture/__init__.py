"""Taking a run: start the target with the agent in its environment, wait, and pack what the agents wrote.

``launcher`` starts and waits, ``agent`` is what runs inside the target, ``packer`` turns the spool directory
into a `profkit.model.Run`, ``host`` reads what the machine is and has done. ``block`` takes a part of the running
program instead.

``profkit.capture`` is the name of this room and that of a function for users,
``with profkit.capture("x.prof"):``. The import system makes it the room whenever something of it is imported, so
the room can be called, and calling it is `profkit.capture.block.capture`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from profkit.capture.block import Block


class _Room(ModuleType):
    """A module that can be called; what a module's class may be set to is said in the language's data model."""

    def __call__(self, output: str | os.PathLike[str]) -> Block:
        from profkit.capture.block import capture

        return capture(output)


sys.modules[__name__].__class__ = _Room
