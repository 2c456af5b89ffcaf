"""List the libraries and defaults that `profkit doctor` knows, and limits that were not measured.

Measured limits are in `doctor_table`, which a benchmark writes. `DOCUMENTED` has, with sources, what could
not be measured since there is no wheel for a current Python.
"""

from __future__ import annotations

from profkit.study.doctor_table import MEASURED
from profkit.study.doctor_types import Honours, Library, Variable

LIBRARIES = (
    Library("openblas", ("numpy", "scipy"), files=("openblas",)),
    Library("mkl", ("mkl", "numpy", "torch"), per="core", files=("libmkl_rt",)),
    Library("blis", ("blis",), per="fixed", plus=1),
    Library("libgomp", ("scikit-learn", "torch", "numpy", "scipy"), files=("libgomp",)),
    Library("libiomp5", ("intel-openmp", "mkl", "torch"), files=("libiomp5",)),
    # numexpr's documentation: as many as CPUs, at most 16 unless NUMEXPR_MAX_THREADS says otherwise.
    Library("numexpr", ("numexpr",), most=16),
    Library(
        "opencv",
        (
            "opencv-python",
            "opencv-python-headless",
            "opencv-contrib-python",
            "opencv-contrib-python-headless",
        ),
    ),
    Library("torch", ("torch",), per="core"),
    Library("torch-interop", ("torch",), per="core", computes=False),
    Library("tensorflow", ("tensorflow", "tensorflow-cpu")),
    Library("tensorflow-interop", ("tensorflow", "tensorflow-cpu"), computes=False),
    Library("xla", ("jaxlib",)),
    Library("numba", ("numba",)),
    Library("polars", ("polars",)),
    Library("duckdb", ("duckdb",)),
    Library("arrow", ("pyarrow",)),
    Library("arrow-io", ("pyarrow",), per="fixed", plus=8, computes=False),
    Library("scikit-learn", ("scikit-learn",), per="core"),
    Library("joblib", ("joblib",), starts="processes", automatic=False),
    Library("multiprocessing", (), starts="processes", automatic=False),
    Library("process-executor", (), starts="processes", automatic=False),
    # concurrent.futures.ThreadPoolExecutor: min(32, CPUs + 4).
    Library("thread-executor", (), plus=4, most=32, computes=False, automatic=False),
    Library("torch-loader", ("torch",), starts="processes", per="fixed", automatic=False),
    Library("keras-workers", ("keras",), starts="processes", per="fixed", plus=1, automatic=False),
    Library("chainer-iterator", ("chainer",), starts="processes", automatic=False),
)

DOCUMENTED = (
    Honours(
        "chainer-iterator",
        "chainer 7.8.1",
        affinity=False,
        quota="",
        views=(),
        variables=(),
        source="github.com/chainer/chainer, chainer/iterators/multiprocess_iterator.py",
    ),
    Honours(
        "blis",
        "BLIS 2.0 with threads",
        affinity=False,
        quota="",
        views=(),
        variables=(Variable("BLIS_NUM_THREADS", cap=""), Variable("OMP_NUM_THREADS", cap="")),
        source="github.com/flame/blis, docs/Multithreading.md",
    ),
)


def honours_of(library: str, python: str) -> Honours:
    """Return what is known of a library's limits under a Python version such as ``3.11.7``."""
    late = tuple(int(part) for part in python.split(".")[:2] if part.isdigit()) >= (3, 13)
    wanted = ("", ">=3.13" if late else "<3.13")
    found = [row for row in (*MEASURED, *DOCUMENTED) if row.library == library and row.python in wanted]
    return (
        found[0]
        if found
        else Honours(library, "", affinity=False, quota="", views=(), variables=(), source="")
    )
