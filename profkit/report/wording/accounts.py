"""The account in words: titles of the buckets, and a waterfall from one wall to the other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from profkit.report import units
from profkit.report.document import Step, Waterfall
from profkit.report.wording.functions import display_name
from profkit.verdict.account import RUN_BUCKETS, Account, Bucket

#: What each bucket is.
BUCKET_TITLES: Mapping[str, str] = {
    "startup": "start and end",
    "work": "more calls",
    "code": "changed code",
    "speed": "cost per call",
    "queue": "queued for a CPU",
    "blocked": "blocked",
    "loading": "waiting for workers",
    "imbalance": "waiting for ranks",
    "rest": "not attributed",
    "gil": "waiting for the GIL",
    "gc": "garbage collection",
    "gpu": "waiting for the GPU",
    "capture": "capture overhead",
    "running": "running",
}
#: What is waited for (`profkit.model.pauses`).
WAITED_FOR: Mapping[str, str] = {
    "gil": "the interpreter's lock (GIL)",
    "lock": "a lock or thread",
    "child": "a child process",
    "pipe": "a pipe",
    "socket": "a socket",
    "file": "a file",
    "disk": "the disk",
    "write": "files to be written",
    "sleep": "a sleep to end",
    "poll": "I/O readiness (poll)",
    "device": "a device",
    "other": "something else",
    "stopped": "resumption (stopped)",
}
#: Most functions named beside a bucket.
NAMED = 2
#: Part of the bucket that a named function holds at least.
NAMED_PART = 0.1
#: Part of the greatest bucket below which a bucket gets no line.
SMALL = 0.005
#: Share of the wall (0 to 1) that a bucket needs in some run to be shown beside those of other runs.
SHOWN = 0.02
#: Share of the CPU time with unknown call counts from which the account says so.
UNKNOWN_CALLS = 0.05


def waterfall(account: Account) -> Waterfall:
    """Return an account's waterfall without tiny buckets, so it may not add up exactly."""
    whole = max(abs(account.added_s), *(abs(b.seconds) for b in account.buckets), 1e-12)
    alone = _is_alone(account)
    longer = max(account.baseline_s, account.candidate_s)
    steps = tuple(
        Step(
            title=bucket_title(bucket, account),
            seconds=bucket.seconds,
            share=abs(bucket.seconds) / longer if abs(bucket.seconds) <= longer > 0 else math.nan,
            beyond=bucket.beyond_noise or alone,
            about=_about(bucket),
        )
        for bucket in account.buckets
        if abs(bucket.seconds) >= SMALL * whole
    )
    return Waterfall(
        before_s=None if alone else account.baseline_s,
        after_s=account.candidate_s,
        steps=steps,
        note=_note(account),
    )


def _is_alone(account: Account) -> bool:
    return tuple(bucket.name for bucket in account.buckets)[: len(RUN_BUCKETS)] == RUN_BUCKETS


def shown_buckets(runs: Iterable[tuple[Sequence[float], float]]) -> list[int]:
    """Return which of `RUN_BUCKETS` to show of several runs, each given as its buckets and its wall."""
    several = list(runs)
    return [
        at for at in range(len(RUN_BUCKETS)) if any(buckets[at] > SHOWN * wall for buckets, wall in several)
    ]


def bucket_title(bucket: Bucket, account: Account) -> str:
    if bucket.name in account.merged[:1]:
        return "running or queued" if _is_alone(account) else "cost per call, or queued"
    if bucket.name == "speed" and account.calls_unknown >= UNKNOWN_CALLS:
        return "cost per call, or calls"
    if bucket.name == "work" and bucket.seconds < 0:
        return "fewer calls"
    return BUCKET_TITLES[bucket.name]


def _about(bucket: Bucket) -> tuple[str, ...]:
    """Return the functions with most of the bucket, and what they waited for if known."""
    waited = [w for w in bucket.waited if (w.candidate_s - w.baseline_s) * bucket.seconds > 0]
    if bucket.name == "blocked" and waited:
        least = NAMED_PART * abs(bucket.seconds)
        most = [w for w in waited if abs(w.candidate_s - w.baseline_s) >= least][:NAMED]
        return tuple(f"{display_name(w.name)} ({w.what})" for w in most)
    functions = [p for p in bucket.parts if p.kind == "function"]
    named = [p for p in functions if abs(p.seconds) >= NAMED_PART * abs(bucket.seconds)][:NAMED]
    return tuple(display_name(part.name) for part in named)


def _note(account: Account) -> str:
    if account.calls_unknown >= UNKNOWN_CALLS:
        return (
            f"The call counts of functions with {units.share(account.calls_unknown)} of the CPU time are not "
            "known well enough to tell more calls from a higher cost per call."
        )
    if account.merged:
        return "Without the kernel's counters, running and queueing cannot be separated."
    if account.basis == "other-programs":
        return "The noise is that of clean repeats of other programs; several runs per side show their own."
    return ""
