"""Record ``torch.cuda.nvtx`` ranges on PyTorch builds without CUDA, on request.

What PyTorch's functions call is replaced, so that names which the target has imported stay valid.
"""

from __future__ import annotations

import sys

from .import_hook import after_import

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict

_FUNCTIONS = "torch.cuda.nvtx"
_AUTOGRAD = "torch.autograd.profiler"


class Hooks:
    def __init__(self, library: str) -> None:
        self._library = library
        #: The notes for this process's record.
        self.notes: Dict[str, Any] = {}

    def install(self) -> None:
        after_import({_FUNCTIONS: self._patch_functions, _AUTOGRAD: self._patch_autograd})

    def _patch_functions(self, module: Any) -> None:
        if not _needed():
            return
        try:
            module._nvtx = _Collector(self._library)
            self.notes["torch_nvtx"] = True
        except Exception as error:  # the library is for another machine, or there is no ctypes
            self.notes["agent_failed"] = repr(error)

    def _patch_autograd(self, module: Any) -> None:
        """Make ``emit_nvtx`` do nothing, as it needs the CUDA part of PyTorch's C++ profiler."""
        if not _needed():
            return
        notes = self.notes

        def enter(self: Any) -> Any:
            if not self.enabled:
                return None
            if self.entered:
                raise RuntimeError("NVTX annotation context manager is not reentrant")
            self.entered = True
            notes["emit_nvtx"] = True
            return self

        def leave(self: Any, kind: Any, value: Any, trace: Any) -> Any:
            return False if self.enabled else None

        module.emit_nvtx.__enter__ = enter
        module.emit_nvtx.__exit__ = leave


def _needed() -> bool:
    return not hasattr(sys.modules.get("torch._C"), "_nvtx")


class _Collector:
    """Replacement of ``torch._C._nvtx`` that calls functions of the NVTX collector."""

    def __init__(self, path: str) -> None:
        import ctypes  # already imported by PyTorch

        # PyDLL keeps the GIL: the collector takes no lock that could wait for it.
        library = ctypes.PyDLL(path)
        self._push, self._mark = library.profkit_nvtx_push, library.profkit_nvtx_mark
        self._start, self._end = library.profkit_nvtx_start, library.profkit_nvtx_end
        self.rangePop = library.profkit_nvtx_pop
        self._push.argtypes = self._mark.argtypes = self._start.argtypes = (ctypes.c_char_p,)
        self._mark.restype = self._end.restype = None
        self._start.restype = ctypes.c_uint64
        self._end.argtypes = (ctypes.c_uint64,)

    def rangePushA(self, text: Any) -> int:  # noqa: N802
        return int(self._push(_encoded(text)))

    def markA(self, text: Any) -> None:  # noqa: N802
        self._mark(_encoded(text))

    def rangeStartA(self, text: Any) -> int:  # noqa: N802
        return int(self._start(_encoded(text)))

    def rangeEnd(self, number: Any) -> None:  # noqa: N802
        if isinstance(number, int):
            self._end(number)

    def deviceRangeStart(self, text: Any, stream: Any = 0) -> int:  # noqa: N802
        """Begin at once, as there is no device with a stream."""
        return self.rangeStartA(text)

    def deviceRangeEnd(self, number: Any, stream: Any = 0) -> None:  # noqa: N802
        self.rangeEnd(number)


def _encoded(text: Any) -> bytes:
    try:
        return (text if isinstance(text, str) else str(text)).encode("utf-8", "replace")
    except Exception:
        return b""  # the text cannot be converted
