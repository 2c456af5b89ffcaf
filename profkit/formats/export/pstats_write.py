"""Writer of plain pstats data for viewers; waiting, hashes and qualified names are lost."""

from __future__ import annotations

import marshal

from profkit.model import Profile
from profkit.model.merge import collapse
from profkit.model.surrogates import spelled_out

#: Read by every Python from 3.4; later versions add only types that a profile does not use.
MARSHAL_VERSION = 4


def write_pstats(profile: Profile) -> bytes:
    """Marshal a profile as `pstats` loads it, summing functions that share ``(file, line, name)``.

    The result is ``{(file, line, name): (primitive calls, calls, tottime, cumtime, callers)}`` with callers
    ``{(file, line, name): (calls, primitive calls, tottime, cumtime)}``. Path bytes that are not UTF-8 are
    written as ``\\udce9``, since viewers cannot print lone surrogates.
    """
    profile = collapse(profile, qualified=False)
    text = [spelled_out(string) for string in profile.strings]
    keys = [
        (text[file], line, text[name])
        for file, line, name in zip(
            profile.file.tolist(), profile.line.tolist(), profile.name.tolist(), strict=True
        )
    ]
    callers: list[dict[tuple[str, int, str], tuple[int, int, float, float]]] = [{} for _ in keys]
    if profile.edges is not None:
        edges = profile.edges
        for caller, callee, cost in zip(
            edges.caller.tolist(),
            edges.callee.tolist(),
            zip(
                edges.ncalls.tolist(),
                edges.primitive_calls.tolist(),
                edges.tottime.tolist(),
                edges.cumtime.tolist(),
                strict=True,
            ),
            strict=True,
        ):
            callers[callee][keys[caller]] = cost
    entries = zip(
        profile.primitive_calls.tolist(),
        profile.ncalls.tolist(),
        profile.tottime.tolist(),
        profile.cumtime.tolist(),
        callers,
        strict=True,
    )
    return marshal.dumps(dict(zip(keys, entries, strict=True)), MARSHAL_VERSION)
