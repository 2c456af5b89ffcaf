"""For how long the GPU of a traced run was idle, and what the CPU did meanwhile."""

from __future__ import annotations

from profkit.model.gpu_use import GpuUse
from profkit.report import units
from profkit.report.document import Section
from profkit.report.listed import Listed, Of
from profkit.report.wording.functions import display_name

#: Rows of the table.
MOST = 10


def gpu_sections(use: GpuUse | None, limit: int) -> list[Section]:
    """Return the table of what ran while no GPU worked; nothing without a GPU or a pause in its work."""
    idle = 0.0 if use is None else use.span_s - use.busy_s
    if use is None or idle <= 0 or not use.idle:
        return []
    share = units.share(idle / use.span_s)
    table = Listed(use.idle, min(limit or MOST, MOST)).table(
        Of(
            "while the GPU was idle",
            lambda row: display_name(row.function) or "nothing that was recorded",
            "name",
        ),
        Of("in", lambda row: display_name(row.within), "name", 2),
        Of("time", lambda row: row.seconds, "seconds"),
        Of("of its idle time", lambda row: row.seconds / idle, "share"),
        notes=(
            f"From the first of its work to the last it took {units.seconds(use.span_s)},",
            f"and was idle for {units.seconds(idle)} ({share}).",
            "What ran is of the thread that gives it work.",
        ),
    )
    return [Section("GPU idle", (table,))]
