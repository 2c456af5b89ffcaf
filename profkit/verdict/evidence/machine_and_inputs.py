"""Evidence of another machine, of larger inputs and of another command."""

from __future__ import annotations

from collections.abc import Iterable

from profkit.compare.comparability import without_directories
from profkit.model.arrays import median
from profkit.verdict.evidence.producing import NAMED, Found, Producers
from profkit.verdict.machine_differences import fixed_work, models_differ, other_instructions
from profkit.verdict.readings.given_inputs import larger_inputs
from profkit.verdict.rule import Case
from profkit.verdict.slowing_settings import slowing
from profkit.verdict.types import Evidence, Value


def _machines(case: Case) -> Found:
    a, b = case.before, case.now
    if models_differ(a, b):
        yield Evidence("cpu.model", "text", a.cpu_model, b.cpu_model, reading="another-cpu")
    yield from _variables(other_instructions(a, b), "other-instructions")
    yield from _fixed_work(case)


def _variables(found: Iterable[tuple[str, str, str]], reading: str) -> Found:
    for name, before, after in found:
        yield Evidence("variable", "text", before or None, after or None, reading=reading, subject=name)


def _fixed_work(case: Case) -> Found:
    known = fixed_work(case.before, case.now)
    if known:
        yield Evidence(
            "fixed-work",
            "factor",
            1.0,
            float(median([one.factor for one in known])),
            reading="machine-slower" if known[0].beyond > 1.0 else "machine-as-fast",
            numbers={"of": float(len(known))},
        )
    for one in known[:NAMED]:
        if one.beyond > 1.0:
            yield Evidence("yardstick", "s", one.before_s, one.after_s, subject=one.name)


def _inputs(case: Case) -> Found:
    for name, before, after in larger_inputs(case.before, case.now):
        yield Evidence(name, "bytes", before, after, reading="more-data", numbers={"factor": after / before})


def _command(case: Case) -> Found:
    a, b = case.before, case.now
    if not case.read("command.differs"):
        return
    both = zip(*(without_directories(side.command, of_data=False) for side in (a, b)), strict=False)
    words: list[tuple[Value, Value]] = [(x, y) for x, y in both if x != y]
    first = words[0] if words else (" ".join(a.command), " ".join(b.command))
    yield Evidence("command", "text", first[0], first[1], reading="differs")


MACHINE_AND_INPUTS: Producers = {
    "machines": _machines,
    "slowing-settings": lambda case: _variables(slowing(case.before, case.now), "slows-down"),
    "fixed-work": _fixed_work,
    "inputs": _inputs,
    "command": _command,
}
