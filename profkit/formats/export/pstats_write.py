"""Writer of plain pstats data for viewers; waiting, hashes and qualified names are lost."""

from __future__ import annotations

import marshal

import numpy as np

from profkit.errors import FormatError
from profkit.formats.export.stack_tree import exact_calls, not_held
from profkit.formats.export.timeline import Export
from profkit.model import Profile, Run
from profkit.model.estimates import known_calls
from profkit.model.merge import collapse
from profkit.model.surrogates import spelled_out

#: Read by every Python from 3.4; later versions add only types that a profile does not use.
MARSHAL_VERSION = 4


def pstats_profile(run: Run, profile: Profile) -> Export:
    """Lay out the functions and calls of a run's profile; raise `FormatError` if there is no function."""
    if not len(profile):
        raise FormatError(run.path, "holds no functions to write")
    left_out = list(not_held(run))
    if unsure := int((~exact_calls(profile)).sum()):
        left_out.append(
            f"that calls of {unsure:,} functions are estimates, or not known and written as 0 (see --to csv)"
        )
    return Export(iter((write_pstats(profile),)), tuple(left_out))


def write_pstats(profile: Profile) -> bytes:
    """Marshal a profile as `pstats` loads it, summing functions that share ``(file, line, name)``.

    The result is ``{(file, line, name): (primitive calls, calls, tottime, cumtime, callers)}`` with callers
    ``{(file, line, name): (calls, primitive calls, tottime, cumtime)}``. Estimates of calls are rounded, and
    unknown numbers are 0. Path bytes that are not UTF-8 are
    written as ``\\udce9``, since viewers cannot print lone surrogates.
    """
    profile = collapse(profile, qualified=False)
    text = [spelled_out(string) for string in profile.strings]
    places = zip(profile.file.tolist(), profile.line.tolist(), profile.name.tolist(), strict=True)
    keys = [(text[file], line, text[name]) for file, line, name in places]
    callers: list[dict[tuple[str, int, str], tuple[int, int, float, float]]] = [{} for _ in keys]
    if profile.edges is not None:
        edges = profile.edges
        # Where calls are unknown, callers have those that were seen: a part of them.
        low = np.zeros(len(profile)) if profile.calls_low is None else profile.calls_low
        calls = known_calls(edges.ncalls, low[edges.callee]).tolist()
        primitive = known_calls(edges.primitive_calls, low[edges.callee]).tolist()
        costs = zip(calls, primitive, edges.tottime.tolist(), edges.cumtime.tolist(), strict=True)
        for caller, callee, cost in zip(edges.caller.tolist(), edges.callee.tolist(), costs, strict=True):
            callers[callee][keys[caller]] = cost
    columns = profile.primitive_calls, profile.ncalls, profile.tottime, profile.cumtime
    entries = zip(*(column.tolist() for column in columns), callers, strict=True)
    return marshal.dumps(dict(zip(keys, entries, strict=True)), MARSHAL_VERSION)
