"""Lets GPU-annotated PyTorch programs run on builds without CUDA: ``torch.cuda.nvtx`` is recorded, not refused.

Only on request, and only where the build has no NVTX of its own: there PyTorch's functions raise. What they call
is replaced, so that they stay PyTorch's own under whatever names the target imported them. Ranges go to the NVTX
collector, so that they nest with those of other libraries.
"""

from __future__ import annotations

import sys

from .import_hook import after_import

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

_FUNCTIONS = "torch.cuda.nvtx"
_AUTOGRAD = "torch.autograd.profiler"


class Hooks:
    """What is patched in this process, and in those that it forks."""

    def __init__(self, library: str) -> None:
        self._library = library
        self._notes: Dict[str, Any] = {}

    def install(self) -> None:
        """Wait for the modules to be imported."""
        after_import({_FUNCTIONS: self._patch_functions, _AUTOGRAD: self._patch_autograd})

    def notes(self) -> Dict[str, Any]:
        """Return what a reader of this process's record must know."""
        return self._notes

    def _patch_functions(self, module: Any) -> None:
        if not _needed():
            return
        try:
            module._nvtx = _Collector(self._library)
            self._notes["torch_nvtx"] = True
        except Exception as error:  # built for another machine, or no ctypes here
            self._notes["agent_failed"] = repr(error)

    def _patch_autograd(self, module: Any) -> None:
        if _needed():
            _patch_autograd(module, self._said_emit_nvtx)

    def _said_emit_nvtx(self) -> None:
        self._notes["emit_nvtx"] = True


def _needed() -> bool:
    """Whether this build of PyTorch has no NVTX."""
    return not hasattr(sys.modules.get("torch._C"), "_nvtx")


def _patch_autograd(module: Any, said: Callable[[], None]) -> None:
    """Make ``emit_nvtx`` do nothing: it needs CUDA's part of PyTorch's C++ profiler, and would raise."""

    def enter(self: Any) -> Any:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("NVTX annotation context manager is not reentrant")
        self.entered = True
        said()
        return self

    def leave(self: Any, kind: Any, value: Any, trace: Any) -> Any:
        return False if self.enabled else None

    module.emit_nvtx.__enter__ = enter
    module.emit_nvtx.__exit__ = leave


class _Collector:
    """Stands for ``torch._C._nvtx``, under its names: calls functions that the NVTX collector exports for this."""

    def __init__(self, path: str) -> None:
        import ctypes  # PyTorch has imported it

        # The interpreter's lock is kept: the collector takes nothing that could wait for it.
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
        """There is no device whose stream could be waited for: it begins now."""
        return self.rangeStartA(text)

    def deviceRangeEnd(self, number: Any, stream: Any = 0) -> None:  # noqa: N802
        self.rangeEnd(number)


def _encoded(text: Any) -> bytes:
    try:
        return (text if isinstance(text, str) else str(text)).encode("utf-8", "replace")
    except Exception:
        return b""  # no name that could be written
