"""Runs → `Multiples`: what each process took, side by side.

Picks the processes that are shown; which of them straggle is judged elsewhere.
"""

from __future__ import annotations

from profkit.model import Process, Run
from profkit.report.figures import Multiples, Panel
from profkit.report.showdoc import CONTENDED_WAIT, wait_fraction
from profkit.report.text import clean

__all__ = ["multiples"]

#: Processes of a side that are drawn; of a larger job, those that queued longest.
MOST_PANELS = 32


def multiples(sides: tuple[tuple[str, Run], ...]) -> Multiples | None:
    """Lay out the processes of one run a side; ``None`` where nothing was counted for any of them."""
    chosen, left_out = [], []
    for label, run in sides:
        panels = [_panel(process) for process in run.processes]
        if len(panels) > MOST_PANELS:
            worst = sorted(range(len(panels)), key=lambda i: -(panels[i].queue_s or 0.0))[:MOST_PANELS]
            left_out.append(len(panels) - MOST_PANELS)
            panels = [panels[i] for i in sorted(worst)]
        else:
            left_out.append(0)
        chosen.append((label, tuple(panels)))
    known = any(
        value is not None for _, panels in chosen for p in panels for value in (p.wall_s, p.cpu_s, p.queue_s)
    )
    return Multiples(tuple(chosen), tuple(left_out)) if known else None


def _panel(process: Process) -> Panel:
    fraction = wait_fraction(process.cpu_s, process.run_queue_wait_s)
    return Panel(
        label_of(process),
        process.wall_s,
        process.cpu_s,
        process.run_queue_wait_s,
        fraction is not None and fraction >= CONTENDED_WAIT,
    )


def label_of(process: Process) -> str:
    """Name a process in few words."""
    if process.rank is not None:
        rank = f"rank {process.rank}"
        return rank if process.role in ("rank", "main") else f"{clean(process.role)} of {rank}"
    return f"{clean(process.role)} {process.pid}" if process.pid is not None else clean(process.role)
