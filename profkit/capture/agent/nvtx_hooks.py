"""Decides in a target process what of NVTX is recorded from Python; imported only where the launcher asked for it.

``PROFKIT_NVTX_PATCH`` holds the words: ``nvtx`` where the compiled collector is missing, ``torch`` where the user
wants PyTorch's NVTX functions to work without CUDA.
"""

from __future__ import annotations

import os

from . import nvtx_patch, settings, torch_nvtx
from .import_hook import after_import
from .nvtx_record import Recorder

TYPE_CHECKING = False  # the module `typing` would cost every process of the target several milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional


class Hooks:
    """What is patched in this process, and in those that it forks."""

    def __init__(self, spool: str, words: str) -> None:
        self._spool = spool
        self._words = words.split(",")
        self._recorder: Optional[Recorder] = None
        self._patched = False
        self._notes: Dict[str, Any] = {}

    def install(self) -> None:
        """Wait for the modules to be imported."""
        actions: Dict[str, Callable[[Any], None]] = {}
        if "nvtx" in self._words:
            actions[nvtx_patch.MODULE] = self._patch_nvtx
        if "torch" in self._words:
            actions[torch_nvtx.FUNCTIONS] = self._patch_torch
            actions[torch_nvtx.AUTOGRAD] = self._patch_autograd
        after_import(actions)

    def notes(self) -> Dict[str, Any]:
        """Return what a reader of this process's record must know."""
        found = dict(self._notes)
        if self._patched and self._recorder is not None and self._recorder.opened:
            found["nvtx_patched"] = True
        return found

    def _get_recorder(self) -> Recorder:
        if self._recorder is None:
            self._recorder = Recorder(self._spool)
        return self._recorder

    def _patch_nvtx(self, module: Any) -> None:
        self._patched = nvtx_patch.patch(module, self._get_recorder())
        if not self._patched:
            self._notes["nvtx_unknown"] = True

    def _patch_torch(self, module: Any) -> None:
        if torch_nvtx.needed():
            library = os.environ.get(settings.INJECTION_VARIABLE) if "library" in self._words else None
            torch_nvtx.patch_functions(module, library, self._get_recorder)
            self._notes["torch_nvtx"] = True

    def _patch_autograd(self, module: Any) -> None:
        if torch_nvtx.needed():
            torch_nvtx.patch_autograd(module, self._said_emit_nvtx)

    def _said_emit_nvtx(self) -> None:
        self._notes["emit_nvtx"] = True
