"""Which limits each library honours, as `python -m benchmarks.doctor measure` found it.

Written by that command, not by hand; what could not be measured is in `doctor_libraries`.
"""

from __future__ import annotations

from profkit.study.doctor_types import Honours, Variable

#: When, and on what.
DATE = "2026-11-22"
MACHINE = "2 CPUs, Linux 6.18.44"

MEASURED = (
    Honours("libgomp", "scikit-learn 1.9.1", True, "", (), (Variable("OMP_NUM_THREADS", ""),)),
    Honours("libiomp5", "intel-openmp 2026.2.0", True, "", (), (Variable("OMP_NUM_THREADS", ""),)),
    Honours("blis", "blis 1.3.4", False, "", (), ()),
    Honours(
        "numexpr",
        "numexpr 2.14.2",
        False,
        "",
        (),
        (
            Variable("NUMEXPR_NUM_THREADS", ""),
            Variable("OMP_NUM_THREADS", ""),
            Variable("NUMEXPR_MAX_THREADS", ""),
        ),
    ),
    Honours(
        "opencv",
        "opencv-python-headless 5.0.0.93",
        True,
        "floor",
        ("v1", "v2"),
        (Variable("OPENCV_FOR_THREADS_NUM", ""),),
    ),
    Honours("torch-interop", "torch 2.13.0", False, "", (), ()),
    Honours("xla", "jax 0.12.0.1", True, "", (), (Variable("NPROC", ""),)),
    Honours("numba", "numba 0.68.1", True, "", (), (Variable("NUMBA_NUM_THREADS", ""),)),
    Honours(
        "polars", "polars 2.1.0", True, "floor", ("nested", "v1", "v2"), (Variable("POLARS_MAX_THREADS", ""),)
    ),
    Honours("duckdb", "duckdb 2.0.0", False, "ceil", ("nested", "v1", "v2"), ()),
    Honours(
        "multiprocessing", "Python 3.13.0", True, "", (), (Variable("PYTHON_CPU_COUNT", ""),), python=">=3.13"
    ),
    Honours(
        "process-executor",
        "Python 3.13.0",
        True,
        "",
        (),
        (Variable("PYTHON_CPU_COUNT", ""),),
        python=">=3.13",
    ),
    Honours(
        "thread-executor", "Python 3.13.0", True, "", (), (Variable("PYTHON_CPU_COUNT", ""),), python=">=3.13"
    ),
    Honours(
        "os.cpu_count", "Python 3.13.0", False, "", (), (Variable("PYTHON_CPU_COUNT", ""),), python=">=3.13"
    ),
    Honours("torch-loader", "torch 2.13.0", False, "", (), ()),
    Honours("keras-workers", "keras 3.15.1", False, "", (), ()),
    Honours("multiprocessing", "Python 3.11.7", False, "", (), (), python="<3.13"),
    Honours("process-executor", "Python 3.11.7", False, "", (), (), python="<3.13"),
    Honours("thread-executor", "Python 3.11.7", False, "", (), (), python="<3.13"),
    Honours("os.cpu_count", "Python 3.11.7", False, "", (), (), python="<3.13"),
    Honours("tensorflow", "tensorflow 2.21.0", True, "", (), (Variable("TF_NUM_INTRAOP_THREADS", ""),)),
    Honours(
        "tensorflow-interop", "tensorflow 2.21.0", True, "", (), (Variable("TF_NUM_INTEROP_THREADS", ""),)
    ),
    Honours(
        "openblas",
        "numpy 2.5.5",
        True,
        "",
        (),
        (
            Variable("OPENBLAS_NUM_THREADS", "default"),
            Variable("OPENBLAS_DEFAULT_NUM_THREADS", "default"),
            Variable("GOTO_NUM_THREADS", "default"),
            Variable("OMP_NUM_THREADS", "default"),
        ),
    ),
    Honours(
        "mkl",
        "mkl 2026.2.0",
        True,
        "",
        (),
        (Variable("MKL_NUM_THREADS", "machine"), Variable("OMP_NUM_THREADS", "machine")),
    ),
    Honours(
        "torch",
        "torch 2.13.0",
        True,
        "",
        (),
        (Variable("MKL_NUM_THREADS", "machine"), Variable("OMP_NUM_THREADS", "machine")),
    ),
    Honours(
        "arrow",
        "pyarrow 26.0.1",
        True,
        "",
        (),
        (Variable("OMP_NUM_THREADS", ""), Variable("OMP_THREAD_LIMIT", "default")),
    ),
    Honours(
        "scikit-learn",
        "scikit-learn 1.9.1",
        True,
        "ceil",
        ("v1", "v2"),
        (Variable("OMP_NUM_THREADS", ""), Variable("LOKY_MAX_CPU_COUNT", "default")),
    ),
    Honours(
        "joblib",
        "joblib 1.6.0",
        True,
        "ceil",
        ("v1", "v2"),
        (Variable("LOKY_MAX_CPU_COUNT", "default"), Variable("PYTHON_CPU_COUNT", "default")),
    ),
    Honours("arrow-io", "pyarrow 26.0.1", False, "", (), (Variable("ARROW_IO_THREADS", ""),)),
)
