"""Describe libraries with thread pools: a class for each native one, and a table of packages.

Nothing here loads a library, starts a runtime or changes a size. `final` readings are made in the main thread
at the end; others in the agent's thread, where a getter must take no lock. Variables are in
`profkit.model.pools`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, List, Optional, Sequence, Tuple, Type

    #: Library, file, threads, version, CPUs that the library saw.
    Row = List[Any]


class NativeLibrary:
    """A loaded shared library; a class without a `name` (in reports) is only a base.

    `starts` and `part_starts` are prefixes of its files with and without a pool, `other_starts` those of
    other files. `getter` is a C function ``int getter(void)``, empty if there is none. `per_thread`: each
    thread has its own size. `one_pool`: several files answer for one pool.
    """

    name = ""
    starts: Tuple[str, ...] = ()
    other_starts: Tuple[str, ...] = ()
    part_starts: Tuple[str, ...] = ()
    getter = ""
    per_thread = False
    one_pool = False

    def __init__(self, path: str, threads: Any, version: str = "", procs: Any = None) -> None:
        self.path = path
        self.file = path.rpartition("/")[2]
        #: Identifies the function that answers: a ``libblas`` may only forward to another library.
        self.asks = getattr(threads, "address", None) or path
        self._threads = threads
        self._version = version
        self._procs = procs

    @classmethod
    def opened(cls, path: str, handle: Any, calls: Any) -> Optional[NativeLibrary]:
        """Return the library at `path`, or ``None`` if the file is not what its name says.

        `handle` comes from `dlopen`; `calls` finds C functions (`thread_pools.Calls`).
        """
        return cls(path, calls.function(handle, cls.getter) if cls.getter else None)

    def may_ask(self, final: bool, files: Sequence[str]) -> bool:
        """Whether the getter only reads, in a process with these library files mapped."""
        return final

    def size(self) -> Optional[int]:
        """Ask for the number of threads."""
        number = int(self._threads())
        return number if number > 0 else None

    def rows(self, final: bool, files: Sequence[str]) -> List[Row]:
        """Return one row for each pool built on this library."""
        may_ask = self._threads is not None and self.may_ask(final, files)
        procs = int(self._procs()) if self._procs is not None else None
        return [[self.name, self.file, self.size() if may_ask else None, self._version, procs]]


class OpenBLAS(NativeLibrary):
    """OpenBLAS, or a ``libblas`` with its functions, which builds (e.g. wheels) may rename."""

    name = "openblas"
    starts = ("libopenblas", "libscipy_openblas", "libblas", "libflexiblas")

    @classmethod
    def opened(cls, path: str, handle: Any, calls: Any) -> Optional[NativeLibrary]:
        for prefix in ("", "scipy_"):
            for suffix in ("", "64_", "_64", "64"):
                threads = calls.function(handle, prefix + "openblas_get_num_threads" + suffix)
                if threads is not None:
                    words = calls.text(handle, prefix + "openblas_get_config" + suffix).split()
                    version = words[1] if len(words) > 1 and words[0] == "OpenBLAS" else ""
                    procs = calls.function(handle, prefix + "openblas_get_num_procs" + suffix)
                    return cls(path, threads, version, procs)
        return None

    def may_ask(self, final: bool, files: Sequence[str]) -> bool:
        return True


class OpenMP(NativeLibrary):
    """An OpenMP runtime, perhaps PyTorch's: `torch.get_num_threads` would initialise the asking thread."""

    getter = "omp_get_max_threads"
    per_thread = True

    def rows(self, final: bool, files: Sequence[str]) -> List[Row]:
        (row,) = super().rows(final, files)
        torch = ready("torch")
        own = _is_torch_s(self.path)
        # PyTorch uses the runtime that it bundles, if it bundles one.
        if torch is None or own != any(_is_torch_s(path) for path in files):
            return [row]
        of_torch: Row = ["torch", self.file, row[2], version_of(torch), None]
        return [of_torch] if own else [row, of_torch]


class GNUOpenMP(OpenMP):
    """GCC's runtime, which answers from variables: safe even in a forked child, where a region could hang."""

    name = "libgomp"
    starts = ("libgomp",)

    def may_ask(self, final: bool, files: Sequence[str]) -> bool:
        return True


class LLVMOpenMP(OpenMP):
    """LLVM's runtime: any query starts it, registers the asking thread, and may abort beside Intel's."""

    name = "libomp"
    starts = ("libomp",)
    other_starts: Tuple[str, ...] = ("libomptarget",)

    def may_ask(self, final: bool, files: Sequence[str]) -> bool:
        return final and _kmp_has_started()


class IntelOpenMP(LLVMOpenMP):
    """Intel's runtime: the same code under another name."""

    name = "libiomp5"
    starts = ("libiomp",)
    other_starts = ("libiompstubs", "libiomp5_db")


class MKL(NativeLibrary):
    """MKL, which loads its threading layer, possibly Intel's OpenMP, at first use."""

    name = "mkl"
    starts = ("libmkl_rt", "libmkl_intel_lp64", "libmkl_intel_ilp64", "libmkl_gf_lp64", "libmkl_gf_ilp64")
    part_starts = ("libmkl_sequential", "libmkl_intel_thread", "libmkl_gnu_thread", "libmkl_tbb_thread")
    getter = "MKL_Get_Max_Threads"
    per_thread = True
    one_pool = True

    def may_ask(self, final: bool, files: Sequence[str]) -> bool:
        layers = [name for name in map(_name, files) if name.startswith(self.part_starts)]
        if not final or not layers:
            return False
        return not any("intel" in layer for layer in layers) or _kmp_has_started()


class BLIS(NativeLibrary):
    """BLIS, which has one thread unless something set another number."""

    name = "blis"
    starts = ("libblis",)
    getter = "bli_thread_get_num_threads"

    def size(self) -> Optional[int]:
        return super().size() or 1


class TBB(NativeLibrary):
    """TBB, which has no C function for the size."""

    name = "tbb"
    starts = ("libtbb",)
    other_starts = ("libtbbmalloc", "libtbbbind")


#: All that are looked for.
LIBRARIES: Tuple[Type[NativeLibrary], ...] = (OpenBLAS, GNUOpenMP, LLVMOpenMP, IntelOpenMP, MKL, BLIS, TBB)


class Package:
    """A Python package with its own threads, called `name` in reports.

    `size` asks `module`, which the target must have imported, for their number: ``None`` if there is no pool
    yet. The recorded version is that of `package`, or else of `module`. `only_at_end`: a snapshot must not ask.
    `per_thread`: each thread has its own size.
    """

    def __init__(
        self,
        name: str,
        module: str,
        size: Callable[[Any], Any],
        package: str = "",
        only_at_end: bool = False,
        per_thread: bool = False,
    ) -> None:
        self.name, self.only_at_end, self.per_thread = name, only_at_end, per_thread
        self._module, self._size, self._package = module, size, package

    def rows(self) -> List[Row]:
        """Return the package's row; none if the target does not use it or its version has no such call."""
        module = ready(self._module)
        try:
            threads = None if module is None else self._size(module)
            threads = None if threads is None else int(threads)
        except Exception:
            return []
        package = sys.modules.get(self._package) if self._package else module
        return [] if threads is None else [[self.name, "", threads, version_of(package), None]]


def _of_numexpr(module: Any) -> Any:
    get = getattr(ready("numexpr.utils"), "get_num_threads", None)
    return None if get is None else get()  # since 2.8


def _of_numba(module: Any) -> Any:
    """Return the threads of ``parallel=True``, if they run: asking would start them."""
    parallel = ready("numba.np.ufunc.parallel")
    return parallel.get_num_threads() if getattr(parallel, "_is_initialized", False) else None


def _of_tensorflow(setting: str) -> Callable[[Any], Any]:
    """Return what asks for a size that TensorFlow was given (0: one thread per CPU), once it has started."""

    def size(module: Any) -> Any:
        context = getattr(module, "_context", None)
        return (getattr(context, setting) or 0) if getattr(context, "_initialized", False) else None

    return size


_EAGER = "tensorflow.python.eager.context"
#: PyTorch's pool that runs its graphs is here, its compute pool is an OpenMP runtime's.
PACKAGES = (
    Package("opencv", "cv2", lambda cv2: cv2.getNumThreads()),
    Package("numexpr", "numexpr", _of_numexpr),
    Package("numba", "numba", _of_numba, per_thread=True),
    Package("torch-interop", "torch", lambda torch: torch.get_num_interop_threads(), only_at_end=True),
    Package("tensorflow", _EAGER, _of_tensorflow("intra_op_parallelism_threads"), "tensorflow", True),
    Package("tensorflow-interop", _EAGER, _of_tensorflow("inter_op_parallelism_threads"), "tensorflow", True),
)


def ready(name: str) -> Any:
    """Return a module that the target has completely imported, else ``None``."""
    module = sys.modules.get(name)
    if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
        return None
    return module


def version_of(module: Any) -> str:
    """Return a module's ``__version__`` as a plain `str`; empty without one."""
    version = getattr(module, "__version__", "")
    return str.__str__(version) if isinstance(version, str) else ""


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _is_torch_s(path: str) -> bool:
    return "/torch/lib/lib" in path


def _kmp_has_started() -> bool:
    """Whether LLVM's or Intel's OpenMP was used: it registers itself under the pid."""
    name = "__KMP_REGISTERED_LIB_%d" % os.getpid()
    if os.environ.get(name):
        return True
    try:
        return any(entry.startswith(name) for entry in os.listdir("/dev/shm"))
    except OSError:
        return False
