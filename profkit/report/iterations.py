"""Iterations in both reports: sections of a `Document`, and JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from profkit.measure.iterations import IterationModel, Spread
from profkit.model.arrays import ratio
from profkit.report import units
from profkit.report.document import Block, Facts, Note, Pair, Section
from profkit.report.jsonvalues import plain
from profkit.report.listed import Listed, Of
from profkit.report.text import clean

Change = tuple[IterationModel | None, IterationModel | None]

_WAITING = "waiting for data"


def model_sections(model: IterationModel | None) -> list[Section]:
    if model is None:
        return []
    whole = model.duration.mean_s
    shown = [(title, spread, names) for title, spread, names in _times(model) if spread is not None]
    table = Listed(shown).table(
        Of("in each", lambda row: row[0]),
        Of("mean", lambda row: row[1].mean_s, "seconds"),
        Of("share", lambda row: ratio(whole, row[1].mean_s), "share", 1),
        Of("median", lambda row: row[1].median_s, "seconds", 2),
        Of("p95", lambda row: row[1].p95_s, "seconds"),
        Of("ranges", lambda row: ", ".join(map(clean, row[2])), "path", 3),
        notes=(_mean_note(model),),
        tone=lambda row: _tone(model) if row[0] == _WAITING else "",
    )
    blocks: tuple[Block, ...] = (
        Note(_sentence(model), _tone(model)),
        Facts((("iterations", f"{model.count:,}{_which(model)}"), ("rate", _rate(model)))),
        table,
    )
    return [Section("Iterations", blocks, role="iterations")]


def change_sections(change: Change) -> list[Section]:
    """Return the iterations of both sides, or of the only one that has a model."""
    a, b = change
    if a is None or b is None:
        only = a or b
        if only is None:
            return []
        (section,) = model_sections(only)
        return [replace(section, title=f"Iterations of the {'baseline' if a else 'candidate'}")]
    rows = [(title, x, y) for (title, x, _), (_, y, _) in zip(_times(a), _times(b), strict=True) if x or y]
    table = Listed(rows).table(
        Of("in each", lambda row: row[0]),
        Of("baseline", lambda row: _of(row[1], "mean_s"), "seconds"),
        Of("candidate", lambda row: _of(row[2], "mean_s"), "seconds"),
        Of("factor", lambda row: ratio(_of(row[1], "mean_s"), _of(row[2], "mean_s")), "factor"),
        Of("median", lambda row: Pair(_of(row[1], "median_s"), _of(row[2], "median_s")), "seconds", 2),
        Of("p95", lambda row: Pair(_of(row[1], "p95_s"), _of(row[2], "p95_s")), "seconds", 1),
        notes=("Baseline and candidate: means.", _mean_note(a), _mean_note(b)),
    )
    blocks: tuple[Block, ...] = (
        Facts(
            (("baseline", _sentence(a)), ("candidate", _sentence(b)), ("rate", f"{_rate(a)} → {_rate(b)}"))
        ),
        table,
        Note(" ".join(f"{side}: {_counted(model)}." for side, model in (("Baseline", a), ("Candidate", b)))),
    )
    return [Section("Iterations", blocks, role="iterations")]


def change_object(change: Change) -> dict[str, Any] | None:
    """Return ``iterations`` of ``profkit.diff/2``."""
    a, b = change
    if a is None and b is None:
        return None
    return {
        "baseline": plain(a),
        "candidate": plain(b),
        "duration_ratio": None if a is None or b is None else ratio(a.duration.mean_s, b.duration.mean_s),
        "steps_per_s_ratio": None if a is None or b is None else ratio(a.steps_per_s, b.steps_per_s),
    }


def _times(model: IterationModel) -> tuple[tuple[str, Spread | None, tuple[str, ...]], ...]:
    loads = model.loads or model.waits
    return (
        ("iteration", model.duration, ()),
        ("computing", model.compute, model.computes),
        ("loading", model.load, loads),
        (_WAITING, model.wait if model.overlapped else None, model.waits),
        ("neither", model.outside if model.computes else None, ()),
    )


def _of(spread: Spread | None, field: str) -> float | None:
    return None if spread is None else getattr(spread, field)


def _tone(model: IterationModel) -> str:
    return "bad" if model.bound == "loading" else ""


def _sentence(model: IterationModel) -> str:
    compute = f"computing {units.seconds(model.compute.mean_s)}"
    if model.bound is None or model.load is None:
        return f"No range marks loading: {compute} of {units.seconds(model.duration.mean_s)}."
    both = f"{compute}, loading {units.seconds(model.load.mean_s)}"
    if not model.overlapped:
        share = units.share(model.consumer_wait_share)
        return f"Loading and computing take turns ({both}): {share} of the time goes into loading."
    loaders = units.counted(model.loaders, "loader")
    bound, how = ("loading", "are too slow") if model.bound == "loading" else ("computing", "keep up")
    text = f"Bound by {bound}; {loaders} in parallel {how} ({both})"
    if model.waited is None or model.consumer_wait_share is None:
        return f"{text}; no range marks the wait for them."
    waited = f"waited for them in {model.waited:,} of {model.count:,} iterations"
    return f"{text}: the consumer {waited}, {units.share(model.consumer_wait_share)} of the time."


def _which(model: IterationModel) -> str:
    """Return what follows the number of iterations: their name and place."""
    name = clean(model.iteration)
    what = f" “{name}”" if model.delimited else f", which begin with “{name}”,"
    place = f"in thread {clean(model.thread)}"
    if model.rank is not None:
        place += f" of rank {model.rank}"
    elif model.pid is not None:
        place += f" of process {model.pid}"
    if model.consumers > 1:
        place += f", the slowest of {model.consumers} threads that compute"
    left = f"; {model.left_out} more at the start left out, {model.why_left_out}" if model.left_out else ""
    return f"{what} {place}{left}"


def _counted(model: IterationModel) -> str:
    return f"{units.counted(model.count, 'iteration')}{_which(model)}"


def _rate(model: IterationModel) -> str:
    text = f"{_number(model.steps_per_s)} iterations/s"
    if model.samples_per_s is not None:
        text += f", {_number(model.samples_per_s)} samples/s ({model.batch:g} each, by {model.batch_from})"
    return text


def _number(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _mean_note(model: IterationModel) -> str:
    if not model.overlapped:
        return ""
    return "Loading: the loaders' time, divided by their number and by the iterations."
