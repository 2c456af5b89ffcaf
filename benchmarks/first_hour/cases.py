"""The ten cases: two commands each, and which headlines a careful engineer would accept.

What is right was decided before anything was run, by an author who had not read the rules. Programs were tuned for
their wall times without profkit, and never for what profkit says of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sample_profiles.changes import Change

#: Where the programs are; they are copied, so that nothing of this checkout lies beside them.
PROGRAMS = Path(__file__).parent / "programs"
SIDES = ("baseline", "candidate")


@dataclass(frozen=True, slots=True)
class Answer:
    """A headline that is right.

    Attributes
    ----------
    cause
        As in the JSON of ``diff``; of ``ranks``, the kind of the straggler.
    kind
        Of contention; ``None`` if any will do.
    names
        Of which one must be in the headline; empty if none need be.
    """

    cause: str
    kind: str | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One problem: two commands, and what is right.

    Attributes
    ----------
    script
        File in ``programs``, under whose name both sides run.
    arguments
        Of the script, on each side.
    right
        Any of these is right.
    edited
        What is changed in the script on the candidate's side, which then has a folder of its own.
    settings
        Files that lie beside the script: what is in them, by name.
    ranks
        Where it is a job of so many MPI ranks: it is run once, and ``profkit ranks`` is asked which one holds the
        others up.
    straggler
        The rank that does.
    """

    script: str
    arguments: tuple[tuple[str, ...], tuple[str, ...]]
    right: tuple[Answer, ...]
    edited: Change | None = None
    settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    ranks: int = 0
    straggler: int | None = None

    def stage(self, folder: Path) -> tuple[Path, Path]:
        """Copy what the case needs, and return the working directories of both sides."""
        apart = self.edited is not None
        places = (folder / SIDES[0], folder / SIDES[1]) if apart else (folder / "job", folder / "job")
        source = (PROGRAMS / self.script).read_text(encoding="utf-8")
        sources = (source, self.edited.apply(source) if self.edited else source)
        for place, text in zip(places, sources, strict=True):
            place.mkdir(exist_ok=True)
            (place / self.script).write_text(text, encoding="utf-8")
            for name, content in self.settings.items():
                (place / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        return places

    def command(self, side: int, python: str) -> tuple[str, ...]:
        """What is run on one side: 0 is the baseline."""
        launcher = ("mpirun", "-n", str(self.ranks)) if self.ranks else ()
        return (*launcher, python, self.script, *self.arguments[side])


def _settings(samples: int) -> Mapping[str, object]:
    return {"recordings": 44, "channels": 16, "samples": samples, "window": 1024}


CASES: Mapping[str, Case] = {
    # The store answers later.
    "store": Case(
        "train_remote.py",
        (("--store-latency", "2"), ("--store-latency", "50")),
        (Answer("blocked"), Answer("data-starvation")),
    ),
    # Workers start and import for longer than the search takes.
    "grid": Case("tune_digits.py", (("--jobs", "1"), ("--jobs", "-1")), (Answer("start-up"),)),
    # An option makes one function quadratic.
    "option": Case(
        "clean_orders.py",
        (("--dedup", "set"), ("--dedup", "list")),
        (
            Answer("workload-change", names=("drop_duplicates",)),
            Answer("code-change", names=("drop_duplicates",)),
        ),
    ),
    # The share that the loader's workers read from answers later.
    "loader": Case(
        "train_images.py",
        (("--share-latency", "0.5"), ("--share-latency", "8")),
        (Answer("data-starvation"), Answer("blocked")),
    ),
    # Each of several short processes imports a large package.
    "imports": Case(
        "nightly.py",
        (("--backend", "lean"), ("--backend", "sklearn")),
        (Answer("start-up"), Answer("workload-change", names=("import", "sklearn", "scikit-learn"))),
    ),
    # Rank 1 has three times the shards.
    "mpi": Case("train_ranks.py", ((), ()), (Answer("work"),), ranks=2, straggler=1),
    # Three processes with eight threads each, on however many CPUs there are.
    "threads": Case(
        "train_ensemble.py",
        (("--threads", "1"), ("--threads", "8")),
        (Answer("contention", kind="self-oversubscription"),),
    ),
    # The same number of calls on arrays twice as large.
    "batch": Case(
        "spectra.py",
        (("small.json",), ("large.json",)),
        (Answer("workload-change"),),
        settings={"small.json": _settings(60_000), "large.json": _settings(120_000)},
    ),
    # A lookup became a loop.
    "code": Case(
        "match_payments.py",
        (("2700", "500"),) * 2,
        (Answer("code-change", names=("match_payments",)),),
        edited=Change(
            "match_payments",
            "looks for each number among all invoices",
            """\
    known = {invoice.number: invoice for invoice in invoices}
    unmatched = []
    for payment in payments:
        number = read_reference(payment.reference)
        invoice = known.get(number)
        if invoice is None:
            unmatched.append(payment)
        else:
            invoice.paid += payment.amount
""",
            """\
    unmatched = []
    for payment in payments:
        number = read_reference(payment.reference)
        # The same number was issued twice in March: the oldest that is not yet paid gets the money.
        for invoice in invoices:
            if invoice.number == number and invoice.paid < invoice.amount:
                invoice.paid += payment.amount
                break
        else:
            unmatched.append(payment)
""",
        ),
    ),
    # The same command twice.
    "nothing": Case("topics.py", ((), ()), (Answer("no-change"),)),
}
