"""Every code of a notice with its sentence, which names its numbers and their units; renderers escape the texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from string import Formatter
from typing import Any, NamedTuple

from profkit.model.notices import WHERE, Notice
from profkit.report import units
from profkit.report.text import clean

#: Units of numbers: their types, and how they are spelled. Texts have none, or the kind by which they are masked.
_UNITS: Mapping[str, tuple[type | tuple[type, ...], Callable[[Any], str]]] = {
    **dict.fromkeys(("", "file", "path", "host", "python", "label"), (str, str)),
    "count": (int, "{:,}".format),
    "bytes": (int, lambda value: f"{value / 2**30:.3g} GiB"),
    "s": ((int, float), units.seconds),
    "Hz": ((int, float), "{:g}".format),
    "CPUs": ((int, float), "{:g}".format),
    "share": ((int, float), units.share),  # of a whole, 0 to 1
    "factor": ((int, float), units.factor),  # times as much
    "ids": (tuple, str),  # integers that name something: ranks, processes
}

_COMPILER = "install a C compiler, then profkit again"
_NO_NOISE = (
    "which does not show its own noise: the noise of other programs' repeats is used; capture several with "
    "--repeat"
)

#: Templates by code; of several, the first one whose names are all known is used. Names in braces are ``subject``,
#: phrases, and the notice's numbers with their unit, or with a noun if they count something. A code never changes
#: its meaning; a new meaning gets a new code.
SENTENCES: Mapping[str, str | tuple[str, ...]] = {
    # From a run file that was written when warnings were sentences.
    "text": "{subject}",
    "agent-failed": "profkit's agent failed, so the record may be incomplete: {subject}",
    "not-cpython": "functions are not profiled: this is {subject}, and profkit profiles CPython",
    "free-threaded": (
        "functions are not profiled: this is a free-threaded build of Python {python}, whose stacks an older "
        "profkit could not read; capture again"
    ),
    "calls-not-counted": (
        "calls are not counted, and times of functions are sampled: this is a free-threaded build of Python {python}"
    ),
    "snapshots-not-written": "some snapshots could not be written ({subject}); a later record has their data",
    "tables-full": (
        "there was no room for its functions in the spool directory (a full disk, or `ulimit -f`): {some} are missing"
    ),
    "forks-unrecorded": (
        "{forks:process|processes} that it forked could record nothing, for example after a change of user or on a "
        "full disk: what they ran is not in this run"
    ),
    "no-samples": "every call was traced, whatever the overhead: stacks of this Python cannot be sampled here",
    "tracer-missing": (
        "profkit has no compiled tracer for Python {python}: functions were not recorded, only "
        "counters; with a C compiler, `profkit doctor --build-tracers python{python}` builds one"
    ),
    "subinterpreters": "it created subinterpreters: functions run in them are not in this run, only counters",
    "no-snapshots": "snapshots were not possible: had the process been killed, its data would be lost",
    "functions-throttled": (
        "{functions:function was|functions were} called so often that counting exceeded the overhead budget: "
        "later calls and their time are part of the callers; --overhead off counts all"
    ),
    "profile-function-replaced": (
        "the program, or a profiler that it uses, replaced profkit's profile function: functions are not "
        "recorded from then on (up to Python 3.11, only in that thread)"
    ),
    "waiting-sampled": (
        "waiting was sampled about {rate:Hz} times a second, not traced: the waiting of a Python function and of "
        "the C functions it calls is divided in proportion to their times"
    ),
    "waiting-sampling-failed": "sampling of waiting ended early ({subject}): waiting after that is missing",
    "nvtx-patched": (
        "NVTX ranges were recorded by patching the nvtx package, since profkit's compiled collector is missing: "
        f"ranges of C and C++ code (PyTorch, CuPy, NCCL) are not in this run; {_COMPILER}"
    ),
    "nvtx-not-patchable": (
        "NVTX ranges are not in this run: profkit's compiled collector is missing, and this version of the nvtx "
        f"package cannot be patched; {_COMPILER}"
    ),
    "torch-nvtx-shimmed": (
        "torch.cuda.nvtx was recorded by profkit (--nvtx-shim): this PyTorch was built without CUDA, and its calls "
        "fail without profkit"
    ),
    "torch-emit-nvtx": (
        "torch.autograd.profiler.emit_nvtx did nothing (--nvtx-shim): ranges of operators need a PyTorch with CUDA"
    ),
    "own-cprofile": "{own_cprofile}",
    "killed-by-signal": "killed by {subject}; {exactly_after}",
    "exited-unrecorded": (
        "ended with exit code {status:count}, and without a last record, as when C code ends a process; "
        "{exactly_after}"
    ),
    "last-record-failed": "its last record could not be written ({subject}); {exactly_after}",
    "replaced-unrecorded": "another program replaced it (exec) from outside Python; {after}",
    "worker-unrecorded": "worker ended without a last record, as when multiprocessing.Pool ends its workers; {after}",
    "ended-unrecorded": "ended without a last record, for an unknown reason; {after}",
    "end-unknown": "left no last record, and whether it still runs cannot be seen from here; {after}",
    "process-running": "{running}",
    "process-unrecorded": (
        "its functions are not in this run: its records could not be written ({subject})",
        "its functions are not in this run: it was profiled, but wrote no record",
    ),
    "threads-in-one-stack": "{one_stack}",
    "capture-running": (
        "still running: {so_far_s:s} so far; this run is what its processes have done until now",
        "profkit capture still runs: this run is what the processes have written until now",
    ),
    "capture-unfinished": (
        "profkit capture ended before it could write its final data (it was killed, or its disk was full): "
        "exit status and duration of the command are not known, and this run is what the processes had "
        "written"
    ),
    "records-elsewhere": (
        "records of processes are not in this run: they are in {subject:path} on {host:host}; merge there",
        "records of processes are not in this run: they are in {subject:path} where it ran; merge there",
    ),
    "no-record": (
        "no process left a record, so no functions are in this run: the command starts no Python, starts it "
        "without profkit's variables (python -I, -E or -S, env -i, a remote host without this file system) "
        "or as another user, or it ended while Python started"
    ),
    "windows-captured": (
        "captured in {windows:window|windows}: {captured_s:s} of {whole_s:s}; functions, NVTX ranges, counters "
        "and the wall time cover only that"
    ),
    "window-not-reached": (
        "the window never opened: it should have opened after {delay_s:s} (--delay), but the command ended "
        "after {whole_s:s}; no functions are in this run"
    ),
    "window-range-missing": (
        "the window never opened: no NVTX range {range} began (--capture-range); no functions are in this run. "
        "Compare the name with those under NVTX ranges, and leave @DOMAIN out if in doubt"
    ),
    "window-steps-missing": (
        "the window never opened: {step} often enough; the first {steps:step was|steps were} not over "
        "(--wait, --warmup); no functions are in this run"
    ),
    "window-not-started": (
        "the window never opened: the program should have opened it (--start-paused), but called neither "
        "profkit.start() nor profkit.window(); no functions are in this run. Check that profkit is installed "
        "in its environment"
    ),
    "windows-not-followed": (
        "its functions are not in this run: only the compiled tracer can start and stop within a run, but "
        f"there is none for this interpreter; {_COMPILER}"
    ),
    "ranks-selected": "functions were captured in ranks {subject} only (--ranks); others have only counters",
    "ranks-absent": (
        "no process had one of the ranks {subject} (--ranks), so no functions are in this run: ranks are "
        "counted from 0"
    ),
    "counters-only": "functions were not captured (--counters-only): this run has only kernel counters",
    "record-unreadable": "record {subject:file} cannot be read ({problem}) and is left out",
    "rank-missing": (
        "{missing:rank|ranks} of {size:count} left no record ({listed}); for ranks on other hosts, start profkit in "
        "each rank (mpirun … profkit capture -- python …) and join the files with profkit merge"
    ),
    "ranks-of-steps": (
        "the ranks of {steps:count} Slurm steps are in this run as if they were one job: capture each step "
        "separately"
    ),
    "nvtx-missing": (
        "NVTX ranges are not in this run: profkit's NVTX collector was not built here; on Linux, install a C "
        "compiler, then profkit again"
    ),
    "nvtx-other-tool": (
        "another tool receives the NVTX ranges (NVTX_INJECTION64_PATH is {subject:path}): they are not in this run; "
        "unset the variable to record them"
    ),
    "nvtx-disabled": (
        "NVTX_DISABLE is set (to {subject}): annotate and push_range of the nvtx package do nothing; unset it to "
        "record their ranges"
    ),
    "nvtx-file-unreadable": "the NVTX ranges in {subject:file} are left out ({problem})",
    "nvtx-file-cut": "only the first {read:bytes} of NVTX events were read",
    "nvtx-events-lost": (
        "{events:NVTX event was|NVTX events were} lost: the disk was full, or the limit per process was reached "
        "(1 GiB; PROFKIT_NVTX_BYTES sets another)"
    ),
    "nvtx-events-damaged": "{events:NVTX event is|NVTX events are} damaged and left out",
    "nvtx-names-folded": (
        "too many different names of NVTX ranges: in {events:event|events}, the numbers in the name are replaced "
        "by {{n}}"
    ),
    "nvtx-names-unreadable": (
        "the file with the names of the NVTX ranges cannot be read ({subject}): the names are lost",
        "the file with the names of the NVTX ranges is damaged: the names are lost",
    ),
    "nvtx-names-damaged": "{blocks:block|blocks} of damaged NVTX range names in {subject:file}: names are lost",
    "samples-unreadable": "the sampler's data cannot be read ({subject}) and is left out",
    "samples-not-saved": (
        "the sampler's data could not be saved at the end ({subject}): counters of the last seconds, or "
        "all of them, are missing"
    ),
    "attached": (
        "taken from a running program: this run covers {seconds:s}, which is its wall time; what the program "
        "did before and after is not in it"
    ),
    "attach-not-python": "it is not a Python program: counters only",
    "attach-not-traced": (
        "functions were not traced: Python {python}: {subject}",
        "functions were not traced: {subject}",
    ),
    "attach-not-reached": (
        "functions were not traced: the main thread of the process ran no Python code in that time"
    ),
    "attach-sampled": (
        "functions were sampled by py-spy, {rate:Hz} times a second, which took {share:share} of a CPU",
        "functions were sampled by py-spy, {rate:Hz} times a second",
    ),
    "attach-samples-lost": (
        "up to {share:share} of the samples failed, since functions returned while their stacks were read: those "
        "with many calls are under-represented"
    ),
    "attach-no-sampler": (
        "functions were not sampled: py-spy is not installed (pip install 'profkit[attach]'): counters only"
    ),
    "attach-not-sampled": "functions were not sampled (py-spy: {subject}): counters only",
    "attach-begins": "recording for {seconds:s}; what the program did before is not recorded",
    "attach-samples": (
        "functions are sampled by py-spy, about {rate:Hz} times a second: this shows their shares of the time, "
        "but not how often they are called or what they wait for; Python 3.14 and newer can be traced"
    ),
    "attach-counters-only": "only kernel counters are recorded, no functions",
    "sampler-no-proc": "there is no /proc on this system: threads, pressure and load were not sampled",
    "sampler-not-started": "the sampler did not start: {subject}",
    "sampler-stopped": "the sampler ended early: {subject}",
    "sampler-no-schedstat": "this kernel does not report how long threads queued for a CPU (schedstat)",
    "sampler-no-pressure": "this kernel does not report CPU pressure (PSI)",
    "samples-thinned": "many threads, or a long run: every second sample was dropped {times:time|times}",
    "processes-not-listed": "{processes:short process is|short processes are} not listed ({cpu_s:s} of CPU)",
    "threads-not-followed": "{threads:thread was|threads were} not followed: too many at once",
    "cpu-unseen": "{cpu_s:s} of CPU time was used by processes too short to be seen, or while processes ended",
    "gpu-package-missing": "GPUs were not sampled: install profkit with its extra `gpu` (nvidia-ml-py)",
    "gpu-not-sampled": "GPUs were not sampled: NVML reports {subject}",
    "gpu-sampling-stopped": "GPUs were sampled until NVML reported {subject}",
    "file-skipped": ("{subject:file}: {problem} ({hint})", "{subject:file}: {problem}"),
    "ranks-on-hosts": "ranks ran on {hosts:host|hosts}: the machine's counters are those of the first rank's host",
    "rank-file-missing": (
        "no file for {missing:rank|ranks} of {size:count} ({listed}); merge the files of all ranks"
    ),
    "sampled-profile": (
        "written by a sampling profiler: counts are samples, not calls, and times are samples × sampling "
        "interval"
    ),
    "foreign-samples": (
        (
            "stacks ({subject}): calls and waiting of functions are not known; the file does not give the "
            "sampling rate: seconds assume {assumed:Hz} samples a second, shares are right in any case"
        ),
        "stacks ({subject}): calls and waiting of functions are not known",
    ),
    "foreign-trace": (
        "a trace of {subject}: calls and times are those of the traced part; tracing lengthens short functions"
    ),
    "pure-python-profile": (
        "written by the pure-Python profiler: caller–callee rows have counts but no times, and the profiler's own "
        "cost distorts the others"
    ),
    "trailing-bytes": "ignored {bytes:byte|bytes} after the profile",
    "same-capture": "one capture is on both sides, to the last bit: this compares a file with itself",
    "one-side-sampled": (
        "the {subject} was sampled, the other side traced: functions are compared by their share of the time, shown "
        "in seconds of the baseline's total; calls, time per call and how much longer a side took are not compared"
    ),
    "both-sides-sampled": (
        "both sides were sampled: functions are compared by their share of the time, shown in seconds of the "
        "baseline's total; calls, time per call and how much longer a side took are not compared"
    ),
    "one-side-mixes-threads": (
        "the {subject} has all threads in one stack, the other side does not: capture both with profkit"
    ),
    "cumulative-times-only": (
        "the {subject} has cumulative times only: a function's own time cannot be separated from that of its callees"
    ),
    "one-process-compared": (
        "the other side holds one process only: of the {subject}'s {processes:process|processes}, only the first is "
        "compared"
    ),
    "python-differs": (
        "Python {baseline:python} against {candidate:python}: library functions differ, and comprehensions are "
        "folded into their callers"
    ),
    "cpu-model-differs": "CPU model {baseline:label} against {candidate:label}",
    "host-differs": "host {baseline:host} against {candidate:host}",
    "cpus-differ": "{baseline:CPUs} available CPUs against {candidate:CPUs}",
    "command-differs": "command “{baseline}” against “{candidate}”",
    "process-count-differs": "{baseline:process|processes} against {candidate:count}",
    "calls-differ": "the candidate makes {calls:factor} the baseline's calls where the time is spent",
    "functions-folded": (
        "{functions:function is|functions are} compared as part of the callers: a capture stopped counting "
        "such calls, which exceeded its overhead budget"
    ),
    "native-functions-folded": (
        "{functions:native function is|native functions are} compared as part of the callers: sampled stacks "
        "may not show them"
    ),
    "functions-of-one-side": "{self_time:share} of the {subject}'s self time is in functions that only it has",
    "single-run": (f"the {{subject}} is one run, {_NO_NOISE}", f"each side is one run, {_NO_NOISE}"),
}


# Phrases of sentences, which combine several numbers


def _listed(ids: tuple[int, ...], total: int) -> str:
    return ", ".join(map(str, ids)) + (", …" if total > len(ids) else "")


def _own_cprofile(said: Mapping[str, Any]) -> str:
    often = f" {said['times']:,} times," if said["times"] > 1 else ""
    begin, end = units.seconds(said["begin_s"]), "its end"
    if "end_s" in said:
        end = f"{units.seconds(said['end_s'])} after its start"
    return (
        f"the program used a profiler of its own{often} from {begin} to {end}: what ran then is in that "
        "profile, not in this run"
    )


def _after_record(said: Mapping[str, Any], *, exact: bool = False) -> str:
    """Return what is missing from the record of a process that ran on after it."""
    several = len(said["pids"]) > 1
    if "kept" in said:
        kept = "their functions are complete" if several else "its functions are complete"
        # Samples are booked when the GIL is free.
        return f"{kept}, except for a native call that held the GIL at the end" if "sampled" in said else kept
    if "lost_s" not in said:
        lost = "what came after its newest record is missing"
    elif several:
        lost = f"functions of at most the last {units.seconds(said['lost_s'])} of each are missing"
    else:
        lost = (
            f"functions of {'' if exact else 'at most '}its last {units.seconds(said['lost_s'])} are missing"
        )
    if "cpu_s" in said:
        cpu = units.seconds(said["cpu_s"])
        lost += f" ({'' if exact else 'at least '}{cpu} of CPU{' in all' if several else ''})"
    return lost + _estimated(said)


def _estimated(said: Mapping[str, Any]) -> str:
    return ", and calls that had not returned have estimated times" if "estimated" in said else ""


def _process_running(said: Mapping[str, Any]) -> str:
    since = ""
    if "lost_s" in said:
        used = f" (at least {units.seconds(said['cpu_s'])} of CPU)" if "cpu_s" in said else ""
        at_most = "at most " if len(said["pids"]) > 1 else ""
        since = f", {at_most}{units.seconds(said['lost_s'])}{used} after its newest record"
    if "kept" in said:
        return "still running when the run file was written: what came after that is missing"
    return f"still running when the run file was written{since}: what came after that is missing{_estimated(said)}"


def _range_in_domain(said: Mapping[str, Any]) -> str:
    where = ""
    if "domain" in said:
        where = f" of the domain “{said['domain']}”" if said["domain"] else " of the default domain"
    return f"“{said['subject']}”{where}"


def _step(said: Mapping[str, Any]) -> str:
    if said["subject"]:
        return f"no NVTX range {_range_in_domain(said)} (--step-range) began"
    return "the program did not call profkit.step()"


def _threads_in_one_stack(said: Mapping[str, Any]) -> str:
    if said["pids"]:  # otherwise another tool made the profile
        return (
            f"several threads ran under Python {said['python']}, where cProfile records all threads in one "
            "stack: times of functions are not reliable; install a C compiler, then profkit again: its "
            "tracer keeps threads apart"
        )
    return (
        f"cProfile of Python {said['python']} records all threads in one stack: times are not reliable, and "
        "cumulative times can exceed the run; profkit capture keeps threads apart"
    )


class Phrase(NamedTuple):
    """What combines several numbers, which it names with their units; ``?`` marks one that may be absent."""

    says: Callable[[Mapping[str, Any]], str]
    numbers: Mapping[str, str]


#: `lost_s`: time from a process's newest record to its end, the longest of all processes. `cpu_s`: their CPU
#: time in that period. `estimated`: processes whose open calls have estimated times. `kept`: processes of which
#: nothing is missing; `sampled`: those of them that were sampled, so that a last native call may be missing.
_UNRECORDED = {"lost_s": "s?", "cpu_s": "s?", "estimated": "count?", "kept": "count?", "sampled": "count?"}
_DOMAIN = {"domain": "?"}  # empty for the default domain, absent for any

PHRASES: Mapping[str, Phrase] = {
    "after": Phrase(_after_record, _UNRECORDED),
    "exactly_after": Phrase(lambda said: _after_record(said, exact=True), _UNRECORDED),
    "running": Phrase(_process_running, _UNRECORDED),
    "own_cprofile": Phrase(_own_cprofile, {"times": "count", "begin_s": "s", "end_s": "s?"}),
    "one_stack": Phrase(_threads_in_one_stack, {"python": "python"}),
    "range": Phrase(_range_in_domain, _DOMAIN),
    "step": Phrase(_step, _DOMAIN),
    "listed": Phrase(
        lambda said: _listed(said["ranks"], said["missing"]), {"ranks": "ids", "missing": "count"}
    ),
    "some": Phrase(
        lambda said: "some" if said.get("functions", 1) else "all of them", {"functions": "count?"}
    ),
}


class _Sentence(Formatter):
    def get_value(self, name: int | str, _: Any, said: Mapping[str, Any]) -> Any:
        return PHRASES[str(name)].says(said) if name in PHRASES else said[str(name)]

    def format_field(self, value: Any, unit: str) -> str:
        one, sign, many = unit.partition("|")
        return units.counted(value, one, many) if sign else _UNITS[unit][1](value)


@cache
def names_of(template: str) -> Mapping[str, str]:
    """Return the names in braces, those of phrases replaced by what they name, with their units."""
    found: dict[str, str] = {}
    for _, name, unit, _ in Formatter().parse(template):
        if name and name in PHRASES:
            found.update(PHRASES[name].numbers)
        elif name:
            found[name] = "count" if unit and "|" in unit else unit or ""
    return found


def _templates(code: str) -> tuple[str, ...]:
    found = SENTENCES[code]
    return (found,) if isinstance(found, str) else found


def units_of(code: str) -> dict[str, str]:
    """Return the units of a notice's subject and numbers; ``?`` marks a number that may be absent."""
    several = [names_of(template) for template in _templates(code)]
    found = {name: unit for names in several for name, unit in names.items()}
    always = {"subject", *set.intersection(*map(set, several))}
    return {name: unit if name in always else f"{unit}?" for name, unit in {**found, **WHERE}.items()}


def is_complete(notice: Notice) -> bool:
    """Return whether the code is known, and each required number is present and of its unit's type."""
    values = {**notice.numbers, "subject": notice.subject}
    return notice.code in SENTENCES and all(
        _has(values, name, unit) for name, unit in units_of(notice.code).items()
    )


def _has(values: Mapping[str, Any], name: str, unit: str) -> bool:
    if name not in values:
        return unit.endswith("?")
    value = values[name]
    if isinstance(value, tuple) and not all(isinstance(item, int) for item in value):
        return False
    return isinstance(value, _UNITS[unit.rstrip("?")][0])


def notice_text(notice: Notice) -> str:
    """Return a notice as one sentence without a full stop; codes of later versions are spelled out."""
    numbers = notice.numbers
    if not is_complete(notice):
        figures = ", ".join(f"{name} {value}" for name, value in numbers.items())
        return ": ".join(part for part in (notice.code, notice.subject, figures) if part)
    said = {"pids": (), **numbers, "subject": notice.subject}
    templates = _templates(notice.code)
    known = {*numbers, *(["subject"] if notice.subject else [])}
    always = set.intersection(*(set(names_of(one)) for one in templates))
    template = next((one for one in templates if names_of(one).keys() - always <= known), templates[-1])
    return _where(numbers) + _Sentence().vformat(template, (), said)


def notice_texts(notices: Iterable[Notice]) -> list[str]:
    return [clean(notice_text(notice)) for notice in notices]


def _where(numbers: Mapping[str, Any]) -> str:
    file = f"{numbers['file']}: " if numbers.get("file") else ""
    pids = numbers.get("pids", ())
    if not pids:
        return file
    total = max(len(pids), numbers.get("pids_total", 0))
    if total == 1:
        return f"{file}process {pids[0]}: "
    return f"{file}{total:,} processes ({_listed(pids, total)}): "
