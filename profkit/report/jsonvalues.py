"""Results as strict JSON: records become objects, unknown values null."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any

import numpy as np

from profkit.model import Notice
from profkit.model.surrogates import spelled_out
from profkit.report.notices import notice_text


def dumps(value: object) -> str:
    """Return one JSON document, ended by a newline."""
    # ASCII survives every locale, and leaves a terminal escape as the text "\\u001b".
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """Return any part of a result as JSON values; notices get their sentences."""
    if isinstance(value, str):
        return spelled_out(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Notice):
        return members(value, "code subject numbers text", text=spelled_out(notice_text(value)))
    if isinstance(value, Mapping):
        return {spelled_out(str(key)): plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if is_dataclass(value):
        kind: Any = type(value)
        return members(value, _names(kind))
    return spelled_out(str(value))


#: Members of records that show not just their fields in their order, by module and type; names as for `members`.
_OBJECTS: Mapping[str, str] = {
    "account.Part": "kind name seconds what?",
    "account.Waited": "what baseline_s candidate_s function=name",
    "doctor.Demand": "ranks workers threads total cpus factor",
    "doctor.Size": (
        "library=library.name packages starts=library.starts automatic=library.automatic "
        "computes=library.computes size origin variable unseen honours"
    ),
    "doctor_libraries.Honours": "affinity quota views variables version source",
    "doctor_load.Crew": "role processes threads pooled cores demanded pools",
    "hardware.Host": "name system cpu_model cpus affinity quota_cpus",
    "hardware.Neighbour": "name pid processes user group cores children",
    "hardware.Neighbours": "queued_s cores all_visible listed",
    "import_table.Imports": "seconds main_s packages",
    "intervals.Estimate": "value interval=low,high p_value",
    "interpreter.Interpreter": "path version tracer_missing",
    "line_times.FunctionLines": "function=name baseline candidate",
    "line_times.SeenLine": (
        "function=key.qualname root=key.root path=key.path line seconds share samples text?"
    ),
    "process.Effect": "seconds interval=low_s,high_s",
    "range_functions.Opener": "name file line root=key.root path=key.path count",
    "range_functions.RangeFunction": (
        "name file line root=key.root path=key.path ncalls tottime share wait blocked"
    ),
    "rank_study.Efficiency": "runtime_s useful_s parallel load_balance=balance communication",
    "rank_study.Place": (
        "name=function.qualname root=function.root path=function.path place usual_place=usual excess_s"
    ),
    "rank_study.Reordered": "process=member elsewhere functions=places",
    "rank_table.RangeRow": "domain name processes=of",
    "run.Manifest": (
        "schema profkit command cwd exit_status started wall_s whole_s host environment packages git job clocks "
        "sampler"
    ),
    "scaling.Place": (
        "processes nodes runs median_s low_s high_s speedup ideal_speedup=ideal parallel_efficiency=parallel "
        "load_balance=balance communication_efficiency=communication computation_scaling=computation "
        "global_efficiency=whole"
    ),
    "space.Parameter": "name environment values",
    "types.Checked": (
        "rule part choice group reading operator unit value threshold threshold_id? margin held"
    ),
}


@cache
def _names(kind: Any) -> str:
    place = f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
    return _OBJECTS.get(place) or " ".join(field.name for field in fields(kind))


def members(record: object, names: str, /, **computed: Any) -> dict[str, Any]:
    """Return an object with these members of a record, in this order.

    ``total_s`` is the field of that name, ``own_s=pace_s`` renames one, ``root=key.root`` takes a field's
    field; ``interval=low,high`` is null unless both are known; ``cause?`` is null if empty. `computed` members are
    JSON values already.
    """
    return {
        name: computed[name] if name in computed else plain(read(record)) for name, read in _members(names)
    }


@cache
def _members(names: str) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    found: list[tuple[str, Callable[[Any], Any]]] = []
    for word in names.split():
        name, _, path = word.removesuffix("?").partition("=")
        low, _, high = path.partition(",")
        read: Callable[[Any], Any] = _limits(low, high) if high else attrgetter(path or name)
        found.append((name, _or_none(read) if word.endswith("?") else read))
    return tuple(found)


def _limits(low: str, high: str) -> Callable[[Any], tuple[float, float] | None]:
    both = attrgetter(low, high)
    return lambda record: known_interval(*both(record))


def _or_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda record: read(record) or None


def json_number(value: float | None) -> float | None:
    """Return finite numbers unchanged; NaN, infinities and ``None`` become null."""
    if value is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def known_interval(low: float, high: float) -> tuple[float, float] | None:
    return None if math.isnan(low) or math.isnan(high) else (low, high)


def next_command(argv: Sequence[str], why: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return an entry of ``next_commands``: the command, its variables and its purpose."""
    return {"argv": plain(list(argv)), "env": plain(env or {}), "why": spelled_out(why)}
