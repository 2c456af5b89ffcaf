"""Evidence in words: what was measured, its values on both sides, what they mean; rows with bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from profkit.report import units
from profkit.report.document import Column, Measured, Row, Table
from profkit.report.listed import Listed
from profkit.report.text import clean
from profkit.report.wording.accounts import WAITED_FOR
from profkit.verdict.types import Evidence, Value


class EvidenceTexts(NamedTuple):
    signal: str
    baseline: str
    candidate: str
    says: str


def value_text(unit: str, value: Value) -> str:
    if value is None:
        return "not set" if unit == "text" else units.UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return clean(value)
    if unit == "cores":
        return f"{value:.2f} cores" if value != 1 else "1 core"
    if unit == "bytes":
        return f"{value / 1e6:,.0f} MB"
    if unit == "count" and not float(value).is_integer() and value < 100:
        return f"{value:,.2f}"
    return units.WRITTEN[unit](value) if unit in units.WRITTEN else f"{value:.2f}"


#: What is measured, by `Evidence.signal`: templates of `_words`; ``{subject}`` is the function, range or variable.
SIGNALS: Mapping[str, str] = {
    "wall": "wall time",
    "self-time": "self time of all functions",
    "main.queue": "run-queue wait of the main thread",
    "main.wait": "run-queue wait of the main thread, share of active time",
    "rank.wait": "run-queue wait of the rank that queues most, share of active time",
    "helpers.queue": "run-queue wait of all other threads and processes",
    "started.processes": "processes started",
    "started.threads": "threads started",
    "demand": "CPU demand of the whole program",
    "demand.after-start": "CPU demand of the whole program after its start",
    "pools.asked": "cores that its processes and thread pools ask for",
    "workers": "processes at once",
    "threads.python": "threads that run Python",
    "children": "CPU time of processes that it starts, most of which run {subject}",
    "children.number": "processes that it starts, most of which run {subject}",
    "children.awaited": "waiting for them, or for what they write",
    "locked": "each worker or thread waiting for a lock of the program",
    "threads.working": "threads at work",
    "pools.threads": "threads of the libraries' pools",
    "cores.used": "CPUs that the program kept busy",
    "cpu.time": "CPU time of the whole program",
    "others": "CPU used by other processes",
    "neighbours": "programs that ran while it queued",
    "steal": "CPU taken by other virtual machines (steal)",
    "pressure": "CPU pressure (PSI some)",
    "gpu": "GPU in use",
    "gpu.wait": "waiting for the GPU",
    "gpu.others": "GPU in use by other programs",
    "throttled": "throttled periods",
    "function.queue": "queueing in {subject}",
    "range.queue": "queueing in range {subject}",
    "range.count": "count of NVTX range {subject}",
    "main.off": "main thread off the CPU, not queueing",
    "worker.imports": "other processes importing {subject}",
    "reading": "reading files",
    "library.new": "library code that the baseline did not run, mostly of {subject}",
    "jit": "{subject} compiling functions",
    "storage.bytes": "read from storage, not from memory",
    "memory.refaulted": "dropped for lack of memory and needed again",
    "memory.limit": "memory limit of its container",
    "own.imports": "imports of libraries",
    "starts": "starting more processes",
    "imports.compiled": "compiling modules that had no byte code",
    "processes": "processes",
    "gil": "waiting for the interpreter's lock (GIL)",
    "gc": "garbage collection in the main thread",
    "gil.held": "threads waited while {subject} held it",
    "blocked.on": "waiting for {what}",
    "helpers.blocked-on": "{subject} in other threads and processes",
    "delivery": "main thread waiting for workers",
    "iterations.wait": "share of the iterations' time spent waiting for the loader",
    "calls": "calls, weighted by time",
    "calls.known": "time in functions whose call counts are known well enough",
    "capture": "capture overhead in the wall time",
    "calls.share": "time in functions whose calls changed",
    "loop": "calls in the loops of {subject}",
    "origin": "calls of {subject}, per call of {caller}",
    "function.calls": "calls of {subject}",
    "function.self-time": "self time of {subject}",
    "function.source": "source of {subject}",
    "function.per-call": "time per call of {subject}",
    "per-call": "CPU time per call, median over functions",
    "cpu.model": "CPU model",
    "fixed-work": "fixed work (yardsticks), median",
    "yardstick": "fixed work: {subject}",
    "variable": "{subject}",
    "memory.peak": "peak memory",
    "bytes.read": "bytes read",
    "command": "command line",
    "order.distance": "distance of the rankings",
    "order.elsewhere": "time that moved to other functions",
    "scatter": "scatter of time per call over repeats",
    "signs": "weighted signs of lost time slices",
    "lumps": "short functions that lost a time slice",
    "lumps.alike": "lost slices of about the same length",
}


def number_of(value: Value) -> float | None:
    """Return a value as a number; ``None`` for texts and unknown values."""
    return float(value) if isinstance(value, (int, float)) else None


def _number(evidence: Evidence, name: str) -> float | None:
    return number_of(evidence.numbers.get(name))


def _lines(added: float) -> str:
    return f"{abs(added):.0f} {'line' if abs(added) == 1 else 'lines'} {'more' if added > 0 else 'fewer'}"


def _pool(e: Evidence) -> str:
    origin = str(e.numbers.get("variable") or "") or {
        "default": "by default",
        "program": "set by the program",
    }.get(str(e.numbers.get("origin")), "")
    processes, threads = e.numbers.get("processes"), e.numbers.get("threads")
    many = f"{processes} × " if isinstance(processes, int) and processes > 1 else ""
    cpus = "" if e.threshold is None else f", for {units.cpus(e.threshold)}"
    return f"{many}{clean(e.subject)} {threads}{f' ({clean(origin)})' if origin else ''}{cpus}"


def _who_ran(e: Evidence) -> str:
    """Return the busiest programs: ``python3 (pid 812) 1.00 cores, nightly-backup (pid 90) 0.41``."""
    said: list[str] = []
    for place in range(int(_number(e, "named") or 0)):
        cores = _number(e, f"cores-{place}")
        if cores is None:
            break
        name, pid = clean(str(e.numbers[f"name-{place}"])), e.numbers.get(f"pid-{place}")
        name = name or "hidden processes"
        many, group = e.numbers.get(f"processes-{place}"), str(e.numbers.get(f"group-{place}") or "")
        if isinstance(many, int) and many > 1:
            name = f"{many} × {name}"
        about = [f"pid {pid}"] if pid is not None else []
        about += [clean(group)] if group else []
        about += ["including its children"] if e.numbers.get(f"children-{place}") else []
        brackets = f" ({', '.join(about)})" if about else ""
        said.append(f"{name}{brackets} {cores:.2f}{'' if said else ' cores'}")
    for name, whose in (
        ("hidden", "processes that are not visible from here"),
        ("unseen", "the kernel and short-lived processes"),
    ):
        cores = _number(e, name)
        if cores is not None:
            said.append(f"{whose} {cores:.2f}{'' if said else ' cores'}")
    return ", ".join(said)


def _words(e: Evidence) -> dict[str, str]:
    return {
        "subject": clean(e.subject),
        "caller": clean(str(e.numbers.get("caller", ""))),
        "what": WAITED_FOR.get(str(e.numbers.get("what", "")), ""),
        "seconds": units.seconds(_number(e, "seconds")),
        **{name: units.share(_number(e, name)) for name in ("share", "within")},
        **{name: units.factor(_number(e, name)) for name in ("factor", "low", "high")},
    }


#: What the values say, by `Evidence.reading`: a template of `_words`, or a function.
READINGS: Mapping[str, str | Callable[[Evidence], str]] = {
    "": "",
    "times": "{factor}",
    "identical": "equal to the last bit throughout",
    "same": "the same",
    "changed": "changed",
    "differs": "not the same",
    "no-cpu-free": "ready to run, but no CPU was free",
    "others-wait-for-rank": "the other ranks wait for it",
    "main-waits-for-helpers": "the main thread waits for them, and they wait for a CPU",
    "cpus-were-free": "CPUs were free for it",
    "baseline-starved": "the baseline was the one that lacked CPUs",
    "own-threads-compete": "more than the CPUs available: its own threads and processes compete",
    "within-cpus": "within the CPUs available",
    "quota": "against what the quota and the affinity allow",
    "pool": _pool,
    "machine-idle": "the rest of the machine was idle",
    "other-programs": "other programs take CPUs",
    "as-beside-baseline": "about as much as during the baseline",
    "who-ran": _who_ran,
    "other-guests": "the hypervisor's other guests take CPUs",
    "gpu-waited": "the GPU waited more for the program",
    "gpu-shared": "the program waits while the GPU works for them",
    "pressure": "time in which a task of the machine waited for a CPU",
    "quota-used-up": "the cgroup's CPU quota was used up again and again",
    "of-all-queueing": "{share} of all queueing in functions",
    "nvtx-range": "NVTX range",
    "of-lost-time": "{share} of the lost time",
    "waiting-for-something": "waiting for something other than a CPU",
    "had-the-lock": "",
    "mostly-in": "most in {subject}",
    "waits-for": "waiting for {what}",
    "functions-that-hand-over": "in the functions that deliver their results",
    "iteration-rate": lambda e: (
        f"{_number(e, 'after') or 0:.3g} iterations/s, against {_number(e, 'before') or 0:.3g}"
    ),
    "calls-of-same-functions": lambda e: (
        f"{'more' if (number_of(e.candidate) or 0) > 1 else 'fewer'} calls of the same functions"
    ),
    "known-within": "to within {within}, on both sides",
    "between": "{low} to {high}",
    "of-difference": "{share} of what changed the wall time",
    "not-clearly": "no clear change",
    "waiting-left-out": "waiting left out",
    "per-call-of": lambda e: (
        f"{units.count(_number(e, 'calls'))} call{'' if _number(e, 'calls') == 1 else 's'} of "
        f"{clean(str(e.numbers.get('caller')))}: the change starts there"
    ),
    "code-part": "{share} of the lost time, in changed and new functions and their callees",
    "of-gains": "{share} of the added time of all functions",
    "uncalled-part": "makes up {share} of the lost time, with its callees",
    "waits-part": "{share} of the lost time is in functions that wait",
    "source-new": "new",
    "source-gone": "gone",
    "source-changed": "changed",
    "source-lines": lambda e: (
        f"changed: {_lines(_number(e, 'lines') or 0.0)}, by the shift of the functions below it"
    ),
    "median-of-all": "median of all functions: {factor}",
    "scatter-over-functions": lambda e: f"scatter over functions {_number(e, 'spread') or 0:.2f}",
    "another-cpu": "another CPU",
    "machine-slower": "the machine itself was slower",
    "machine-as-fast": "the machine was equally fast",
    "slows-down": "it makes the same code slower",
    "other-instructions": "libraries use another instruction set",
    "more-data": "{factor}: more data",
    "noise-reaches": lambda e: f"noise reaches {value_text(e.unit, e.threshold)}",
    "only-lost-slices": "another machine, a regression or a larger input would not change it",
    "signs-weighed": lambda e: f"at most 15 in 1,000 uncontended pairs reach {units.share(e.threshold)}",
    "lost-slices": "{seconds} each; the other functions kept their time, as under time slicing",
}


def _value(evidence: Evidence, side: int) -> str:
    value = (evidence.baseline, evidence.candidate)[side]
    text = value_text(evidence.unit, value)
    whole = None if evidence.whole is None else evidence.whole[side]
    number = number_of(value)
    if whole is None or number is None:
        return text
    if evidence.unit == "cores":
        return f"{text} of {units.cpus(whole)}"
    return f"{text} ({units.share(min(1.0, number / whole))})" if whole > 0 else text


def evidence_texts(evidence: Evidence) -> EvidenceTexts:
    words, reading = _words(evidence), READINGS[evidence.reading]
    says = reading.format_map(words) if isinstance(reading, str) else reading(evidence)
    unknown_text = evidence.unit == "text" and evidence.baseline is None and evidence.candidate is None
    values = ("", "") if unknown_text else (_value(evidence, 0), _value(evidence, 1))
    return EvidenceTexts(SIGNALS[evidence.signal].format_map(words), *values, says)


def evidence_table(evidence: Sequence[Evidence], limit: int = 0, *, alone: bool = False) -> Table:
    """Return a table of at most `limit` (0: all) pieces; `alone`: they are of one run."""
    listed = Listed(evidence, limit)
    sides = ("this run",) if alone else ("baseline", "candidate")
    titles = (Column("what was measured"), *map(Column, sides), Column("what it says", "prose"))
    return Table(titles, tuple(evidence_row(one, alone=alone) for one in listed.shown), listed.cut)


def evidence_row(evidence: Evidence, *, alone: bool = False) -> Row:
    signal, *values, says = evidence_texts(evidence)
    bars = _bars(evidence, alone)
    sides = (Measured(text, *bar) for text, bar in zip(values[-len(bars) :], bars, strict=True))
    return Row((signal, *sides, says))


def _bars(evidence: Evidence, alone: bool) -> Sequence[tuple[float | None, float | None]]:
    """Return, per side, the length of a bar and the place of its limit, 0 to 1; ``None`` if not known.

    Bars are parts of a whole where both sides know it; else the longer of two bars is the scale.
    """
    sides = (evidence.candidate,) if alone else (evidence.baseline, evidence.candidate)
    values = [float(v) for v in sides if isinstance(v, (int, float)) and not isinstance(v, bool) and v >= 0]
    if len(values) < len(sides):
        return [(None, None)] * len(sides)
    whole = (evidence.whole or (None, None))[-len(sides) :]
    if evidence.unit == "share":
        return [(min(1.0, value), None) for value in values]
    if evidence.unit == "cores" and whole[-1]:
        most = max((*values, *(cores for cores in whole if cores is not None)))
        return [(value / most, cores and cores / most) for value, cores in zip(values, whole, strict=True)]
    if evidence.unit == "s" and all(seconds is not None and seconds > 0 for seconds in whole):
        return [(min(1.0, value / (of or 1.0)), None) for value, of in zip(values, whole, strict=True)]
    most = max(values)
    return [(value / most if most > 0 and not alone else None, None) for value in values]
