"""The run file's JSON members as dataclasses and back, with every type checked on the way in.

Used by `runfile` only. Tables say which fields a record has and what each may hold, so that a damaged or
foreign document ends in one `MemberError` with the field's name. Unknown fields are ignored: a later minor
version may add some. Profiles are not here; threads carry the row ranges of theirs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from profkit.formats.run_notices import read_notices
from profkit.model import Host, Machine, Manifest, Notice, Pool, Roots

__all__ = [
    "HOST_FIELDS",
    "MACHINE_FIELDS",
    "MANIFEST_FIELDS",
    "PROCESS_FIELDS",
    "THREAD_FIELDS",
    "MemberError",
    "decode",
    "encode",
    "host_from",
    "machine_from",
    "machines_from",
    "manifest_from",
    "plain",
    "process_fields_from",
    "record",
    "row_range",
    "text_list",
    "thread_fields_from",
    "whole",
]


class MemberError(ValueError):
    """A member does not hold what it should; the message names the field."""


Check = Callable[[str, Any], Any]


def whole(name: str, value: Any) -> int:
    """Check a whole number that 64 bits hold."""
    if type(value) is not int or abs(value) >= 1 << 63:
        raise MemberError(f"{name} is not a whole number")
    return value


def _number(name: str, value: Any) -> float:
    if type(value) not in (int, float):
        raise MemberError(f"{name} is not a number")
    try:
        result = float(value)
    except OverflowError:
        raise MemberError(f"{name} is out of range") from None
    if not math.isfinite(result):
        raise MemberError(f"{name} is not a finite number")
    return result


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise MemberError(f"{name} is neither true nor false")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise MemberError(f"{name} is not a string")
    return value


def _object(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MemberError(f"{name} is not an object")
    return value


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise MemberError(f"{name} is not a list")
    return value


def text_list(name: str, value: Any) -> tuple[str, ...]:
    """Check a list of strings."""
    return tuple(_text(name, item) for item in _list(name, value))


def _optional(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)


def _map_of(check: Check) -> Check:
    return lambda name, value: {k: check(f"{name}.{k}", v) for k, v in _object(name, value).items()}


def _roots(name: str, value: Any) -> Roots:
    fields = _object(name, value)
    return Roots(*(text_list(f"{name}.{key}", fields.get(key, [])) for key in ("stdlib", "site", "project")))


HOST_FIELDS: Mapping[str, Check] = {
    "name": _text,
    "system": _text,
    "cpu_model": _text,
    "cpus": _optional(whole),
    "affinity": _optional(whole),
    "quota_cpus": _optional(_number),
    "probe": _text,
    "probe_s": _optional(_number),
}


def _sampler(name: str, value: Any) -> dict[str, Any]:
    fields = _object(name, value)
    return {**fields, "notes": read_notices(f"{name}.notes", fields.get("notes", []))}


def host_from(name: str, value: Any) -> Host:
    """Check a host."""
    return Host(**record(name, value, HOST_FIELDS))


MACHINE_FIELDS: Mapping[str, Check] = {
    "cpus": _optional(whole),
    "quota_cpus": _optional(_number),
    "wall_s": _optional(_number),
    "busy_s": _optional(_number),
    "steal_s": _optional(_number),
    "psi_some_s": _optional(_number),
    "throttled_s": _optional(_number),
    "throttled_periods": _optional(whole),
    "periods": _optional(whole),
    "load": _optional(_number),
    "peak_runnable": _optional(whole),
    "tree_cpu_s": _optional(_number),
}

MANIFEST_FIELDS: Mapping[str, Check] = {
    "schema": _text,
    "profkit": _text,
    "command": text_list,
    "cwd": _text,
    "exit_status": _optional(whole),
    "started": _text,
    "wall_s": _number,
    "host": host_from,
    "environment": _map_of(_text),
    "packages": _map_of(_text),
    "git": _optional(_object),
    "job": _optional(_object),
    "clocks": _map_of(_number),
    "sampler": _optional(_sampler),
}

POOL_FIELDS: Mapping[str, Check] = {
    "library": _text,
    "threads": _optional(whole),
    "origin": _text,
    "variable": _text,
    "version": _text,
    "file": _text,
    "peak": _optional(whole),
}


def _pool(name: str, value: Any) -> Pool:
    fields = record(name, value, POOL_FIELDS)
    if "library" not in fields:
        raise MemberError(f"{name}.library is missing")
    fields.setdefault("threads", None)
    return Pool(**fields)


def _pools(name: str, value: Any) -> tuple[Pool, ...]:
    return tuple(_pool(f"{name} {i}", item) for i, item in enumerate(_list(name, value)))


#: All fields of a process but its threads.
PROCESS_FIELDS: Mapping[str, Check] = {
    "pid": _optional(whole),
    "parent": _optional(whole),
    "role": _text,
    "rank": _optional(whole),
    "command": text_list,
    "exit": _text,
    "python": _text,
    "wall_s": _optional(_number),
    "cpu_s": _optional(_number),
    "run_queue_wait_s": _optional(_number),
    "voluntary_switches": _optional(whole),
    "involuntary_switches": _optional(whole),
    "roots": _roots,
    "host": _optional(host_from),
    "environment": _map_of(_text),
    "notes": read_notices,
    "profiled": _flag,
    "peak_threads": _optional(whole),
    "pools": _optional(_pools),
    "peak_memory_bytes": _optional(whole),
    "page_faults": _optional(whole),
    "read_bytes": _optional(whole),
}

#: All fields of a thread but its profile and open calls.
THREAD_FIELDS: Mapping[str, Check] = {
    "tid": _optional(whole),
    "name": _text,
    "run_s": _optional(_number),
    "run_queue_wait_s": _optional(_number),
    "timeslices": _optional(whole),
    "user_s": _optional(_number),
    "system_s": _optional(_number),
    "voluntary_switches": _optional(whole),
    "involuntary_switches": _optional(whole),
}


def record(name: str, value: Any, fields: Mapping[str, Check]) -> dict[str, Any]:
    """Check an object's known fields; fields that it lacks are left to the dataclass's defaults."""
    given = _object(name, value)
    return {key: check(f"{name}.{key}", given[key]) for key, check in fields.items() if key in given}


def manifest_from(value: Any) -> Manifest:
    """Check the manifest."""
    fields = record("manifest", value, MANIFEST_FIELDS)
    for key in ("schema", "profkit", "command", "cwd", "exit_status", "started", "wall_s", "host"):
        if key not in fields:
            raise MemberError(f"manifest.{key} is missing")
    return Manifest(**fields)


def machine_from(value: Any) -> Machine:
    """Check the machine's counters."""
    return Machine(**record("machine", value, MACHINE_FIELDS))


def machines_from(value: Any) -> dict[str, Machine]:
    """Check the machines of a run on several hosts."""
    return {
        name: Machine(**record(f"machines.{name}", item, MACHINE_FIELDS))
        for name, item in _object("machines", value).items()
    }


def process_fields_from(name: str, value: Any) -> dict[str, Any]:
    """Check a process without its threads."""
    return record(name, value, PROCESS_FIELDS)


def thread_fields_from(name: str, value: Any) -> dict[str, Any]:
    """Check a thread without its profile."""
    return record(name, value, THREAD_FIELDS)


def row_range(name: str, value: Any, rows: int) -> slice:
    """Check a ``[start, stop]`` pair against the number of rows there are."""
    pair = _list(name, value)
    if len(pair) != 2 or not 0 <= whole(name, pair[0]) <= whole(name, pair[1]) <= rows:
        raise MemberError(f"{name} is not a range of its {rows} rows")
    return slice(pair[0], pair[1])


def plain(instance: Any, fields: Mapping[str, Check]) -> dict[str, Any]:
    """Return a dataclass's fields as JSON knows them."""
    return {key: _plain_value(getattr(instance, key)) for key in fields}


def _plain_value(value: Any) -> Any:
    if isinstance(value, Roots):
        return {"stdlib": value.stdlib, "site": value.site, "project": value.project}
    if isinstance(value, Host):
        return plain(value, HOST_FIELDS)
    if isinstance(value, Pool):
        return plain(value, POOL_FIELDS)
    if isinstance(value, Notice):
        return _plain_value(value.as_json())
    if isinstance(value, Mapping):
        return {str(key): _plain_value(item) for key, item in value.items() if not _is_odd(item)}
    if isinstance(value, (list, tuple)):
        return [_plain_value(item) for item in value]
    return None if _is_odd(value) else value


def _is_odd(value: Any) -> bool:
    """Whether it is a number that JSON does not have; such a counter is not known."""
    return isinstance(value, float) and not math.isfinite(value)


def encode(document: Any) -> bytes:
    """Write JSON: ASCII, so that paths with undecodable bytes survive; one line per top-level field."""
    return json.dumps(document, indent=1, allow_nan=False).encode("ascii")


def _no_constant(text: str) -> Any:
    raise MemberError(f"{text} is no JSON")


def decode(member: str, data: bytes) -> Any:
    """Read JSON.

    Raises
    ------
    MemberError
        It is not JSON, or nested too deeply.
    """
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise MemberError(f"{member} is not valid JSON ({str(error)[:80]})") from None
