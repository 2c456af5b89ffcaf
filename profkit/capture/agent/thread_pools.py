"""Thread pools of the libraries in this process, as the libraries themselves report them.

Asks only what is loaded and only what is a plain read: no library is loaded, no runtime is started, no size is
changed. Native libraries are found in ``/proc/self/maps`` and asked through their own getters; Python packages
are asked where they are in ``sys.modules``. `pool_libraries` has a class for each library. Where a number came from
is found out later, by the packer (`profkit.capture.pool_records`).

Two moments differ. OpenMP keeps a pool's size per thread, so that only the thread which works can read what was
set there: the reading at the end, in the main thread, has it. A snapshot, in the agent's thread, sees what
the library gives to a new thread, and asks only what takes no lock that another thread may hold.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib_external import ExtensionFileLoader

from .pool_libraries import NativeLibrary, Package, ready

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple, Type

    #: Library, file, threads, version, CPUs that the library saw; then the most threads that any reading saw.
    Row = List[Any]

#: What the file name of a native library, or of a part of one, begins with; and what begins likewise and is neither.
_STARTS = tuple(start for kind in NativeLibrary.registered for start in kind.starts + kind.part_starts)
_OTHERS = tuple(start for kind in NativeLibrary.registered for start in kind.other_starts)

#: Pools whose size each thread has for itself; PyTorch's is an OpenMP runtime's.
_PER_THREAD = frozenset(
    ["torch"]
    + [kind.name for kind in NativeLibrary.registered if kind.per_thread]
    + [kind.name for kind in Package.registered if kind.per_thread]
)

#: Where Python code loads a library by hand, in `CDLL.__init__`.
_CTYPES = os.path.join("ctypes", "__init__.py")

#: Loads nothing: a handle of what is in the process already.
_NOLOAD = getattr(os, "RTLD_NOLOAD", 0)


class Pools:
    """The pools of one process, with the most threads that any reading saw."""

    def __init__(self) -> None:
        self._modules_seen = -1
        #: Mapped files of native libraries and of their parts, and the libraries among them, by path.
        self._files: Dict[str, None] = {}
        self._libraries: Dict[str, NativeLibrary] = {}
        self._most: Dict[Tuple[str, str], int] = {}

    def forget(self) -> None:
        """In a forked child: its pools are its own from here on."""
        self._modules_seen = -1
        self._most = {}

    def read(self, final: bool) -> Optional[List[Row]]:
        """Return one row a pool; ``None`` where nothing can be asked.
        `final`: the process ends, and this is the thread in which it does.
        """
        rows = self._native(final)
        if rows is None and final:
            rows = _from_threadpoolctl()
        packages: List[Row] = []
        for package in Package.registered:
            if final or not package.only_at_end:
                packages += package.rows()
        if rows is None:
            if not packages:
                return None
            rows = []
        rows += packages
        for row in rows:
            key = row[0], row[1]
            # A snapshot sees another thread's OpenMP than the end does: the two do not compare.
            if row[2] is not None and row[0] not in _PER_THREAD:
                self._most[key] = max(row[2], self._most.get(key, 0))
            row.append(self._most.get(key))
        return rows

    def _native(self, final: bool) -> Optional[List[Row]]:
        if not _NOLOAD or (not final and Calls.get(False) is None):
            return None  # Windows; or a snapshot of a program that has nothing which calls into libraries
        try:
            # What imports nothing maps nothing that matters, and a snapshot shall be cheap.
            if final or self._modules_seen != len(sys.modules):
                # A handle is taken under the dynamic linker's lock, while the GIL is held. A thread that is
                # just loading a library holds that lock, and its constructors may want the GIL.
                if not final and _something_is_loading():
                    return self._rows(final)
                seen = len(sys.modules)
                mapped = _mapped()
                if mapped and Calls.get(final) is None:
                    return None
                self._find(mapped, final)
                self._modules_seen = seen
        except OSError:
            return None  # no /proc here
        return self._rows(final)

    def _rows(self, final: bool) -> List[Row]:
        rows: List[Row] = []
        files = list(self._files)
        for library in list(self._libraries.values()):
            rows += library.rows(final, files)
        return rows

    def _find(self, mapped: List[str], final: bool) -> None:
        for path in mapped:
            self._files[path] = None
            if path in self._libraries:
                continue
            kind = library_of(path)
            if kind is None or (kind.one_pool and any(type(lib) is kind for lib in self._libraries.values())):
                continue
            library = _opened(kind, path, final)
            if library is not None and all(library.asks != lib.asks for lib in self._libraries.values()):
                self._libraries[path] = library


def library_of(path: str) -> Optional[Type[NativeLibrary]]:
    """Return which library a file is by its name, ``None`` for parts of one and all others."""
    name = path.rpartition("/")[2]
    if name.startswith(_OTHERS):
        return None
    return next((kind for kind in NativeLibrary.registered if name.startswith(kind.starts)), None)


def _opened(kind: Type[NativeLibrary], path: str, final: bool) -> Optional[NativeLibrary]:
    """Return the library at a path, ``None`` where it cannot be asked now or is another than its name says."""
    calls = Calls.get(final)
    if calls is None:
        return None
    try:
        handle = calls.dlopen(path, _NOLOAD)
    except OSError:
        return None  # mapped as data only, or removed from the disk since
    return kind.opened(path, handle, calls)


class Calls:
    """C functions without `ctypes`, of which the target may have imported nothing yet: its core is enough."""

    _made: Optional[Calls] = None

    @classmethod
    def get(cls, final: bool) -> Optional[Calls]:
        """Return the one instance; a snapshot imports nothing, as an import may wait for a lock of the target's."""
        if cls._made is None:
            module: Any = sys.modules.get("_ctypes")
            if module is None and final:
                try:
                    import _ctypes as module  # type: ignore[import-not-found,no-redef,unused-ignore]
                except ImportError:
                    return None  # this Python was built without libffi
            if module is None or not hasattr(module, "CFuncPtr"):
                return None
            cls._made = cls(module)
        return cls._made

    def __init__(self, module: Any) -> None:
        self._module = module
        self.dlopen = module.dlopen
        number = type("_Int", (module._SimpleCData,), {"_type_": "i"})
        chars = type("_Chars", (module._SimpleCData,), {"_type_": "z"})
        flags = {"_flags_": module.FUNCFLAG_CDECL}
        self._of_int = type("_IntGetter", (module.CFuncPtr,), dict(flags, _restype_=number))
        self._of_text = type("_TextGetter", (module.CFuncPtr,), dict(flags, _restype_=chars))

    def function(self, handle: Any, name: str) -> Any:
        """Return the function ``int name(void)`` of a library, ``None`` where it has none of that name."""
        try:
            address = self._module.dlsym(handle, name)
        except OSError:
            return None
        getter = self._of_int(address)
        getter.address = address
        return getter

    def text(self, handle: Any, name: str) -> str:
        """Call ``char *name(void)``."""
        try:
            value = self._of_text(self._module.dlsym(handle, name))()
        except OSError:
            return ""
        return value.decode("utf-8", "replace") if value else ""


def _mapped() -> List[str]:
    """Paths of the mapped files that a native library's name, or that of a part of one, fits."""
    with open("/proc/self/maps", "rb") as stream:
        data = stream.read()
    found: Dict[str, None] = {}
    for line in data.split(b"\n"):
        start = line.find(b"/")
        if start < 0 or line.find(b".so", start) < 0 or line[line.rfind(b"/") + 1 :][:3] != b"lib":
            continue
        path = os.fsdecode(line[start:])
        if path.endswith(" (deleted)"):
            path = path[: -len(" (deleted)")]
        found[path] = None
    names = [(path, path.rpartition("/")[2]) for path in found]
    return [p for p, name in names if name.startswith(_STARTS) and not name.startswith(_OTHERS)]


def _something_is_loading() -> bool:
    """Whether some thread is inside the loading of a shared library."""
    loads = ExtensionFileLoader.create_module.__code__
    for top in list(sys._current_frames().values()):
        frame: Optional[Any] = top
        while frame is not None:
            code = frame.f_code
            if code is loads or (code.co_name == "__init__" and code.co_filename.endswith(_CTYPES)):
                return True
            frame = frame.f_back
    return False


def _from_threadpoolctl() -> Optional[List[Row]]:
    """Where there is no ``/proc``: what threadpoolctl says, if the target uses it."""
    module = ready("threadpoolctl")
    if module is None:
        return None
    names = {"openmp": "", "openblas": "openblas", "mkl": "mkl", "blis": "blis", "flexiblas": "openblas"}
    rows: List[Row] = []
    try:
        for entry in module.threadpool_info():
            library = names.get(entry.get("internal_api"), "") or str(entry.get("prefix"))
            file = os.path.basename(str(entry.get("filepath") or ""))
            rows.append([library, file, entry.get("num_threads"), str(entry.get("version") or ""), None])
    except Exception:
        return None  # the target's version of it may be any
    return rows
