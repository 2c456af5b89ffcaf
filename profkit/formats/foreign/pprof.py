"""Reader of unpacked pprof profiles (`proto/profile.proto` of github.com/google/pprof)."""

from __future__ import annotations

from dataclasses import dataclass, field

from profkit.errors import FormatError
from profkit.formats.foreign.stacks import NATIVE, Frame, Samples, ThreadKey
from profkit.formats.limits import Budget
from profkit.formats.protobuf import Value, fields, integers, read_varint, signed
from profkit.model import Notice, Run
from profkit.model.bounds import EXACT

_UNITS = {"nanoseconds": 1e-9, "microseconds": 1e-6, "milliseconds": 1e-3, "seconds": 1.0}
#: Profile fields that are messages, strings or packed integers, and those that are integers.
_LONG, _SHORT = {1, 2, 3, 4, 5, 6, 11, 13, 16}, {7, 8, 9, 10, 12, 13, 14, 15}


def is_pprof(head: bytes) -> bool:
    """Return whether a file, perhaps cut off, begins with fields of a profile."""
    data, at, seen = memoryview(head), 0, 0
    try:
        while at < len(data):
            tag, at = read_varint(data, at)
            number, kind = tag >> 3, tag & 7
            if not (kind == 2 and number in _LONG) and not (kind == 0 and number in _SHORT):
                return False
            size, at = read_varint(data, at)
            if kind == 2:
                inner = data[at : at + size]
                if number == 1 and any(f > 2 or not isinstance(v, int) for f, v in fields(inner)):
                    return False
                at += size
            seen += number in (1, 2, 6)
    except ValueError:
        pass  # the data was cut off
    return seen > 1


@dataclass(slots=True)
class _Tables:
    """What samples refer to, by number."""

    strings: list[str] = field(default_factory=list)
    mappings: dict[int, str] = field(default_factory=dict)
    functions: dict[int, Frame] = field(default_factory=dict)
    locations: dict[int, tuple[Frame, ...]] = field(default_factory=dict)


def read_pprof(path: object, data: bytes, budget: Budget) -> Run:
    """Read a profile; raise `FormatError`, `LimitError`, or whatever damaged numbers raise."""
    parts: dict[int, list[Value]] = {number: [] for number in range(1, 17)}
    weights = {2: "calling contexts", 4: "functions", 5: "functions", 6: "strings"}
    for number, value in fields(memoryview(data)):
        if number in parts:
            budget.spend(weights.get(number, "samples of threads"), 1)
            parts[number].append(value)
    tables = _Tables()
    for value in parts[6]:
        budget.spend("bytes of strings", len(_bytes(value)))
        tables.strings.append(str(_bytes(value), "utf-8", "replace"))
    types = [_pair(value, tables) for value in parts[1]]
    timed = [i for i, (_, unit) in enumerate(types) if unit in _UNITS]
    counted = [i for i, (name, unit) in enumerate(types) if unit == "count" and "sample" in name]
    preferred = tables.strings[_last(parts[14])] if parts[14] else ""
    period = _pair(parts[11][-1], tables) if parts[11] else ("", "")
    interval = _last(parts[12]) * _UNITS.get(period[1], 0.0)
    if timed:
        # The file's preferred type, else wall time, as in other profiles.
        column = min(timed, key=lambda i: (types[i][0] != preferred, "wall" not in types[i][0], i))
        seconds = _UNITS[types[column][1]]
    elif counted and interval > 0:
        column, seconds = counted[0], interval
    else:
        names = ", ".join(f"{name} ({unit})" for name, unit in types[:5])
        raise FormatError(path, f"holds {names or 'nothing'} instead of time", "record CPU time or wall time")
    of_same = [i for i in counted if types[i][0].split("-")[0] == types[column][0].split("-")[0]] or counted
    executed_lines = _read_tables(parts, tables, budget)
    samples = Samples(budget)
    for value in parts[2]:
        ids, values, thread = _sample(_bytes(value), tables, budget)
        if len(values) != len(types):
            raise ValueError("a sample has more or fewer values than there are types of them")
        if values[column] < 0:
            raise FormatError(path, "holds differences between two profiles", "give both profiles")
        found = [tables.locations[i] for i in ids]
        budget.spend("calling contexts", sum(map(len, found)) // 16)
        # The innermost frame comes first, also among inlined ones.
        stack = tuple(frame for frames in found for frame in frames)[::-1]
        if of_same:
            taken = values[of_same[0]]
        elif interval > 0:
            taken = round(values[column] * seconds / interval)
        else:
            taken = int(values[column] > 0)  # at least
        if values[column] or taken:
            samples.add(thread, stack, values[column] * seconds, taken)
    return samples.run(path, Notice("foreign-samples", "pprof"), executed_lines=executed_lines)


def _bytes(value: Value) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a field has another type than a profile's")
    return value


def _last(values: list[Value]) -> int:
    """Return the last value of an integer field, which protobuf prescribes; 0 without values."""
    if values and not isinstance(values[-1], int):
        raise ValueError("a field has another type than a profile's")
    return signed(values[-1]) if values else 0  # type: ignore[arg-type]


def _numbers(value: Value) -> dict[int, int]:
    return {number: found for number, found in fields(_bytes(value)) if isinstance(found, int)}


def _pair(value: Value, tables: _Tables) -> tuple[str, str]:
    said = _numbers(value)
    return tables.strings[said.get(1, 0)], tables.strings[said.get(2, 0)]


def _read_tables(parts: dict[int, list[Value]], tables: _Tables, budget: Budget) -> bool:
    """Read mappings, functions and locations; return whether lines are executed ones, not first lines."""
    for value in parts[3]:
        said = _numbers(value)
        tables.mappings[said.get(1, 0)] = tables.strings[said.get(5, 0)].replace("\\", "/").rpartition("/")[2]
    executed_lines = False
    for value in parts[5]:
        said = _numbers(value)
        name = tables.strings[said.get(2, 0)] or tables.strings[said.get(3, 0)] or "?"
        file = tables.strings[said.get(4, 0)] or NATIVE
        tables.functions[said.get(1, 0)] = file, _line(said.get(5, 0)), name
        executed_lines |= file != NATIVE and not said.get(5, 0)
    for value in parts[4]:
        location, mapping, found = 0, 0, list[Frame]()
        for number, inner in fields(_bytes(value)):
            if number == 4:
                budget.spend("calling contexts", 1)
                said = _numbers(inner)
                file, line, name = tables.functions[said.get(1, 0)]
                found.append((file, line or (_line(said.get(2, 0)) if file != NATIVE else 0), name))
            elif isinstance(inner, int):
                location, mapping = (inner if number == 1 else location), (inner if number == 2 else mapping)
        # Without a symbol, only the library is known.
        unknown = (NATIVE, 0, f"[{tables.mappings.get(mapping) or 'unknown'}]")
        tables.locations[location] = tuple(found) or (unknown,)
    return executed_lines


def _line(value: int) -> int:
    return max(0, signed(value))


def _sample(data: memoryview, tables: _Tables, budget: Budget) -> tuple[list[int], list[int], ThreadKey]:
    """Return locations and values of a sample, and the thread named by its labels."""
    ids: list[int] = []
    values: list[int] = []
    pid = tid = None
    thread = ""
    for number, value in fields(data):
        if number in (1, 2):
            # An integer takes as much memory as a pointer of a context.
            budget.spend("calling contexts", 0 if isinstance(value, int) else len(value) // 16)
            (ids if number == 1 else values).extend(integers(value))
        elif number == 3:
            said = _numbers(value)
            key = tables.strings[said.get(1, 0)].replace("_", " ")
            if key in ("thread", "thread name"):
                thread = tables.strings[said.get(2, 0)]
            elif key in ("pid", "process id") and 0 < said.get(3, 0) < EXACT:
                pid = said[3]
            elif key in ("tid", "thread id") and 0 < said.get(3, 0) < EXACT:
                tid = said[3]
    return ids, list(map(signed, values)), (pid, tid, thread)
