"""How many CPUs a process may use, and who limits them: kernel, cgroup, batch system, launcher of ranks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from profkit.capture.agent import process_facts
from profkit.capture.agent.machine import CGROUPS, cgroup_directories, quota_cpus
from profkit.capture.agent.settings import is_number
from profkit.capture.host import physical_cores

_CPUS = Path("/sys/devices/system/cpu")
_NODES = Path("/sys/devices/system/node")
#: Files that a container engine leaves, and its name.
_MARKS = (("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman"))
#: Variables that an engine sets in its containers, and its name; if empty, the value is the name.
_CONTAINER_VARIABLES = (
    ("KUBERNETES_SERVICE_HOST", "Kubernetes"),
    ("APPTAINER_CONTAINER", "Apptainer"),
    ("SINGULARITY_NAME", "Singularity"),
    ("container", ""),
)
#: Variables that say how many ranks are on this machine, with the launcher that sets them.
_LOCAL_RANKS = (
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "Open MPI"),
    ("MPI_LOCALNRANKS", "MPICH (Hydra)"),
    ("MV2_COMM_WORLD_LOCAL_SIZE", "MVAPICH"),
    ("LOCAL_WORLD_SIZE", "torchrun"),
)
#: Variables with the binding policy of Open MPI, versions 4 and 5.
_POLICIES = ("OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy")


@dataclass(frozen=True, slots=True)
class Ranks:
    """The job that a process is a rank of; `here` is 1 if unknown, `bound`: each rank has its own CPUs."""

    launcher: str
    here: int
    bound: bool
    policy: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a process may use; ``None`` or empty if unlimited or unknown.

    `affinity` and `cpuset` are CPU numbers, `affinity_cores` the physical cores of the affinity. `quota_view`
    is ``v1`` or ``v2`` if the quota is set on the root that the process sees, as in a container, ``nested``
    if on a group below. `slurm` are the CPUs granted to the task, and the variable that says so.
    """

    cpus: int
    cores: int | None = None
    sockets: int | None = None
    nodes: int | None = None
    affinity: tuple[int, ...] = ()
    affinity_cores: int | None = None
    cpuset: tuple[int, ...] | None = None
    quota_cpus: float | None = None
    quota_view: str = ""
    slurm: tuple[int, str] | None = None
    ranks: Ranks | None = None
    container: str = ""

    @property
    def allowed(self) -> int:
        """Return the number of CPUs in the affinity; all CPUs if it is unknown."""
        return len(self.affinity) or self.cpus

    @property
    def effective(self) -> float:
        """Return the CPUs that the process can use: the least of all limits."""
        slurm = (float(self.slurm[0]),) if self.slurm is not None else ()
        quota = (self.quota_cpus,) if self.quota_cpus else ()
        return min(float(self.cpus), float(self.allowed), *slurm, *quota)


def read_limits(environ: Mapping[str, str]) -> Limits:
    """Return the limits of the calling process, whose environment is `environ`."""
    affinity = tuple(process_facts.affinity())
    cpus = _online()
    cpuset = _cpuset()
    quota, view = _quota()
    cores = {cpu: _core(cpu) for cpu in affinity}
    return Limits(
        cpus=cpus,
        cores=physical_cores(),
        sockets=_sockets(),
        nodes=len(list(_NODES.glob("node[0-9]*"))) or None,
        affinity=affinity,
        affinity_cores=len(set(cores.values())) if affinity and None not in cores.values() else None,
        cpuset=cpuset,
        quota_cpus=quota,
        quota_view=view,
        slurm=slurm_cpus(environ),
        # All ranks share the CPUs of a container or an allocation: that is no binding.
        ranks=ranks_of(environ, len(affinity) or cpus, len(cpuset or ()) or cpus),
        container=container_of(environ),
    )


def cpu_list(text: str) -> tuple[int, ...] | None:
    """Parse a list of CPUs as the kernel writes it, ``0-3,8`` (cpuset(7)); ``None`` for anything else."""
    numbers: set[int] = set()
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (is_number(first) and is_number(last)) or max(len(first), len(last)) > 6:
            return None
        numbers.update(range(int(first), int(last) + 1))
    return tuple(sorted(numbers))


def slurm_cpus(environ: Mapping[str, str]) -> tuple[int, str] | None:
    """Return the CPUs that Slurm granted to this task, and the variable that says so (sbatch(1), srun(1))."""
    if "SLURM_JOB_ID" not in environ and "SLURM_JOBID" not in environ:
        return None
    in_step = "SLURM_STEP_ID" in environ and "SLURM_PROCID" in environ
    for name in (("SLURM_CPUS_PER_TASK",) if in_step else ()) + ("SLURM_CPUS_ON_NODE", "SLURM_CPUS_PER_TASK"):
        number = _number(environ.get(name, ""))
        if number:
            return number, name
    return None


def ranks_of(environ: Mapping[str, str], allowed: int, cpus: int) -> Ranks | None:
    """Return the job of a rank; `allowed` < `cpus` (its cpuset) is a binding, unless the launcher binds nothing."""
    policy = next((environ[name] for name in _POLICIES if environ.get(name)), "")
    slurm_policy = environ.get("SLURM_CPU_BIND_TYPE") or environ.get("SLURM_CPU_BIND", "")
    # torchrun may be started by others, one on each node.
    inner = _LOCAL_RANKS[::-1] if "TORCHELASTIC_RUN_ID" in environ else _LOCAL_RANKS
    for name, launcher in inner:
        here = _number(environ.get(name, ""))
        if here:
            # torchrun's ranks share what it was given, whoever narrowed that.
            binds = launcher != "torchrun" and not policy.startswith("none")
            return Ranks(launcher, here, allowed < cpus and binds, policy)
    if "SLURM_STEP_ID" in environ and "SLURM_PROCID" in environ:
        # "4(x2),3": tasks of each node. This node's entry is unknown, so take the most.
        tasks = environ.get("SLURM_STEP_TASKS_PER_NODE") or environ.get("SLURM_TASKS_PER_NODE", "")
        numbers = [_number(part.partition("(")[0]) or 1 for part in tasks.split(",")]
        return Ranks("Slurm", max(numbers), allowed < cpus and "none" not in slurm_policy, slurm_policy)
    for name, launcher in (("PMIX_RANK", "PMIx"), ("PMI_RANK", "PMI"), ("RANK", "torchrun")):
        if _number(environ.get(name, "")) is not None:
            return Ranks(launcher, 1, allowed < cpus, policy)
    return None


def container_of(environ: Mapping[str, str]) -> str:
    """Return the name of the container engine around this process, empty for none."""
    for name, engine in _CONTAINER_VARIABLES:
        if environ.get(name):
            return engine or environ[name][:20]
    for path, engine in _MARKS:
        if os.path.exists(path):
            return engine
    return ""


def _online() -> int:
    """Return the online CPUs; ``os.cpu_count()`` obeys PYTHON_CPU_COUNT (Python 3.13)."""
    try:
        return os.sysconf("SC_NPROCESSORS_ONLN")
    except (AttributeError, ValueError, OSError):
        return os.cpu_count() or 1


def _number(text: str) -> int | None:
    return int(text) if is_number(text) else None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _core(cpu: int) -> str | None:
    """Return the list of CPUs that share a physical core, as the name of that core."""
    topology = _CPUS / f"cpu{cpu}" / "topology"
    return (_read(topology / "core_cpus_list") or _read(topology / "thread_siblings_list")).strip() or None


def _sockets() -> int | None:
    found = {_read(path).strip() for path in _CPUS.glob("cpu[0-9]*/topology/physical_package_id")}
    return len(found - {""}) or None


def _cpuset() -> tuple[int, ...] | None:
    for directory in cgroup_directories("cpuset"):
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus"):
            allowed = cpu_list(_read(Path(directory, name)))
            if allowed:
                return allowed
    return None


def _quota() -> tuple[float | None, str]:
    """Return the least quota, and where a library must look for it (`Limits.quota_view`)."""
    directories = cgroup_directories("cpu")
    quota = quota_cpus(directories)
    if quota is None:
        return None, ""
    nearest = next(directory for directory in directories if quota_cpus([directory]) == quota)
    second = os.path.exists(nearest + "/cpu.max")
    outermost = nearest in (CGROUPS, CGROUPS + "/unified") if second else os.path.dirname(nearest) == CGROUPS
    return quota, "nested" if not outermost else "v2" if second else "v1"
