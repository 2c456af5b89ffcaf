"""Rules of ``data-starvation``: the consumer waits for loaders that neither queue nor compute longer."""

from __future__ import annotations

from profkit.verdict.rule import Rule, alone, less, more, no

LOADING = Rule(
    id="loading",
    cause="data-starvation",
    about="most of the lost time is waiting for workers, which neither ran nor queued longer",
    bucket="loading",
    requires=("pair.counters",),
    unless=("more-ranges", "fewer-workers", "fewer-python-threads", "child-programs", "own-locks"),
    conditions=(
        more("time.slowdown", "time.noticed"),
        more("account.off", "part.most"),
        no("off.with-work"),
        # Functions that compute were off the CPU too, so the loaders are not the cause.
        less("stopped", "part.stopped"),
    ),
    alternatives=(
        (
            (more("loading.of-off", "part.most"),),
            (
                more("iterations.wait", "part.iterations-wait"),
                more("iterations.wait-growth", "part.iterations-growth"),
            ),
        ),
    ),
    doubts=(((less("time.slowdown", "time.slower"),), 0.75),),
    evidence=("off", "gpu", "main-wait", "delivery", "helpers-blocked-on", "iterations"),
    advice=("show-workers",),
    numbers=("delivery", "delivery-before", "iterations.wait"),
)

LOADING_ALONE = alone(
    LOADING,
    "the main thread waits for loaders while CPUs are free",
    more("account.loading", "alone.most"),
    less("helpers.queued", "wait.much"),
    more("cpus.free", "alone.working"),
    unless=("child-programs", "own-locks"),
    confidence=0.85,
    strength="account.loading",
    evidence=("delivery", "helpers-blocked-on", "gpu", "helpers-queue", "demand"),
    advice=("more-loaders",),
    numbers=("account.loading",),
)
