"""Verdicts in words: a headline, what it is followed by, and the doubts."""

from __future__ import annotations

import math
from dataclasses import replace

from profkit.report import units
from profkit.report.document import VerdictBlock
from profkit.report.notices import notice_texts
from profkit.report.text import clean
from profkit.report.wording.accounts import WAITED_FOR
from profkit.report.wording.functions import display_name
from profkit.report.wording.summaries import by_instructions, summary_of
from profkit.verdict.thresholds import value
from profkit.verdict.types import Diff, Finding, RunVerdict, Verdict

_HEADLINES = {
    "no-change": ("No change beyond the noise", "good"),
    "contention": ("Resource contention", "bad"),
    "slower-machine": ("A slower machine", "bad"),
    "code-change": ("A code change", "bad"),
    "workload-change": ("Different work", "bad"),
    "data-starvation": ("Starved of data", "bad"),
    "blocked": ("Blocked, not computing", "bad"),
    "interpreter-lock": ("Threads wait for the interpreter's lock (GIL)", "bad"),
    "garbage-collection": ("Garbage collection", "bad"),
    "start-up": ("Worker start-up", "bad"),
    "thread-settings": ("Too few threads", "bad"),
    "environment": ("Another environment", "bad"),
    "faster": ("Faster", "good"),
    "inconclusive": ("Inconclusive", "unsure"),
}

_KINDS = {
    "self-oversubscription": "by the program itself",
    "external-load": "by other processes",
    "cpu-quota": "by a CPU quota",
    "shared-hardware": "for shared hardware",
    "shared-gpu": "for the GPU",
    "short-memory": "for lack of memory",
}

#: Plain profiles show that CPUs were lacking, but not why.
_STARVED = "Starved of CPU: contention, a CPU quota or stop signals"

#: Headlines of inconclusive verdicts with a reason of their own, by rule.
_UNDECIDED = {
    "another-program": "Two different programs",
    "unfinished": "One run failed",
    "sampled": "Compared by share of time",
    "capture-itself": "Capture overhead is most of the difference",
}
_OF_RULE = {
    **_UNDECIDED,
    "starved": _STARVED,
    "starved-repeats": _STARVED,
    "gpu-waits": "It waits longer for the GPU",
    "fewer-workers": "Too few workers",
    "more-programs": "It starts more programs",
    "child-programs": "Programs that it starts take longer",
    "own-locks": "Workers wait for each other's lock",
    "imports": "Imports took longer",
    "reading": "Reading files took longer",
    "more-threads": "Too many threads",
}

#: Headlines of a run alone that say something else than those of a pair.
_OF_RULE_ALONE = {
    "reading": "Reading files takes long",
    "child-programs": "It waits for programs that it starts",
}


def verdict_block(verdict: Verdict, *, alone: bool = False) -> VerdictBlock:
    """Return the verdict as a headline, a sentence, and the cause that scripts match."""
    headline, tone = _HEADLINES[verdict.cause]
    headline = (_OF_RULE | (_OF_RULE_ALONE if alone else {})).get(verdict.rule, headline)
    if verdict.kind:
        headline += f" {_KINDS.get(verdict.kind, clean(verdict.kind))}"
    names = verdict.cause + (f", {verdict.kind}" if verdict.kind else "")
    summary = summary_of(verdict, alone=alone)
    if alone and (verdict.confidence or 1.0) < value("confidence.named"):
        tone = "unsure"
        summary += " It may do so by design: compare it with a faster run."
    return VerdictBlock(
        _in_particular(verdict, headline),
        summary,
        tone,
        "" if names == headline.lower() else names,
        verdict.confidence,
    )


def run_block(judged: RunVerdict) -> tuple[VerdictBlock, ...]:
    """Return what is said first of one run: its verdict, or whether it got the CPUs; empty if that is unknown."""
    account = judged.account
    if judged.verdict is not None:
        return (verdict_block(judged.verdict, alone=True),)
    if account.merged or account.candidate_s < value("alone.wall"):
        return ()
    queued = account.seconds("queue") / account.candidate_s
    part = f"for {units.share(queued)} of the time"
    if queued < value("wait.some"):
        said = "Only a second run shows whether it is slower than elsewhere: profkit diff."
        return (VerdictBlock(f"No contention for CPUs found: it waited for a CPU {part}", said, "good"),)
    said = "That may be usual for this program: compare it with a run on an idle machine, by profkit diff."
    return (VerdictBlock(f"It waited for a CPU {part}", said, "unsure"),)


def _in_particular(verdict: Verdict, headline: str) -> str:
    """Add the function with most of the loss, or what was mostly waited for, to a headline."""
    if by_instructions(verdict.numbers):
        return "Libraries use another instruction set"
    if named := verdict.numbers.get("settings.named"):
        return f"Slowed down by {clean(str(named))}"
    if named := verdict.numbers.get("jit.named"):
        return f"Compiling took longer: {clean(str(named))}"
    if named := verdict.numbers.get("library.named"):
        return f"Other code of a library runs: {clean(str(named))}"
    if verdict.rule in ("child-programs", "more-programs"):
        return f"{headline}: {clean(verdict.subject)}"
    kind = str(verdict.numbers.get("blocked.on"))
    if verdict.cause == "blocked" and kind in WAITED_FOR and kind not in ("other", "stopped"):
        return f"Blocked, waiting for {WAITED_FOR[kind]}"
    one_holds_most = verdict.cause != "inconclusive" and (
        verdict.cause == "code-change"
        or verdict.rule == "more-calls"
        or not {"function.part", "uncalled.part"}.isdisjoint(verdict.numbers)
    )
    return (
        f"{headline} in {display_name(verdict.subject)}" if verdict.subject and one_holds_most else headline
    )


def comparison_block(diff: Diff) -> VerdictBlock:
    """Return a comparison's verdict; its headline begins with how much slower the candidate is."""
    verdict = diff.verdict
    block = verdict_block(verdict)
    doubts = _doubts(diff)
    if doubts:
        block = replace(block, summary=f"{doubts} {block.summary}")
    before, after = diff.account.baseline_s, diff.account.candidate_s
    # Times of different work make no headline.
    if verdict.rule in ("identical", *_UNDECIDED) or not (before > 0 and after > 0):
        return block
    took, ratio = _took(diff, before, after), after / before
    same = value("headline.same-time")
    if ratio >= same:
        times = f"{units.factor(ratio)} slower, {took}"
    elif ratio <= 1 / same:
        times = f"{units.factor(1 / ratio)} faster, {took}"
    else:
        times = f"No slower, {took}"
    if verdict.cause == "no-change":
        if verdict.numbers.get("both.lacked-cpus"):
            return replace(block, headline=f"No change, but both runs lacked CPUs: {took}", tone="unsure")
        if max(ratio, 1 / ratio) > value("time.sure-of-none"):
            return replace(block, headline=f"{times}: within the noise of single runs", tone="unsure")
        return replace(block, headline=f"{block.headline}: {took}")
    if verdict.cause == "faster":
        return replace(block, headline=times if ratio < 1 else f"{block.headline}: {took}")
    # Without lost time there is no alarm, however sure the cause is.
    tone = "unsure" if ratio < value("headline.no-loss") else block.tone
    joint = ":" if ratio >= same else ", but"
    return replace(
        block, headline=f"{times}{joint} {block.headline[0].lower()}{block.headline[1:]}", tone=tone
    )


def _doubts(diff: Diff) -> str:
    """Return what else differs and lowered the confidence; it comes before the cause."""
    warnings = (notice for notice in diff.comparability.warnings if notice.code in diff.verdict.doubts)
    said = [f"{text[0].upper()}{text[1:]}." for text in notice_texts(warnings)]
    if "both-failed" in diff.verdict.doubts:
        said.insert(0, "Both runs failed, so they may not have done the same work.")
    return " ".join(said)


def _took(diff: Diff, before: float, after: float) -> str:
    """Return the iterations per second if they changed as the walls did, else both walls.

    The rates leave out the first iteration, which may be most of a short run.
    """
    first, second = diff.iterations
    if first is not None and second is not None:
        ratio = first.steps_per_s / second.steps_per_s / (after / before)
        if 1 / value("headline.same-rate") <= ratio <= value("headline.same-rate"):
            return f"{first.steps_per_s:.3g} → {second.steps_per_s:.3g} iterations/s"
    return units.from_to(before, after)


def finding_text(finding: Finding) -> str:
    """Return a finding beside the verdict: cause, confidence, share of the loss, sentence."""
    notes = []
    if finding.calibrated:
        notes.append(f"confidence {units.confidence(finding.confidence)}")
    if math.isfinite(finding.severity):
        notes.append(f"explains {units.share(finding.severity)} of the lost time")
    brackets = f" ({', '.join(notes)})" if notes else ""
    return f"{finding.cause}{brackets}: {summary_of(finding)}"
