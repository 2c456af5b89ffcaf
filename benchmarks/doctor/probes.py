"""How each library is asked how many threads, or processes, it starts by itself: a snippet that prints the number.

A library that says the size is asked. Of one that does not, threads are counted by their names when it has worked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_COUNT = """
import os
def threads(*names):
    found = [open(f"/proc/self/task/{t}/comm").read().strip() for t in os.listdir("/proc/self/task")]
    return sum(any(name.startswith(n) for n in names) for name in found)
"""
_OPENBLAS = """
import numpy
from threadpoolctl import threadpool_info
print(next(row["num_threads"] for row in threadpool_info() if row["internal_api"] == "openblas"))
"""
#: Its threads of one operation have the name of the process, those that run graphs are called tf_Compute.
_TENSORFLOW = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
before = threads("python")
a = tf.random.normal((2000, 2000))
tf.function(lambda a: a @ a + tf.nn.relu(a))(a)
"""
_JAX = """
import jax, jax.numpy as jnp
a = jnp.ones((2000, 2000))
jax.jit(lambda x: jnp.sin(x) @ x)(a).block_until_ready()
"""
_LIBRARY = """
import ctypes, glob, sys
def library(pattern):
    return ctypes.CDLL(sorted(glob.glob(f"{sys.prefix}/lib/{pattern}"))[0])
"""
_DUCKDB = """
import duckdb
print(duckdb.sql("select current_setting('threads')").fetchall()[0][0])
"""


@dataclass(frozen=True, slots=True)
class Probe:
    """How one library is asked.

    Attributes
    ----------
    package
        Distribution whose version is recorded; empty for the interpreter itself.
    code
        Prints one number.
    variables
        Tried one by one, and in pairs; with the text that asks for N threads, if it is not the number alone.
    """

    package: str
    code: str
    variables: Mapping[str, str]


def _plain(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "{n}")


PROBES: Mapping[str, Probe] = {
    "openblas": Probe(
        "numpy",
        _OPENBLAS,
        _plain("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OPENBLAS_DEFAULT_NUM_THREADS", "OMP_NUM_THREADS"),
    ),
    "libgomp": Probe(
        "scikit-learn",
        "import ctypes, glob, os, sklearn\n"
        "folder = os.path.dirname(os.path.dirname(sklearn.__file__)) + '/scikit_learn.libs/libgomp*'\n"
        "print(ctypes.CDLL(glob.glob(folder)[0]).omp_get_max_threads())",
        _plain("OMP_NUM_THREADS", "OMP_THREAD_LIMIT"),
    ),
    "libiomp5": Probe(
        "intel-openmp",
        _LIBRARY + "print(library('libiomp5.so').omp_get_max_threads())",
        _plain("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "KMP_HW_SUBSET"),
    ),
    "mkl": Probe(
        "mkl",
        _LIBRARY + "print(library('libmkl_rt.so*').MKL_Get_Max_Threads())",
        _plain("MKL_NUM_THREADS", "OMP_NUM_THREADS"),
    ),
    "blis": Probe(
        "blis",
        _COUNT
        + "import numpy, blis.py\nbefore = len(os.listdir('/proc/self/task'))\n"
        + "blis.py.gemm(numpy.ones((1500, 1500)), numpy.ones((1500, 1500)))\n"
        + "print(1 + len(os.listdir('/proc/self/task')) - before)",
        _plain("BLIS_NUM_THREADS", "OMP_NUM_THREADS"),
    ),
    "numexpr": Probe(
        "numexpr",
        "import numexpr; print(numexpr.utils.get_num_threads())",
        _plain("NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS", "NUMEXPR_MAX_THREADS"),
    ),
    "opencv": Probe(
        "opencv-python-headless",
        "import cv2; print(cv2.getNumThreads())",
        _plain("OPENCV_FOR_THREADS_NUM", "OMP_NUM_THREADS"),
    ),
    "torch": Probe(
        "torch",
        "import torch; print(torch.get_num_threads())",
        _plain("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OMP_THREAD_LIMIT"),
    ),
    "torch-interop": Probe(
        "torch",
        "import torch; print(torch.get_num_interop_threads())",
        _plain("OMP_NUM_THREADS", "MKL_NUM_THREADS"),
    ),
    "tensorflow": Probe(
        "tensorflow",
        _COUNT + _TENSORFLOW + "print(threads('python') - before)",
        _plain("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS", "NPROC"),
    ),
    "tensorflow-interop": Probe(
        "tensorflow",
        _COUNT + _TENSORFLOW + "print(threads('tf_Compute'))",
        _plain("TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"),
    ),
    "xla": Probe(
        "jax",
        _COUNT + _JAX + "print(threads('tf_XLAEigen'))",
        {
            **_plain("NPROC", "OMP_NUM_THREADS"),
            "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads={n}",
        },
    ),
    "numba": Probe(
        "numba",
        "import numba; print(numba.get_num_threads())",
        _plain("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"),
    ),
    "polars": Probe(
        "polars",
        "import polars; print(polars.thread_pool_size())",
        _plain("POLARS_MAX_THREADS", "RAYON_NUM_THREADS"),
    ),
    "duckdb": Probe("duckdb", _DUCKDB, _plain("OMP_NUM_THREADS", "DUCKDB_THREADS")),
    "arrow": Probe(
        "pyarrow",
        "import pyarrow; print(pyarrow.cpu_count())",
        _plain("OMP_NUM_THREADS", "OMP_THREAD_LIMIT"),
    ),
    "arrow-io": Probe(
        "pyarrow",
        "import pyarrow; print(pyarrow.io_thread_count())",
        _plain("ARROW_IO_THREADS", "OMP_NUM_THREADS"),
    ),
    "scikit-learn": Probe(
        "scikit-learn",
        "from sklearn.utils._openmp_helpers import _openmp_effective_n_threads as n; print(n())",
        _plain("OMP_NUM_THREADS", "LOKY_MAX_CPU_COUNT"),
    ),
    "joblib": Probe(
        "joblib",
        "import joblib; print(joblib.effective_n_jobs(-1))",
        _plain("LOKY_MAX_CPU_COUNT", "PYTHON_CPU_COUNT"),
    ),
    "multiprocessing": Probe(
        "",
        "import multiprocessing as m\nif __name__ == '__main__':\n    with m.Pool() as p: print(p._processes)",
        _plain("PYTHON_CPU_COUNT"),
    ),
    "process-executor": Probe(
        "",
        "from concurrent.futures import ProcessPoolExecutor as P; print(P()._max_workers)",
        _plain("PYTHON_CPU_COUNT"),
    ),
    "thread-executor": Probe(
        "",
        "from concurrent.futures import ThreadPoolExecutor as P; print(P()._max_workers)",
        _plain("PYTHON_CPU_COUNT"),
    ),
    "os.cpu_count": Probe("", "import os; print(os.cpu_count())", _plain("PYTHON_CPU_COUNT")),
    "torch-loader": Probe(
        "torch",
        "from torch.utils.data import DataLoader as L; print(L([1]).num_workers)",
        _plain("OMP_NUM_THREADS"),
    ),
    "keras-workers": Probe(
        "keras",
        "import os\nos.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'\n"
        "import keras; print(keras.utils.PyDataset().workers)",
        _plain("OMP_NUM_THREADS"),
    ),
}
