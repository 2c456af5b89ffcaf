"""Every value that the rules of a comparison may read: its unit, its meaning, and its computation."""

from __future__ import annotations

from collections.abc import Mapping

from profkit.verdict.readings import (
    at_work,
    code_and_calls,
    comparable_sides,
    cost_per_call,
    cpu_queueing,
    function_times,
    given_inputs,
    library_code,
    lost_time,
    off_the_cpu,
    on_the_gpu,
)
from profkit.verdict.rule import Reading

#: Readings by what is read, in the order of docs/rules.md.
PARTS: tuple[Mapping[str, Reading], ...] = (
    comparable_sides.COMPARABLE_SIDES,
    lost_time.LOST_TIME,
    cpu_queueing.CPU_QUEUEING,
    at_work.AT_WORK,
    off_the_cpu.OFF_THE_CPU,
    on_the_gpu.ON_THE_GPU,
    code_and_calls.CODE_AND_CALLS,
    cost_per_call.COST_PER_CALL,
    given_inputs.GIVEN_INPUTS,
    library_code.LIBRARY_CODE,
    function_times.FUNCTION_TIMES,
    lost_time.SLOWDOWN,
)

READINGS: Mapping[str, Reading] = {name: reading for part in PARTS for name, reading in part.items()}
