"""Advice in words: commands to paste, and sentences for the rest."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence

from profkit.report import units
from profkit.report.document import Block, Bullets
from profkit.report.text import clean
from profkit.report.wording.evidence import value_text
from profkit.report.wording.functions import display_name, location
from profkit.verdict.types import Advice

#: A command's words, and a remark; either may be empty.
_Line = tuple[tuple[str, ...], str]


def _command(advice: Advice) -> tuple[str, ...]:
    return (*(advice.argv or ("python", "your_script.py")), *advice.files)


def _capture(advice: Advice, output: str, *options: str) -> tuple[str, ...]:
    return ("profkit", "capture", *options, "-o", f"{output}.prof", "--", *_command(advice))


def _start_fewer(a: Advice) -> str:
    n = a.numbers
    cpus = units.cpus(float(n["cpus"] or 0.0))
    text = f"{n['processes']} processes share {cpus}: start at most {n['most']} of them"
    if n.get("workers") and n["workers"] != n["most"]:
        text += ", the one that starts the others included"
    if a.subject:
        text += f"; workers: {a.subject}{_place(a)}"
    elif n.get("workers"):
        text += f"; workers: DataLoader(…, num_workers={n['workers']}), Pool(processes={n['workers']})"
    return text


def _place(a: Advice) -> str:
    if a.where is None:
        return ""
    name = a.where.qualname
    # A module's line is its first one, not that of the call.
    in_module = name == "<module>"
    where = location(a.where, "", 0 if in_module else a.line)
    return f", in {where}" if in_module else f", in {display_name(name)}, {where}"


def _own_threads(a: Advice) -> str:
    where = f", mostly in {display_name(a.subject)}" if a.subject else ""
    return (
        f"more threads run than the pools of its libraries have{where}: set its own number of threads "
        f"(num_threads, n_jobs or the like) to {a.numbers['cpus']}"
    )


def _not_the_code(a: Advice) -> str:
    n = a.numbers
    before, after = (units.seconds(float(n[side] or 0.0)) for side in ("before", "after"))
    return (
        f"optimising {display_name(a.subject)} would not help: a call takes as much CPU time as before "
        f"({before} → {after}); it waited {units.seconds(float(n['queued'] or 0.0))} for CPUs"
    )


def _more_runs(a: Advice) -> str | _Line:
    runs = a.numbers["runs"]
    if a.argv:
        then = "then: profkit diff 'baseline*.prof' 'candidate*.prof'" if a.subject == "candidate" else ""
        return _capture(a, a.subject, "--repeat", str(runs)), then
    return f"{units.counted(int(runs or 0), 'more run')} per side: profkit capture --repeat {runs} …"


#: What to do about a wait, by what was waited for.
_AWAIT: Mapping[str, str] = {
    "lock": "{} waits for a lock or for a thread to end: hold it for less time, or do other work meanwhile",
    "child": "{} waits for a child process: see what the child does, or start it earlier",
    "pipe": "{} waits for the other end of a pipe: see why that process is slow to write to it, or to read",
    "socket": "{} waits for the other end of a socket: see why it answers late, or ask for more at once",
    "file": "{} waits for files: read less, read ahead, or use faster storage",
    "disk": "{} waits for the disk: read less, read ahead, or use faster storage",
    "write": "{} waits for what it writes: write or synchronise less often (one transaction for many rows), or use "
    "faster storage",
    "sleep": "{} sleeps: wait for what it sleeps for instead",
    "poll": "{} waits for descriptors to be ready, or for a timer (asyncio.sleep): see what should write to them, "
    "and whether more can be waited for at once",
    "device": "{} waits for a device, such as a terminal or a GPU",
    "stopped": "the whole process was stopped: by a signal (SIGSTOP, Ctrl-Z, a debugger), with its container, or "
    "with the machine",
}

#: Where just-in-time compilers keep what they compiled.
_CACHES: Mapping[str, str] = {
    "numba": "cache=True and NUMBA_CACHE_DIR",
    "torch": "TORCHINDUCTOR_CACHE_DIR, TORCH_EXTENSIONS_DIR",
    "jax": "JAX_COMPILATION_CACHE_DIR",
    "triton": "TRITON_CACHE_DIR",
}


def _keep_compiled(a: Advice) -> str:
    where = f": {_CACHES[a.subject]}" if a.subject in _CACHES else ""
    return f"keep compiled code in a writable directory that persists{where}, or run it once before"


def _limit(a: Advice) -> str:
    limit = a.numbers.get("limit")
    return "" if limit is None else f": its container is limited to {value_text('bytes', limit)}"


#: What to do, by the kind of advice: a remark, or a command with one. In templates, names are numbers of the advice.
ADVICE: Mapping[str, str | Callable[[Advice], str | _Line]] = {
    "limit-threads": lambda a: (_capture(a, "limited"), ""),
    "edit-code": lambda a: f"the program itself sets this; change it there: {a.subject}{_place(a)}",
    "start-fewer": _start_fewer,
    "more-cpus": lambda a: (
        _capture(a, "more-cpus"),
        f"it was bound to {a.numbers['cpus']:g} of {a.numbers['machine']} CPUs",
    ),
    "unbind": (
        "the program is bound to {cpus:g} of the {machine} CPUs that it was given: look for taskset in its command, "
        "os.sched_setaffinity, OMP_PROC_BIND, or a library that binds threads"
    ),
    "give-cpus": "its own work fills the {cpus:g} CPUs that it may use: give it more",
    "own-threads": _own_threads,
    "not-the-code": _not_the_code,
    "list-processes": lambda a: (_command(a), "shows what else uses CPUs"),
    "gpu-processes": lambda a: (_command(a), "shows which processes use the GPUs"),
    "capture-idle": lambda a: (_capture(a, "quiet"), "on an idle or exclusive node"),
    "look-at-quota": lambda a: (_command(a), "raise the quota; this shows it"),
    "within-quota": lambda a: (_capture(a, "within-quota"), ""),
    "capture-side": lambda a: (_capture(a, a.subject), ""),
    "run-to-end": lambda a: (_capture(a, a.subject), "until it ends without an error"),
    "capture-exact": lambda a: (_capture(a, a.subject, "--exact"), "counts every call"),
    "capture-sampled": lambda a: (_capture(a, a.subject, "--sampled"), "adds little wall time"),
    "more-runs": _more_runs,
    "same-settings": lambda a: (
        _capture(a, "same-settings"),
        "with the settings of the baseline: if the difference goes away, they are its cause",
    ),
    "keep-compiled": _keep_compiled,
    "compare-libraries": lambda a: (
        _command(a),
        "on both sides: is its compiled part installed, and which variables select another implementation?",
    ),
    "warm-files": "read the files ahead or in other threads, or from faster storage",
    "warm-baseline": (
        "if the baseline's files were in memory only because it was not the first run, capture it again"
    ),
    "more-memory": lambda a: (
        f"give it more memory{_limit(a)}, or let it need less: smaller files, or fewer of them at a time; memory "
        "that programs do not use keeps the files that were read"
    ),
    "compile-once": (
        "run it once more: the byte code should exist by then. If that is as slow, unset PYTHONDONTWRITEBYTECODE, or "
        "compile the packages once as their owner: python -m compileall"
    ),
    "compare-inputs": "compare runs with equal options, inputs, epochs and batch sizes",
    "git-log": lambda a: (_command(a), f"what changed in {a.subject}"),
    "lscpu": lambda a: (_command(a), "on both machines"),
    "show-workers": lambda a: (_command(a), "which workers are busy, and for how long"),
    "await": lambda a: _AWAIT.get(str(a.numbers.get("what")), "{} waits").format(display_name(a.subject)),
    "child-commands": lambda a: (_command(a), "lists their command lines, under Processes"),
    "show-waiting": lambda a: (_command(a), "shows where it waited"),
    "verify": lambda a: (_command(a), "tries the first of these that can be run, against the original run"),
    "start-once": lambda a: (
        "start workers once and keep them (persistent_workers=True, one Pool for all), start fewer, or use fork"
        + (f"; import {a.subject} only where it is used" if a.subject else "")
    ),
    "release-gil": lambda a: (
        f"run {display_name(a.subject)} in another process, or in C code that releases the interpreter's lock"
    ),
    "collect-less": (
        "call gc.collect() and gc.freeze() after the set-up, raise gc.set_threshold, or keep fewer objects that "
        "refer to others"
    ),
    "fewer-python-threads": (
        "use fewer Python threads, or a free-threaded build; for shorter turns, use sys.setswitchinterval"
    ),
    "more-threads": "start as many threads as the baseline: {before} that run Python, not {after}",
    "more-workers": "start as many workers as the baseline: {before} processes at once, not {after}",
    "more-loaders": "use more loader workers, or load faster: CPUs were free",
}
#: Filters for the output of commands that a person reads.
_FILTERS: Mapping[str, str] = {"list-processes": " | head -15", "lscpu": " | grep -E 'Model name|MHz'"}


def advice_text(advice: Advice) -> str:
    words, remark = _line(advice)
    settings = "".join(f"{name}={shlex.quote(value)} " for name, value in advice.env.items())
    command = f"{settings}{shlex.join(words)}{_FILTERS.get(advice.kind, '')}" if words else ""
    said = f"# {remark}" if remark else ""
    return clean("  ".join(part for part in (command, said) if part))


def _line(advice: Advice) -> _Line:
    words: tuple[str, ...] = ()
    said = ADVICE[advice.kind]
    remark = said.format_map(advice.numbers) if isinstance(said, str) else said(advice)
    if isinstance(remark, tuple):
        words, remark = remark
    if math.isfinite(advice.predicted_gain_s) and advice.predicted_gain_s > 0:
        most, least = advice.predicted_gain_s, advice.least_gain_s
        gain = f"should save {units.from_to(least, most, 'to') if least else f'up to {units.seconds(most)}'}"
        remark = f"{remark}; {gain}" if remark else gain
    return words, remark


def advice_command(advice: Advice) -> tuple[tuple[str, ...], str]:
    """Return the command's words (empty if the advice is no command), and why to run it."""
    words, remark = _line(advice)
    return words, clean(remark or "capture it again like this, and compare")


def advice_blocks(advice: Sequence[Advice]) -> tuple[Block, ...]:
    return (Bullets(tuple(map(advice_text, advice)), commands=True),)
