"""Thread pools of the libraries in this process, as the libraries themselves report them.

Asks only what is loaded and only what is a plain read: no library is loaded, no runtime is started, no size is
changed. Native libraries are found in ``/proc/self/maps`` and asked through their own getters; Python packages
are asked where they are in ``sys.modules``. Where a number came from is told later, by the packer.

Two moments differ. OpenMP keeps a pool's size per thread, so that only the thread which works can tell what was
set there: the reading at the end, in the main thread, has it. A snapshot, in the agent's thread, sees what
the library gives to a new thread, and asks only what takes no lock that another thread may hold.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib_external import ExtensionFileLoader

TYPE_CHECKING = False  # the module `typing` would cost every process of the target several milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    #: Library, file, threads, version, CPUs that the library saw; then the most threads that any reading saw.
    Row = List[Any]

#: What a native library's file name begins with, and what it is. A ``libblas`` may be any; its symbols tell.
_FILES = (
    ("libopenblas", "openblas"),
    ("libscipy_openblas", "openblas"),
    ("libblas", "openblas"),
    ("libflexiblas", "openblas"),
    ("libgomp", "libgomp"),
    ("libomp", "libomp"),
    ("libiomp", "libiomp5"),
    ("libmkl_rt", "mkl"),
    ("libmkl_intel_lp64", "mkl"),
    ("libmkl_intel_ilp64", "mkl"),
    ("libmkl_gf_lp64", "mkl"),
    ("libmkl_gf_ilp64", "mkl"),
    ("libmkl_sequential", "mkl-layer"),
    ("libmkl_intel_thread", "mkl-layer"),
    ("libmkl_gnu_thread", "mkl-layer"),
    ("libmkl_tbb_thread", "mkl-layer"),
    ("libblis", "blis"),
    ("libtbb", "tbb"),
)
_STARTS = tuple(start for start, _ in _FILES)

#: What begins likewise and is something else.
_OTHERS = ("libomptarget", "libiompstubs", "libiomp5_db", "libtbbmalloc", "libtbbbind")

#: Pools whose size each thread has for itself.
_PER_THREAD = frozenset(("libgomp", "libomp", "libiomp5", "torch", "mkl", "numba"))

#: OpenBLAS is built with names of its own, so that several can live in one process: all there are in wheels.
_OPENBLAS_NAMES = tuple((prefix, suffix) for prefix in ("", "scipy_") for suffix in ("", "64_", "_64", "64"))

#: Where Python code loads a library by hand, in `CDLL.__init__`.
_CTYPES = os.path.join("ctypes", "__init__.py")

#: Loads nothing: a handle of what is in the process already.
_NOLOAD = getattr(os, "RTLD_NOLOAD", 0)


class Pools:
    """The pools of one process, with the most threads that any reading saw."""

    def __init__(self) -> None:
        self._modules_seen = -1
        self._libraries: Dict[str, _Library] = {}
        self._mkl_layer = ""
        self._torch_has_openmp = False
        self._most: Dict[Tuple[str, str], int] = {}

    def forget(self) -> None:
        """In a forked child: its pools are its own from here on."""
        self._modules_seen = -1
        self._most = {}

    def read(self, final: bool) -> Optional[List[Row]]:
        """Return one row a pool; ``None`` where nothing can be asked.

        Parameters
        ----------
        final
            The process ends, and this is the thread in which it does.
        """
        rows = self._native(final)
        if rows is None and final:
            rows = _from_threadpoolctl()
        packages = _packages(final)
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
        if not _NOLOAD or _Calls.get(final) is None:
            return None  # Windows; or a snapshot of a program that has nothing which calls into libraries
        try:
            # What imports nothing maps nothing that matters, and a snapshot shall be cheap.
            if final or self._modules_seen != len(sys.modules):
                # A handle is taken under the dynamic linker's lock, while the GIL is held. A thread that is
                # just loading a library holds that lock, and its constructors may want the GIL.
                if not final and _something_is_loading():
                    return self._rows(final)
                seen = len(sys.modules)
                self._find(final)
                self._modules_seen = seen
        except OSError:
            return None  # no /proc here
        return self._rows(final)

    def _rows(self, final: bool) -> List[Row]:
        rows: List[Row] = []
        for library in list(self._libraries.values()):
            rows += library.read(self._may_ask(library.kind, final), self._torch_has_openmp)
        return rows

    def _find(self, final: bool) -> None:
        for path in _mapped():
            self._torch_has_openmp |= "/torch/lib/lib" in path
            if path in self._libraries:
                continue
            name = path.rpartition("/")[2]
            kind = next(kind for start, kind in _FILES if name.startswith(start))
            if kind == "mkl-layer":
                self._mkl_layer = name
            elif kind == "mkl" and any(lib.kind == "mkl" for lib in self._libraries.values()):
                continue  # several of its files answer, for the same pool
            else:
                library = _Library.open(kind, path, final)
                if library is not None and all(library.asks != lib.asks for lib in self._libraries.values()):
                    self._libraries[path] = library

    def _may_ask(self, kind: str, final: bool) -> bool:
        """Whether this library's getter only reads.

        LLVM's and Intel's OpenMP start up when they are asked anything (and may abort the process where both are
        there), and register the thread that asks; that they have started is told by a name in shared memory. MKL
        loads its threading layer when it is first used, and may stand on one of them. What libgomp is asked it
        answers from variables that its loading has set: also in a child of a fork, where a parallel region
        could hang.
        """
        if kind in ("openblas", "libgomp"):
            return True
        if not final:
            return False
        if kind in ("libomp", "libiomp5"):
            return _kmp_has_started()
        if kind == "mkl":
            return self._mkl_layer != "" and ("intel" not in self._mkl_layer or _kmp_has_started())
        return True


class _Library:
    """One native library that is loaded, with the getters that it has."""

    def __init__(self, kind: str, path: str, version: str, threads: Any, procs: Any) -> None:
        self.kind = kind
        self._path = path
        self._file = path.rpartition("/")[2]
        self._version = version
        self._threads = threads
        self._procs = procs
        #: Which function answers: a ``libblas`` that only stands before another library has its functions.
        self.asks = getattr(threads, "address", None) or path

    @staticmethod
    def open(kind: str, path: str, final: bool) -> Optional[_Library]:
        """Return the library at a path, ``None`` where it cannot be asked now or is another than its name says."""
        calls = _Calls.get(final)
        if calls is None:
            return None
        try:
            handle = calls.dlopen(path, _NOLOAD)
        except OSError:
            return None  # mapped as data only, or removed from the disk since
        if kind == "openblas":
            for prefix, suffix in _OPENBLAS_NAMES:
                threads = calls.function(handle, prefix + "openblas_get_num_threads" + suffix)
                if threads is not None:
                    config = calls.text(handle, prefix + "openblas_get_config" + suffix)
                    procs = calls.function(handle, prefix + "openblas_get_num_procs" + suffix)
                    return _Library(kind, path, _openblas_version(config), threads, procs)
            return None
        # TBB has none in C.
        name = {"mkl": "MKL_Get_Max_Threads", "blis": "bli_thread_get_num_threads", "tbb": ""}.get(
            kind, "omp_get_max_threads"
        )
        return _Library(kind, path, "", calls.function(handle, name) if name else None, None)

    def read(self, may_ask: bool, torch_has_openmp: bool) -> List[Row]:
        """Return the library's row, and PyTorch's where this is the OpenMP that it works with.

        `torch.get_num_threads` would set up the thread that asks, where it is the first to do so.
        """
        threads = None
        if self._threads is not None and may_ask:
            threads = int(self._threads())
            if threads < 1:
                threads = 1 if self.kind == "blis" else None  # BLIS: not set, which means one
        procs = int(self._procs()) if self._procs is not None else None
        row: Row = [self.kind, self._file, threads, self._version, procs]
        torch = _ready("torch") if self.kind in ("libgomp", "libomp", "libiomp5") else None
        own = "/torch/lib/" in self._path
        if torch is None or own != torch_has_openmp:
            return [row]
        of_torch: Row = ["torch", self._file, threads, _version(torch), None]
        return [of_torch] if own else [row, of_torch]


class _Calls:
    """C functions without `ctypes`, of which the target may have imported nothing yet: its core is enough."""

    _made: Optional[_Calls] = None

    @classmethod
    def get(cls, final: bool) -> Optional[_Calls]:
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
    """Paths of the mapped files that may be a library of `_FILES`."""
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


def _kmp_has_started() -> bool:
    """Whether LLVM's or Intel's OpenMP has been used: then it has registered itself under the process's number."""
    name = "__KMP_REGISTERED_LIB_%d" % os.getpid()
    if os.environ.get(name):
        return True
    try:
        return any(entry.startswith(name) for entry in os.listdir("/dev/shm"))
    except OSError:
        return False


def _openblas_version(config: str) -> str:
    words = config.split()
    return words[1] if len(words) > 1 and words[0] == "OpenBLAS" else ""


# Python packages


def _ready(name: str) -> Any:
    """Return a module that the target has imported to its end, ``None`` otherwise."""
    module = sys.modules.get(name)
    if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
        return None
    return module


def _version(module: Any) -> str:
    version = getattr(module, "__version__", "")
    return str.__str__(version) if isinstance(version, str) else ""


def _packages(final: bool) -> List[Row]:
    """Rows of the packages that keep threads of their own and say how many."""
    rows: List[Row] = []
    for ask in (_opencv, _numexpr, _numba) + ((_torch_interop, _tensorflow) if final else ()):
        try:
            row = ask()
        except Exception:
            continue  # another version of the package than these functions know
        if row is not None:
            rows += row
    return rows


def _opencv() -> Optional[List[Row]]:
    cv2 = _ready("cv2")
    if cv2 is None:
        return None
    return [["opencv", "", int(cv2.getNumThreads()), _version(cv2), None]]


def _numexpr() -> Optional[List[Row]]:
    """What numexpr evaluates with: it starts its threads when it is imported."""
    utils = _ready("numexpr.utils")
    numexpr = _ready("numexpr")
    if utils is None or numexpr is None:
        return None
    threads = getattr(utils, "get_num_threads", None)
    if threads is None:
        return None  # before 2.8
    return [["numexpr", "", int(threads()), _version(numexpr), None]]


def _numba() -> Optional[List[Row]]:
    """The threads of ``parallel=True``, where they run: asking would start them."""
    parallel = _ready("numba.np.ufunc.parallel")
    if parallel is None or not getattr(parallel, "_is_initialized", False):
        return None
    numba = sys.modules["numba"]
    return [["numba", "", int(parallel.get_num_threads()), _version(numba), None]]


def _torch_interop() -> Optional[List[Row]]:
    torch = _ready("torch")
    if torch is None:
        return None
    return [["torch-interop", "", int(torch.get_num_interop_threads()), _version(torch), None]]


def _tensorflow() -> Optional[List[Row]]:
    """The sizes that TensorFlow was given, 0 for as many as there are CPUs, once it has started."""
    module = _ready("tensorflow.python.eager.context")
    context = getattr(module, "_context", None)
    if context is None or not getattr(context, "_initialized", False):
        return None
    version = _version(sys.modules.get("tensorflow"))
    return [
        ["tensorflow", "", int(context.intra_op_parallelism_threads or 0), version, None],
        ["tensorflow-interop", "", int(context.inter_op_parallelism_threads or 0), version, None],
    ]


def _from_threadpoolctl() -> Optional[List[Row]]:
    """Where there is no ``/proc``: what threadpoolctl says, if the target uses it."""
    module = _ready("threadpoolctl")
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
