"""Define the variables, file names and formats that the agent and the launcher share."""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Dict, Iterable, Mapping, Optional, Tuple


#: Directory that agents write to; an agent runs only if it is set.
SPOOL_VARIABLE = "PROFKIT_SPOOL"

#: If set to anything, neither the tracer nor the NVTX collector is used.
DISABLE_NATIVE_VARIABLE = "PROFKIT_NO_NATIVE"

#: Directory of user-built tracers (`native.load`); absent without one.
TRACERS_VARIABLE = "PROFKIT_TRACERS"

#: Share of a process's time that the tracer may take, as a decimal number; 0 for no limit, or the word below
#: to sample stacks from the start.
OVERHEAD_VARIABLE = "PROFKIT_OVERHEAD"
SAMPLES_ONLY = "sampled"

DEFAULT_OVERHEAD = 0.05

#: The kernel's name of the tracer's own threads, which are not the program's (``native/tracer/sampler.c``). They are
#: told by their numbers, and by this name where they ended unseen.
TRACER_THREAD = "profkit-tracer"

#: Path of the NVTX collector for a PyTorch without CUDA; absent to leave its functions alone.
TORCH_NVTX_VARIABLE = "PROFKIT_TORCH_NVTX"

#: NVTX's variable for the tool that it loads, and profkit's file name.
INJECTION_VARIABLE = "NVTX_INJECTION64_PATH"
NVTX_LIBRARY = "libprofkit_nvtx.so"

#: Part of the run to capture (`window_asked`); absent for all of it.
WINDOW_VARIABLE = "PROFKIT_WINDOW"

#: Ranks to trace, as ``0,4-7``; absent for all.
RANKS_VARIABLE = "PROFKIT_RANKS"

#: In the spool directory: file that wakes the sampler when a window opens or closes, and suffix of the file
#: with one machine's windows.
SAMPLER_BELL = "sampler.bell"
WINDOWS_SUFFIX = ".windows"

#: Version of the records in a spool directory, see docs/format.md; version 1 had no header.
RECORD_FORMAT = 2

#: Version of the launcher's samples there.
SAMPLES_FORMAT = 3

#: Suffix of complete record files; a file being written has another.
RECORD_SUFFIX = ".record"

#: In the spool of ``profkit attach``: the file whose removal stops agents, and suffixes of the files, named
#: by pid, that say that a process is traced and why it is not.
ATTACHED_NAME = "attached"
TRACED_SUFFIX = ".traced"
REFUSED_SUFFIX = ".refused"

#: Suffix of an empty file, named by pid, of a process that made further interpreters; written by
#: ``inject/sitecustomize.py``.
SUBINTERPRETER_SUFFIX = ".subinterpreter"

#: Suffix of the file in the spool directory that names a machine with a sampler.
SAMPLED_SUFFIX = ".sampled"

#: Suffix of a link in the spool directory to a local disk of that machine, used if the spool is on a network
#: file system, which may block a process.
LOCAL_SUFFIX = ".local"

#: Suffix of the file with the tracer's event costs on a machine, see `event_costs.take_out_costs`.
COSTS_SUFFIX = ".costs"
#: Suffixes of the mark that a process of one interpreter, sampled at start-up, leaves for later ones, and of that of
#: a forked child.
COSTLY_STARTS_SUFFIX = ".costly-starts"
COSTLY_FORKS_SUFFIX = "-forked" + COSTLY_STARTS_SUFFIX

#: Default seconds between two snapshots of a process.
USUAL_INTERVAL = 1.5

#: Share of a CPU that snapshots may take.
SNAPSHOT_SHARE = 0.01

#: Seconds until the first look at a process with mapped tables, when it knows its import path, and at a
#: forked one, which differs from its parent at once.
FIRST_LOOK, FIRST_LOOK_FORKED = 0.02, 0.002

#: Variables that set or reveal the size of a thread or process pool, or where a process may run. Only these
#: are recorded: an environment holds secrets.
RECORDED_VARIABLES = frozenset(
    """
    OMP_NUM_THREADS OMP_THREAD_LIMIT OMP_DYNAMIC OMP_PROC_BIND OMP_PLACES OMP_WAIT_POLICY OMP_SCHEDULE
    OMP_MAX_ACTIVE_LEVELS OMP_NESTED OMP_STACKSIZE GOMP_CPU_AFFINITY GOMP_SPINCOUNT
    KMP_AFFINITY KMP_BLOCKTIME KMP_HW_SUBSET KMP_SETTINGS KMP_DUPLICATE_LIB_OK
    MKL_NUM_THREADS MKL_DOMAIN_NUM_THREADS MKL_DYNAMIC MKL_THREADING_LAYER MKL_SERVICE_FORCE_INTEL
    OPENBLAS_NUM_THREADS OPENBLAS_DEFAULT_NUM_THREADS OPENBLAS_CORETYPE OPENBLAS_MAIN_FREE GOTO_NUM_THREADS
    BLIS_NUM_THREADS VECLIB_MAXIMUM_THREADS ACCELERATE_NEW_LAPACK
    NUMEXPR_NUM_THREADS NUMEXPR_MAX_THREADS NUMBA_NUM_THREADS NUMBA_THREADING_LAYER
    TBB_NUM_THREADS OPENCV_FOR_THREADS_NUM OPENCV_OPENCL_RUNTIME
    TF_NUM_INTRAOP_THREADS TF_NUM_INTEROP_THREADS XLA_FLAGS RAYON_NUM_THREADS POLARS_MAX_THREADS
    TOKENIZERS_PARALLELISM LOKY_MAX_CPU_COUNT JOBLIB_TEMP_FOLDER MALLOC_ARENA_MAX
    PYTORCH_NUM_THREADS TORCH_NUM_THREADS NCCL_NSOCKS_PERTHREAD NCCL_SOCKET_NTHREADS CUDA_VISIBLE_DEVICES
    CUDA_LAUNCH_BLOCKING PYTHON_CPU_COUNT PYTHON_GIL
    RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK
    OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_LOCAL_SIZE
    OMPI_MCA_hwloc_base_binding_policy OMPI_MCA_mpi_yield_when_idle PRTE_MCA_hwloc_default_binding_policy
    PMI_RANK PMI_SIZE PMIX_RANK MPI_LOCALRANKID MPI_LOCALNRANKS I_MPI_PIN I_MPI_PIN_DOMAIN MV2_ENABLE_AFFINITY
    MV2_COMM_WORLD_RANK MV2_COMM_WORLD_SIZE MV2_COMM_WORLD_LOCAL_RANK MV2_COMM_WORLD_LOCAL_SIZE
    SLURM_PROCID SLURM_LOCALID SLURM_NODEID SLURM_NTASKS SLURM_STEP_NUM_TASKS SLURM_NNODES
    SLURM_CPUS_PER_TASK SLURM_CPUS_ON_NODE SLURM_CPU_BIND
    SLURM_JOB_CPUS_PER_NODE SLURM_THREADS_PER_CORE SLURM_STEP_ID PBS_NODENUM PBS_NUM_PPN LSB_DJOB_NUMPROC
    NVTX_INJECTION64_PATH NVTX_DISABLE
    MKL_ENABLE_INSTRUCTIONS MKL_CBWR NPY_DISABLE_CPU_FEATURES NPY_ENABLE_CPU_FEATURES
    ATEN_CPU_CAPABILITY ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA TF_ENABLE_ONEDNN_OPTS OPENCV_CPU_DISABLE BLIS_ARCH_TYPE
    NUMBA_CPU_NAME NUMBA_CPU_FEATURES GLIBC_TUNABLES PYTHONMALLOC
    PYTHONDEVMODE PYTHONTRACEMALLOC PYTHONASYNCIODEBUG PYTHONDONTWRITEBYTECODE NUMBA_DISABLE_JIT JAX_DISABLE_JIT
    PYTORCH_JIT TORCHDYNAMO_DISABLE TORCH_COMPILE_DISABLE PYTORCH_NO_CUDA_MEMORY_CACHING TORCH_DISTRIBUTED_DEBUG
    MALLOC_CHECK_ MALLOC_PERTURB_
    """.split()  # noqa: SIM905
)

#: Where launchers state rank and size, most specific first: Open MPI; Hydra (MPICH, Intel MPI) and `srun
#: --mpi=pmi2`; MVAPICH; torchrun, accelerate, DeepSpeed and Ray Train; Slurm. Slurm sets its variables in
#: batch scripts too, where they name no rank: `SLURM_STEP_ID` marks a step. An interactive step has one task,
#: whatever was allocated, so the step's own number comes first. Missing are PMIx, which sets a rank without a
#: size, and Dask and Ray, whose workers have no ranks. The packer finds Lightning's, as it sees all
#: processes.
#:
#: After the required variable come those of the local rank and of the node; the first one set counts.
#: `OMPI_COMM_WORLD_NODE_RANK` is not a node number: it counts processes of all jobs there. `GROUP_RANK` is
#: torchrun's node number, `CROSS_RANK` DeepSpeed's.
RANK_VARIABLES = (
    # Inside mpirun or srun, too, which then start one torchrun on each node.
    ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "LOCAL_RANK", "GROUP_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "", "OMPI_COMM_WORLD_LOCAL_RANK", ""),
    ("PMI_RANK", "PMI_SIZE", "", "MPI_LOCALRANKID PMI_LOCAL_RANK PALS_LOCAL_RANKID", "PALS_NODEID"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "", "MV2_COMM_WORLD_LOCAL_RANK", ""),
    ("RANK", "WORLD_SIZE", "", "LOCAL_RANK", "GROUP_RANK NODE_RANK CROSS_RANK"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", "SLURM_LOCALID", "SLURM_NODEID"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID", "SLURM_LOCALID", "SLURM_NODEID"),
)


def recorded_environment(environ: Mapping[str, str]) -> Dict[str, str]:
    return {name: value for name, value in environ.items() if name in RECORDED_VARIABLES}


def window_asked(asked: str) -> Tuple[str, Tuple[str, ...]]:
    """Return the kind of a window and its parameters; empty if the whole run is captured.

    ``time:BOOT:MONOTONIC:TIME:DELAY:DURATION`` (the launcher's boot id and clocks, in seconds, when it
    started the target), ``range:CYCLES:NAME[@DOMAIN]``, ``steps:WAIT:WARMUP:ACTIVE:CYCLES:NAME[@DOMAIN]``
    (the range may be empty), ``code:``. ``CYCLES`` is 0 without a limit.
    """
    kind, _, rest = asked.partition(":")
    return kind, tuple(rest.split(":", {"time": 4, "range": 1, "steps": 4}.get(kind, 0)))


def range_asked(text: str) -> Tuple[str, Optional[str]]:
    """Return the name and the domain of ``NAME[@DOMAIN]``; ``None`` for any domain."""
    name, at, domain = text.rpartition("@")
    return (name, None if domain == "*" else domain) if at and name else (text, None)


def ranks_asked(text: str) -> Tuple[Tuple[int, int], ...]:
    """Return the first and last rank of each part of ``0,4-7``; raise `ValueError` on other text."""
    found = []
    for part in text.split(","):
        first, dash, last = (word.strip() for word in part.partition("-"))
        if not is_number(first) or not is_number(last if dash else first) or int(last or first) < int(first):
            raise ValueError(part)
        found.append((int(first), int(last or first)))
    return tuple(found)


def is_rank_asked(text: str, environ: Mapping[str, str]) -> bool:
    """Whether the rank of an environment is to be traced; no rank counts as rank 0."""
    rank = rank_of(environ)[0]
    if rank is None:
        local, node = environ.get("LOCAL_RANK", ""), environ.get("NODE_RANK", "0")
        # Lightning's first process on a node numbers the others this way; those of other nodes get their rank
        # later.
        if is_number(local) and local != "0" and node != "0":
            return False
        rank = int(local) if is_number(local) else 0
    return any(first <= rank <= last for first, last in ranks_asked(text))


def sampled_mark(boot_id: str) -> str:
    """Return the name of the file that says that the launcher's sampler watches a machine."""
    return (boot_id or "unknown") + SAMPLED_SUFFIX


def rank_of(environ: Mapping[str, str]) -> Tuple[Optional[int], Optional[int]]:
    """Return ``(rank, world size)`` as set by the launcher; ``None`` if unset."""
    return place_of(environ)[:2]


def place_of(environ: Mapping[str, str]) -> Tuple[Optional[int], Optional[int], Optional[int], Optional[int]]:
    """Return ``(rank, world size, local rank, node)`` as set by the launcher; ``None`` for what is unset.

    The local rank counts the job's ranks on one node, `node` the job's nodes, both from 0.
    """
    found: Tuple[Optional[int], Optional[int]] = (None, None)
    local_rank = on_node = None
    for rank, size, needed, local, node in RANK_VARIABLES:
        numbers = _first_number(environ, (rank,)), _first_number(environ, (size,))
        if None in numbers or (needed and needed not in environ):
            continue
        if found[0] is None:
            found = numbers
        elif rank != "SLURM_PROCID" or numbers != found:
            continue
        # Slurm fills in what the launcher of the same rank does not say, as with `srun --mpi=pmi2`.
        local_rank = _first_number(environ, local.split()) if local_rank is None else local_rank
        on_node = _first_number(environ, node.split()) if on_node is None else on_node
    return found + (local_rank, on_node)


def _first_number(environ: Mapping[str, str], names: Iterable[str]) -> Optional[int]:
    return next((int(environ[name]) for name in names if is_number(environ.get(name, ""))), None)


def is_number(text: str) -> bool:
    """Whether a launcher could have set this number."""
    # isdigit() accepts "²", and int() refuses very long numbers.
    return text.isascii() and text.isdigit() and len(text) < 10
