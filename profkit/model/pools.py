"""Environment variables that size the thread pools of libraries, and their precedence."""

from __future__ import annotations

from collections.abc import Mapping

_OPENMP = ("OMP_NUM_THREADS",)

#: Variables by library, in order of precedence. Tried with OpenBLAS 0.3.31, PyTorch 2.13, MKL 2026, numexpr
#: 2.14, numba 0.68 and OpenCV 5; PyTorch's order is that of its MKL.
POOL_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "openblas": (
        "OPENBLAS_NUM_THREADS",
        "GOTO_NUM_THREADS",
        "OPENBLAS_DEFAULT_NUM_THREADS",
        "OMP_NUM_THREADS",
    ),
    "libgomp": _OPENMP,
    "libomp": _OPENMP,
    "libiomp5": _OPENMP,
    "mkl": ("MKL_NUM_THREADS", "OMP_NUM_THREADS"),
    "blis": ("BLIS_NUM_THREADS", "OMP_NUM_THREADS"),
    "torch": ("MKL_NUM_THREADS", "OMP_NUM_THREADS"),
    "opencv": ("OPENCV_FOR_THREADS_NUM",),
    "numexpr": ("NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS", "NUMEXPR_MAX_THREADS"),
    "numba": ("NUMBA_NUM_THREADS",),
    "polars": ("POLARS_MAX_THREADS",),
    "tensorflow": ("TF_NUM_INTRAOP_THREADS",),
    "tensorflow-interop": ("TF_NUM_INTEROP_THREADS",),
}

#: Libraries that never use more threads than CPUs, whatever their variable says.
CAPPED = frozenset(("openblas", "mkl", "torch", "numba"))

#: Pools that run graphs and do no arithmetic themselves.
NOT_BUSY = frozenset(("torch-interop", "tensorflow-interop"))


def holding_variable(library: str, environment: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the variable in effect for a library's pool, and its number.

    Values that are not positive numbers are ignored, as the libraries do.
    """
    for name in POOL_VARIABLES.get(library, ()):
        number = whole_number(environment.get(name, ""))
        if number:
            return name, number
    return None


def whole_number(text: str) -> int | None:
    """Read the first number of ``4`` or of OpenMP's ``4,2`` (one per nesting level)."""
    first = text.partition(",")[0].strip()
    # isdigit() accepts "²" too, and int() refuses very long numbers.
    return int(first) if first.isascii() and first.isdigit() and len(first) < 10 else None
