"""Which environment variables size which library's pool of threads, and which of them holds.

Used where pools are recorded (to say where a size came from) and where advice names the variables that would
change it. Knows names and their order only; reads no environment of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

_OPENMP = ("OMP_NUM_THREADS",)

#: Library to its variables, the one that holds first. Tried with OpenBLAS 0.3.31, PyTorch 2.13, MKL 2026,
#: numexpr 2.14, numba 0.68 and OpenCV 5; PyTorch's order is that of its MKL.
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

#: Libraries that never take more threads than there are CPUs, whatever their variable says.
CAPPED = frozenset(("openblas", "mkl", "torch", "numba"))

#: Pools that wait for graphs to run, and do no arithmetic themselves.
NOT_BUSY = frozenset(("torch-interop", "tensorflow-interop"))


def holding_variable(library: str, environment: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the variable that sizes a library's pool in this environment, and the number that it asks for.

    A value that is no positive number is as good as none: the libraries pass over it.
    """
    for name in POOL_VARIABLES.get(library, ()):
        number = whole_number(environment.get(name, ""))
        if number:
            return name, number
    return None


def whole_number(text: str) -> int | None:
    """Read the first number of ``4`` or of OpenMP's ``4,2`` (one for each level of nesting)."""
    first = text.partition(",")[0].strip()
    # isdigit() alone is true of "²" too, and int() refuses very long ones.
    return int(first) if first.isascii() and first.isdigit() and len(first) < 10 else None
