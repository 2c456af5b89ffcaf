"""Several configurations in words: which is fastest, and what the others lose."""

from __future__ import annotations

import math

from profkit.report import units
from profkit.report.document import VerdictBlock
from profkit.report.text import clean
from profkit.study.compare import Compared, Comparisons, Configuration


def configuration_text(configuration: Configuration) -> str:
    """Return a row's name, with what distinguishes it from others of that name."""
    parts = [
        *(f"{name}={value}" for name, value in configuration.environment.items()),
        " ".join(configuration.words),
        "" if configuration.cpus is None else f"{configuration.cpus:g} CPUs",
        configuration.revision[:10],
        configuration.host,
    ]
    told = " ".join(filter(None, parts))
    return clean(
        f"{configuration.argument}: {told}"
        if configuration.argument and told
        else configuration.argument or told
    )


def judged_text(row: Compared) -> str:
    """Return the verdict of a row against the reference."""
    kind = f" ({row.kind})" if row.kind else ""
    return f"{row.cause}{kind}"


def comparisons_verdict(study: Comparisons) -> VerdictBlock:
    """Return the answer."""
    best, reference = study.rows[study.best], study.rows[study.reference]
    name, of = configuration_text(best.configuration), configuration_text(reference.configuration)
    known = math.isfinite(study.spread)
    doubt = "" if known else " Nothing ran twice: repeat the runs before you rely on small differences."
    slowest = max(study.rows, key=lambda row: row.median_s)
    worst = f"The slowest is {configuration_text(slowest.configuration)}, {units.seconds(slowest.median_s)}"
    if slowest is not reference and slowest.cause not in ("", "no-change"):
        worst += f" ({judged_text(slowest)})"
    alike = sum(row.fastest for row in study.rows) - 1
    others = ""
    if known and alike:
        rows = "1 other row" if alike == 1 else f"{alike} other rows"
        others = f" {rows} cannot be told apart from the fastest by these runs."
    took = units.seconds(best.median_s)
    if best is reference:
        return VerdictBlock(
            f"Fastest: {name}, {took}",
            f"It is what the others are compared with. {worst}.{others}{doubt}",
            "good" if known else "unsure",
        )
    if known and reference.fastest:
        return VerdictBlock(
            f"Nothing is faster than {of} beyond the noise",
            f"The least median is that of {name}, {took}. {worst}.{doubt}",
            "good",
        )
    times = units.factor(reference.median_s / best.median_s)
    change = units.from_to(reference.median_s, best.median_s)
    return VerdictBlock(
        f"Fastest: {name}, {times} as fast as {of}",
        f"{change}. {worst}.{others}{doubt}",
        "good" if known else "unsure",
    )


def comparisons_notes(study: Comparisons) -> list[str]:
    """Return what a reader must know of the rows."""
    notes = []
    for row in study.rows:
        if row.failed:
            runs = "1 run" if row.failed == 1 else f"{row.failed} runs"
            all_of = row.runs == len(row.files)
            more = "none ended well, and all are measured" if all_of else "left out"
            notes.append(f"{configuration_text(row.configuration)}: {runs} did not end well ({more}).")
    return notes
