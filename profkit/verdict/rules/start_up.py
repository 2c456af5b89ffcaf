"""Rules of ``start-up``: imports take long, in the program itself or in processes that it waits for."""

from __future__ import annotations

from functools import partial

from profkit.verdict.rule import Rule, alone, more, no, yes

_rule = partial(Rule, cause="start-up", bucket="startup", requires=("pair.counters",))

WORKER_IMPORTS = _rule(
    id="worker-imports",
    about="most of the lost time is imports of modules in worker processes",
    conditions=(
        more("time.slowdown", "time.noticed"),
        more("account.imports", "part.most"),
    ),
    evidence=("imports", "processes", "main-wait"),
    advice=("start-once",),
    numbers=("account.imports",),
)

PROCESS_STARTS = _rule(
    id="process-starts",
    about="more processes are started, and most of the lost time is in functions that start them, or comes with each",
    part="account.starts",
    unless=("changed-source",),
    conditions=(
        more("time.slowdown", "time.noticed"),
        more("processes.factor", "threads.more"),
        more("account.starts", "part.most"),
        # Workers that are too many for the CPUs take long to start, too: one pool that is too wide, started once.
        no("workers.lack-cpus"),
    ),
    evidence=("processes", "starts", "main-wait", "wall"),
    advice=("start-once",),
    numbers=("account.starts", "processes", "processes-before"),
)

IMPORTS = _rule(
    id="imports",
    about="most of the lost time is the start, and most of that is imports of libraries in the main process",
    unless=("changed-source",),
    conditions=(
        more("time.slowdown", "time.noticed"),
        more("account.startup", "part.most"),
        more("imports.of-startup", "part.most"),
        yes("account.startup-beyond"),
    ),
    evidence=("own-imports", "compiled", "main-wait", "wall"),
    advice=("compile-once",),
    numbers=("account.startup", "imports.compiled"),
)

COMPILING = _rule(
    id="compiling",
    about="most of the lost time is a just-in-time compiler that compiles functions",
    bucket="speed",
    part="jit.part",
    requires=(),
    unless=("changed-source", "throttling", "run-queue-wait"),
    conditions=(
        more("time.slowdown", "time.noticed"),
        more("jit.part", "part.most"),
    ),
    evidence=("jit", "wall"),
    advice=("keep-compiled",),
    numbers=("jit.named", "jit.part"),
)

PROCESS_STARTS_ALONE = alone(
    PROCESS_STARTS,
    "starting processes takes a large part of the wall",
    more("account.starts", "alone.waits"),
    confidence=0.8,
    strength="account.starts",
    evidence=("processes", "starts"),
)

WORKER_IMPORTS_ALONE = alone(
    WORKER_IMPORTS,
    "worker processes import modules for a large part of the wall",
    more("account.imports", "alone.waits"),
    confidence=0.8,
    strength="account.imports",
    evidence=("imports",),
)
