"""Lets GPU-annotated PyTorch programs run on builds without CUDA: ``torch.cuda.nvtx`` is recorded, not refused.

Only on request, and only where the build has no NVTX of its own: there PyTorch's functions raise. What they call
is replaced, so that they stay PyTorch's own under whatever names the target imported them. Ranges go to the
compiled collector where there is one, so that they nest with those of other libraries, else to the recorder.
"""

from __future__ import annotations

import sys

from .nvtx_record import PUSH, Recorder

TYPE_CHECKING = False  # the module `typing` would cost every process of the target several milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

FUNCTIONS = "torch.cuda.nvtx"
AUTOGRAD = "torch.autograd.profiler"

#: What a pop answers where nothing was pushed, and NVTX itself where there is no tool.
_NO_RANGE = -2


def needed() -> bool:
    """Whether this build of PyTorch has no NVTX."""
    return not hasattr(sys.modules.get("torch._C"), "_nvtx")


def patch_functions(module: Any, library: Optional[str], recorder: Callable[[], Recorder]) -> None:
    """Put a stand-in for ``torch._C._nvtx`` into ``torch.cuda.nvtx``."""
    stand_in: Any = None
    if library:
        try:
            stand_in = _Collector(library)
        except Exception:
            pass  # built for another machine, or no ctypes here
    module._nvtx = stand_in or _Recorded(recorder())


def patch_autograd(module: Any, said: Callable[[], None]) -> None:
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


class _Sink:
    """What PyTorch calls, under its names; text may be anything that can be written."""

    def rangePushA(self, text: Any) -> int:  # noqa: N802
        raise NotImplementedError

    def deviceRangeStart(self, text: Any, stream: Any = 0) -> int:  # noqa: N802
        """There is no device whose stream could be waited for: it begins now."""
        return self.rangeStartA(text)

    def deviceRangeEnd(self, number: Any, stream: Any = 0) -> None:  # noqa: N802
        self.rangeEnd(number)

    def rangeStartA(self, text: Any) -> int:  # noqa: N802
        raise NotImplementedError

    def rangeEnd(self, number: Any) -> None:  # noqa: N802
        raise NotImplementedError


class _Collector(_Sink):
    """The compiled collector, through the functions that it exports for this."""

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


class _Recorded(_Sink):
    """The recorder in Python."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def _begin(self, kind: int, text: Any) -> int:
        try:
            string = self._recorder.name(text)
        except Exception:
            string = 0  # no name that could be written
        return self._recorder.begin(kind, string, string << 32, 0, 0, 0)

    def rangePushA(self, text: Any) -> int:  # noqa: N802
        self._begin(PUSH, text)
        local = self._recorder.local
        depth: int = getattr(local, "depth", 0)
        local.depth = depth + 1
        return depth

    def rangePop(self) -> int:  # noqa: N802
        self._recorder.pop(self._recorder.default.pop)
        local = self._recorder.local
        depth: int = getattr(local, "depth", 0)
        if not depth:
            return _NO_RANGE
        local.depth = depth - 1
        return depth - 1

    def markA(self, text: Any) -> None:  # noqa: N802
        self._begin(self._recorder.default.mark, text)

    def rangeStartA(self, text: Any) -> int:  # noqa: N802
        return self._begin(self._recorder.default.start, text)

    def rangeEnd(self, number: Any) -> None:  # noqa: N802
        self._recorder.end(number)


def _encoded(text: Any) -> bytes:
    try:
        return (text if isinstance(text, str) else str(text)).encode("utf-8", "replace")
    except Exception:
        return b""  # no name that could be written
