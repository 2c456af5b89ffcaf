"""Read the sizes of this process's thread pools from the libraries (`pool_libraries`), by plain reads.

OpenMP keeps the size per thread: only the reading at the end, in the main thread, sees what was set there,
and a snapshot, in the agent's thread, sees what a new thread would get.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib_external import ExtensionFileLoader

from . import process_facts
from .pool_libraries import LIBRARIES, PACKAGES, NativeLibrary, ready

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple, Type

    #: Library, file, threads, version, CPUs that the library saw; then the most threads of any reading.
    Row = List[Any]

#: Prefixes of the file names of native libraries and their parts, and prefixes to exclude.
_STARTS = tuple(start for kind in LIBRARIES for start in kind.starts + kind.part_starts)
_OTHERS = tuple(start for kind in LIBRARIES for start in kind.other_starts)

#: Pools with a size for each thread; PyTorch's belongs to an OpenMP runtime.
_PER_THREAD = frozenset(
    ["torch"]
    + [kind.name for kind in LIBRARIES if kind.per_thread]
    + [package.name for package in PACKAGES if package.per_thread]
)

#: File whose `CDLL.__init__` loads libraries for Python code.
_CTYPES = os.path.join("ctypes", "__init__.py")

#: With this flag, dlopen() returns only handles of what is already loaded.
_NOLOAD = getattr(os, "RTLD_NOLOAD", 0)


class Pools:
    def __init__(self) -> None:
        self._modules_seen = -1
        #: Paths of mapped library files and parts, and the libraries among them.
        self._files: Dict[str, None] = {}
        self._libraries: Dict[str, NativeLibrary] = {}
        self._most: Dict[Tuple[str, str], int] = {}

    def forget(self) -> None:
        """Forget the parent's pools, in a forked child."""
        self._modules_seen = -1
        self._most = {}

    def read(self, final: bool) -> Optional[List[Row]]:
        """Return one row for each pool, or ``None``, also on an error; the process ends if `final`."""
        try:
            return self._read(final)
        except Exception:
            return None  # the libraries are the target's, of any version

    def _read(self, final: bool) -> Optional[List[Row]]:
        rows = self._native(final)
        if rows is None and final:
            rows = _from_threadpoolctl()
        packages: List[Row] = []
        for package in PACKAGES:
            if final or not package.only_at_end:
                packages += package.rows()
        if rows is None:
            if not packages:
                return None
            rows = []
        rows += packages
        for row in rows:
            key = row[0], row[1]
            # A snapshot sees another thread's OpenMP than the end does, so they are not comparable.
            if row[2] is not None and row[0] not in _PER_THREAD:
                self._most[key] = max(row[2], self._most.get(key, 0))
            row.append(self._most.get(key))
        return rows

    def _native(self, final: bool) -> Optional[List[Row]]:
        if not _NOLOAD or (not final and Calls.get(False) is None):
            return None  # Windows, or a snapshot of a program without `_ctypes`
        try:
            # Without new imports no relevant file is mapped; this keeps snapshots cheap.
            if final or self._modules_seen != len(sys.modules):
                # dlopen() takes the dynamic linker's lock while we hold the GIL. A thread that is loading a
                # library holds that lock, and its constructors may want the GIL.
                if not final and _something_is_loading():
                    return self._rows(final)
                seen = len(sys.modules)
                mapped = _mapped()
                if mapped:
                    calls = Calls.get(final)
                    if calls is None:
                        return None
                    self._find(mapped, calls)
                self._modules_seen = seen
        except OSError:
            return None  # no /proc
        return self._rows(final)

    def _rows(self, final: bool) -> List[Row]:
        rows: List[Row] = []
        files = list(self._files)
        for library in list(self._libraries.values()):
            rows += library.rows(final, files)
        return rows

    def _find(self, mapped: List[str], calls: Calls) -> None:
        for path in mapped:
            self._files[path] = None
            if path in self._libraries:
                continue
            kind = library_of(path)
            if kind is None or (kind.one_pool and any(type(lib) is kind for lib in self._libraries.values())):
                continue
            try:
                handle = calls.dlopen(path, _NOLOAD)
            except OSError:
                continue  # mapped as data only, or deleted since
            library = kind.opened(path, handle, calls)
            if library is not None and all(library.asks != lib.asks for lib in self._libraries.values()):
                self._libraries[path] = library


def library_of(path: str) -> Optional[Type[NativeLibrary]]:
    """Return the library of a file by its name; ``None`` for parts and other files."""
    name = path.rpartition("/")[2]
    if name.startswith(_OTHERS):
        return None
    return next((kind for kind in LIBRARIES if name.startswith(kind.starts)), None)


class Calls:
    """C functions through the core of `ctypes`, which the target may not have imported."""

    _made: Optional[Calls] = None

    @classmethod
    def get(cls, final: bool) -> Optional[Calls]:
        """Return the one instance; a snapshot imports nothing, as it may wait for the target's locks."""
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
        """Return the function ``int name(void)`` of a library, or ``None``."""
        try:
            address = self._module.dlsym(handle, name)
        except OSError:
            return None
        getter = self._of_int(address)
        getter.address = address
        return getter

    def text(self, handle: Any, name: str) -> str:
        """Return the text of ``char *name(void)``."""
        try:
            value = self._of_text(self._module.dlsym(handle, name))()
        except OSError:
            return ""
        return value.decode("utf-8", "replace") if value else ""


def _mapped() -> List[str]:
    """Return the paths of loaded libraries with the name of one that has a pool, or of its part."""
    names = [(path, path.rpartition("/")[2]) for path in process_facts.shared_objects()]
    return [path for path, name in names if name.startswith(_STARTS) and not name.startswith(_OTHERS)]


def _something_is_loading() -> bool:
    frames = list(sys._current_frames().values())
    try:
        return any(map(_loads, frames))
    finally:
        # This frame is one of them: as a cycle it would keep the target's frames around it, with their variables.
        frames.clear()


def _loads(frame: Optional[Any]) -> bool:
    create = ExtensionFileLoader.create_module.__code__
    while frame is not None:
        code = frame.f_code
        if code is create or (code.co_name == "__init__" and code.co_filename.endswith(_CTYPES)):
            return True
        frame = frame.f_back
    return False


def _from_threadpoolctl() -> Optional[List[Row]]:
    """Return what threadpoolctl says if the target uses it, for systems without ``/proc``."""
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
        return None  # the target may have any version
    return rows
