"""How libraries and Python size their pools, and which limits they honour.

``python -m benchmarks.doctor measure --write`` writes ``doctor_table.json``; `DOCUMENTED` lists what has no wheel.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources

from profkit.formats.codec import Codec


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable that sizes a pool, up to `cap`.

    `cap`: ``default`` (the size without it), ``machine`` (its CPUs, whatever the affinity), or empty.
    """

    name: str
    cap: str


@dataclass(frozen=True, slots=True)
class Honours:
    """Which limits a library honours; of its `variables`, the first one that is set decides.

    `python`: ``<3.13`` or ``>=3.13`` if it matters. `quota`: its rounding (``ceil``, ``floor``, ``round``),
    empty if ignored. `views`: where it finds the quota: ``v1`` and ``v2`` in a container, ``nested`` in a
    group below the root that it sees. `source`: ``measured``, or an address.
    """

    library: str
    version: str
    affinity: bool = False
    quota: str = ""
    views: tuple[str, ...] = ()
    variables: tuple[Variable, ...] = ()
    python: str = ""
    source: str = "measured"


@dataclass(frozen=True, slots=True)
class Library:
    """A library, or a default of Python, that starts threads or processes; named as in `profkit.model.Pool`.

    It starts one per ``cpu`` or ``core`` plus `plus`, at most `most`; ``fixed`` starts `plus`. `computes`:
    its threads count as load. `automatic`: it starts them without being called. `files`: parts of its file
    names, checked because a package may contain another library.
    """

    name: str
    packages: tuple[str, ...]
    starts: str = "threads"
    per: str = "cpu"
    plus: int = 0
    most: int | None = None
    computes: bool = True
    automatic: bool = True
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Measured limits, with date and machine."""

    date: str
    machine: str
    limits: tuple[Honours, ...]


TABLE = Codec(Table).read(
    "table", json.loads((resources.files("profkit.study") / "doctor_table.json").read_bytes())
)

LIBRARIES = (
    Library("openblas", ("numpy", "scipy"), files=("openblas",)),
    Library("mkl", ("mkl", "numpy", "torch"), per="core", files=("libmkl_rt",)),
    Library("blis", ("blis",), per="fixed", plus=1),
    Library("libgomp", ("scikit-learn", "torch", "numpy", "scipy"), files=("libgomp",)),
    Library("libiomp5", ("intel-openmp", "mkl", "torch"), files=("libiomp5",)),
    # numexpr's documentation: as many as CPUs, at most 16 unless NUMEXPR_MAX_THREADS is set.
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
        source="github.com/chainer/chainer, chainer/iterators/multiprocess_iterator.py",
    ),
    Honours(
        "blis",
        "BLIS 2.0 with threads",
        variables=(Variable("BLIS_NUM_THREADS", cap=""), Variable("OMP_NUM_THREADS", cap="")),
        source="github.com/flame/blis, docs/Multithreading.md",
    ),
)


def honours_of(library: str, python: str) -> Honours:
    """Return what is known of a library's limits under a Python version such as ``3.11.7``."""
    late = tuple(int(part) for part in python.split(".")[:2] if part.isdigit()) >= (3, 13)
    wanted = ("", ">=3.13" if late else "<3.13")
    for row in (*TABLE.limits, *DOCUMENTED):
        if row.library == library and row.python in wanted:
            return row
    return Honours(library, "", source="")
