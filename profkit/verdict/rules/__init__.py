"""All rules, in the order of evaluation; of about equal findings, the first is named."""

from __future__ import annotations

from profkit.verdict.rule import Rule
from profkit.verdict.rules import (
    blocked,
    code_change,
    contention,
    data_starvation,
    environment,
    faster,
    garbage_collection,
    gpu_waits,
    interpreter_lock,
    no_change,
    slower_machine,
    start_up,
    thread_settings,
    undecided,
    workload_change,
)

__all__ = ["RULES", "RULES_ALONE", "RULES_OF_ESTIMATES"]

#: Rules of a comparison.
RULES: tuple[Rule, ...] = (
    no_change.IDENTICAL,
    environment.SLOWING_SETTINGS,
    workload_change.CALL_COUNTS,
    code_change.CHANGED_SOURCE,
    workload_change.OTHER_FUNCTION,
    code_change.CALLS_PER_CALL,
    code_change.ONE_FUNCTION,
    workload_change.ONE_LIBRARY_FUNCTION,
    start_up.WORKER_IMPORTS,
    start_up.PROCESS_STARTS,
    contention.THROTTLING,
    contention.RUN_QUEUE_WAIT,
    thread_settings.FEWER_WORKERS,
    workload_change.MORE_PROGRAMS,
    blocked.CHILDREN,
    blocked.LOCKED,
    thread_settings.FEWER_THREADS,
    thread_settings.FEWER_PYTHON_THREADS,
    start_up.IMPORTS,
    start_up.COMPILING,
    environment.OTHER_LIBRARY_CODE,
    workload_change.MORE_CALLS,
    workload_change.LONGER_LOOPS,
    workload_change.MORE_RANGES,
    data_starvation.LOADING,
    interpreter_lock.GIL,
    garbage_collection.COLLECTIONS,
    gpu_waits.SHARED,
    gpu_waits.CHANGED_CODE,
    gpu_waits.MORE_WORK,
    blocked.READING,
    blocked.OFF_CPU,
    contention.SHARED_HARDWARE,
    contention.MORE_STARTED,
    contention.QUOTA_LUMPS,
    blocked.WAITS,
    blocked.STOPPED,
    contention.STARVED_REPEATS,
    contention.STARVED,
    slower_machine.SLOWER_CPU,
    thread_settings.MORE_THREADS,
    workload_change.LARGER_INPUT,
    slower_machine.ONE_FACTOR,
    code_change.CHANGED_ABOVE,
    workload_change.MORE_PER_CALL,
    workload_change.SOME_MORE_PER_CALL,
    workload_change.MORE_TO_DO,
    faster.LESS_TIME,
    no_change.WITHIN_NOISE,
    no_change.SAME_TOTAL,
    no_change.NOTHING_BEYOND,
)

#: Further rules where a side was sampled, where it is known what capture added, or where a GPU worked.
RULES_OF_ESTIMATES: tuple[Rule, ...] = (
    undecided.CAPTURE_ITSELF,
    gpu_waits.UNDECIDED,
    undecided.CALLS_UNKNOWN,
)

#: Rules of one run alone: it shows what it lacked, but not what changed.
RULES_ALONE: tuple[Rule, ...] = (
    start_up.WORKER_IMPORTS_ALONE,
    start_up.PROCESS_STARTS_ALONE,
    contention.THROTTLED_ALONE,
    blocked.CHILDREN_ALONE,
    blocked.LOCKED_ALONE,
    contention.QUEUED_ALONE,
    data_starvation.LOADING_ALONE,
    interpreter_lock.GIL_ALONE,
    garbage_collection.COLLECTIONS_ALONE,
    blocked.READING_ALONE,
    blocked.STOPPED_ALONE,
    blocked.OFF_CPU_ALONE,
)
