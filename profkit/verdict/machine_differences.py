"""Whether one machine was slower: its CPU model, the instructions in use, fixed work timed in both runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from profkit.measure.side_facts import SideFacts
from profkit.verdict.thresholds import value

#: Variables that choose the instructions that libraries use.
INSTRUCTION_SETS = (
    "OPENBLAS_CORETYPE",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_CBWR",
    "MKL_SERVICE_FORCE_INTEL",
    "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES",
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "TF_ENABLE_ONEDNN_OPTS",
    "OPENCV_CPU_DISABLE",
    "BLIS_ARCH_TYPE",
    "NUMBA_CPU_NAME",
    "NUMBA_CPU_FEATURES",
    "GLIBC_TUNABLES",
)


#: Relative scatter of fixed work above which its time says nothing; only damaged files have as much.
_NOTHING_KNOWN = 100.0


@dataclass(frozen=True, slots=True)
class Fixed:
    """CPU seconds of one fixed piece of work on both sides.

    `scatter` (at least 1) is the factor by which readings may differ, if `measured`: older files lack it.
    """

    name: str
    before_s: float
    after_s: float
    scatter: float
    measured: bool

    @property
    def factor(self) -> float:
        """The candidate's seconds over the baseline's."""
        return self.after_s / self.before_s

    @property
    def beyond(self) -> float:
        """The factor beyond the scatter, at least 1."""
        return max(1.0, self.factor / self.scatter)


def fixed_work(a: SideFacts, b: SideFacts) -> tuple[Fixed, ...]:
    """Return the work timed on both sides, greatest slow-down of the candidate first; none with several hosts."""
    found: list[Fixed] = []
    if _several_hosts(a, b):
        return ()
    for name, before in a.yardsticks.items():
        after = b.yardsticks.get(name)
        if after is None:
            continue
        if before.scatter is None or after.scatter is None:
            measured, scatter = False, value("yardstick.scatter")
        else:
            scatter = math.exp(min(math.hypot(before.scatter, after.scatter), _NOTHING_KNOWN))
            measured = True
        found.append(Fixed(name, before.seconds, after.seconds, scatter, measured))
    return tuple(sorted(found, key=lambda one: -one.factor))


def one_machine(a: SideFacts, b: SideFacts) -> bool:
    """Return whether both ran on one host, with the same CPU model and instructions."""
    return (
        bool(a.host)
        and a.host == b.host
        and not _several_hosts(a, b)
        and not models_differ(a, b)
        and not other_instructions(a, b)
    )


def _several_hosts(a: SideFacts, b: SideFacts) -> bool:
    """Return whether a side ran on hosts of which only the launcher's is known."""
    return max(len(a.inventory.hosts), len(b.inventory.hosts)) > 1


def models_differ(a: SideFacts, b: SideFacts) -> bool:
    return bool(a.cpu_model and b.cpu_model) and a.cpu_model != b.cpu_model


def other_instructions(a: SideFacts, b: SideFacts) -> tuple[tuple[str, str, str], ...]:
    """Return the variables of `INSTRUCTION_SETS` that differ: name, before and after."""
    pairs = ((name, a.environment.get(name, ""), b.environment.get(name, "")) for name in INSTRUCTION_SETS)
    return tuple(pair for pair in pairs if pair[1] != pair[2])
