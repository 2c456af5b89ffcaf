"""Processes of one job in words: who delays the others, what it does instead, what that does not show."""

from __future__ import annotations

import math

from profkit.report import units
from profkit.report.document import VerdictBlock
from profkit.report.text import clean
from profkit.report.wording.functions import display_name
from profkit.study.rank_study import COMPUTING, STANDING, Deviation, RankStudy, Straggler
from profkit.study.wait_states import IMBALANCE, OTHER

#: What a straggler does instead of waiting, by its kind.
KINDS = {
    "work": "does more work",
    "slower": "computes longer for the same calls",
    "slower-cpu": "computes longer in all functions: its CPU is slower",
    "longer": "computes longer",
    "collections": "collects garbage",
    "queue": "lacks CPUs",
    "loading": "waits for data (files, disks, sockets, pipes)",
    "stopped": "is stopped",
    "blocked": "is blocked (I/O, locks, sleep)",
}
#: What would show the reason, by `Straggler.unknown`.
_SETTLES = {
    "calls": "calls were estimated too coarsely to tell more work from slower work; capture with --exact",
    "looks": "why it was off-CPU was not recorded; capture again with the compiled tracer (profkit doctor)",
    "speed": "one function has nearly all CPU time, so more work per call and a slower CPU look alike; run "
    "the rank on another CPU or host",
}
#: Load balance (0 to 1) below which the work is uneven even without a straggler.
EVEN = 0.9
#: Share of a process's own time (0 to 1) from which queueing gets a sentence.
STARVED = 0.3
#: Most stragglers named in a sentence.
MOST_NAMED = 4
#: Speed-up without a straggler from which the job is called faster.
NOTICEABLE = 1.01


def deviation_name(deviation: Deviation) -> str:
    if deviation.function is not None:
        return display_name(deviation.function.qualname)
    assert deviation.range is not None
    return f"range {clean(deviation.range[1])}"


def ranks_verdict(study: RankStudy) -> VerdictBlock:
    """Return the answer: the stragglers, or that there are none."""
    found = study.stragglers
    n = len(study.members)
    if not found:
        return _no_straggler(study)
    labels = [_placed(study, s.member) for s in found]
    if study.slow_host:
        headline = f"All {len(found)} processes on {clean(study.slow_host)} hold the others up"
    elif len(found) == 1:
        headline = f"{labels[0][:1].upper()}{labels[0][1:]} holds the others up: it {KINDS[found[0].kind]}"
    else:
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        headline = f"{len(found)} of {n} processes hold the others up: {', '.join(labels[:MOST_NAMED])}{more}"
    return VerdictBlock(headline, " ".join([_said(study, found[0]), *_gain(study, found[0])]), "bad")


def wait_sentence(study: RankStudy, straggler: Straggler) -> str:
    """Say in which wait state the others are, for whom, and why it is late."""
    label = clean(study.members[straggler.member].label)
    late = f"{label}, which is late: it {KINDS[straggler.kind]}"
    if straggler.wait_s > 0:
        text = f"the others wait {units.seconds(straggler.wait_s)} (mean) for {late}"
    elif straggler.wait_state == IMBALANCE:
        text = f"{label} {KINDS[straggler.kind]}"
    else:
        text = f"no call was recorded in which the others wait for {late}"
    unknown = _SETTLES.get(straggler.unknown)
    why = "" if unknown is None else f"; the reason is not clear: {unknown}"
    return f"{straggler.wait_state or OTHER}: {text}{why}."


def _said(study: RankStudy, straggler: Straggler) -> str:
    label = clean(study.members[straggler.member].label)
    most = max(straggler.run_s, straggler.queue_s, straggler.blocked_s)
    parts = [
        f"{units.change(0.0, seconds)} {what}"
        for kinds, seconds, what in (
            (
                (*COMPUTING, "collections"),
                straggler.run_s,
                "on a CPU" if study.measured else "of self time",
            ),
            (("queue",), straggler.queue_s, "queueing"),
            (STANDING, straggler.blocked_s, "off the CPU"),
        )
        if straggler.kind in kinds or seconds >= 0.1 * most
    ]
    text = f"Compared with the median of the others, {label} takes {' and '.join(parts)}"
    functions = [d for d in straggler.deviations if d.function is not None]
    if functions and straggler.kind in COMPUTING:
        first = functions[0]
        calls = (
            f" with {units.factor(first.calls)} the calls"
            if straggler.kind == "work" and math.isfinite(first.calls)
            else ""
        )
        name = deviation_name(first)
        if first.usual_s <= 0.01 * first.value_s:
            text += f"; the others hardly call {name}"
        else:
            text += f"; {name} takes it {units.factor(first.value_s / first.usual_s)} as long{calls}"
    if straggler.kind == "collections":
        text += _collections(study, straggler)
    text += "."
    if study.waiting_seen:
        own, usual = units.seconds(straggler.waits_s), units.seconds(straggler.usual_waits_s)
        text += f" It waits {own} for other processes, the others {usual}."
    return text


def _collections(study: RankStudy, straggler: Straggler) -> str:
    function = study.members[straggler.member].collects_in
    where = "" if function is None else f", most of it while {display_name(function.qualname)} runs"
    return f"; {units.change(0.0, straggler.collects_s or 0.0)} of this is garbage collection{where}"


def _gain(study: RankStudy, straggler: Straggler) -> list[str]:
    label = clean(study.members[straggler.member].label)
    if straggler.faster < NOTICEABLE:
        return [f"Without {label} the job would hardly be faster: another process takes as long."]
    gain, left = units.factor(straggler.faster), units.seconds(straggler.without_s)
    how = "an estimate that assumes the next slowest process sets the pace everywhere"
    return [f"Without {label} the job would be {gain} faster ({left}): {how}."]


def _no_straggler(study: RankStudy) -> VerdictBlock:
    balance = study.efficiency.balance
    said = f"The processes' load balance is {units.share(balance)} (mean / maximum CPU time)."
    if study.moved:
        return VerdictBlock(
            "Processes differ, but it is not clear which one is slow",
            "Some take longer in one function and correspondingly less in another; in one of the two they "
            "wait for the others. Name it with --wait.",
            "unsure",
        )
    if balance < EVEN:
        return VerdictBlock(
            "The work is uneven, but no process stands out",
            f"{said} The table below lists the most unevenly spread functions.",
            "unsure",
        )
    starved = study.queue_share
    if starved >= STARVED:
        return VerdictBlock(
            "No straggler: all processes lack CPUs alike",
            f"They queue for {units.share(starved)} of their own time (median). {said}",
            "bad",
        )
    return VerdictBlock("No straggler: no process differs beyond the noise", said, "good")


def rank_notes(study: RankStudy) -> list[str]:
    notes = []
    if not study.measured:
        notes.append(
            "Queueing and off-CPU time were not measured in all processes: their times are self times. Use "
            "profkit capture to separate them."
        )
    if not study.waiting_seen:
        notes.append(
            "No calls were recognised in which the processes wait for each other. If they do, name the functions: "
            "--wait NAME."
        )
    if any(straggler.kind == "collections" for straggler in study.stragglers):
        notes.append(
            "To shorten collections: call gc.collect() and gc.freeze() after set-up, so they skip long-lived "
            "objects, or gc.set_threshold(50_000) for fewer of them. If the program calls gc.collect() "
            "itself, call it in all ranks in the same step."
        )
    for move in study.moved[:MOST_NAMED]:
        label, more, less = study.members[move.member].label, move.more.qualname, move.less.qualname
        notes.append(
            f"{clean(label)} takes {units.seconds(move.more_s)} more than the others in {display_name(more)} and "
            f"{units.seconds(move.less_s)} less in {display_name(less)}."
        )
    if len(study.members) == 2:
        notes.append(
            "With two processes, each is compared only with the other: it is not known which one is normal."
        )
    left = max((r.left_out for row in study.ranges for r in row.of if r is not None), default=0)
    if left:
        notes.append(f"Up to {left} ranges per name were left out as warm-up. Function times include them.")
    return notes


def _placed(study: RankStudy, member: int) -> str:
    """Return a process's name, with its host or node if there are several."""
    one = study.members[member]
    label = clean(one.label)
    if one.host and len({m.host for m in study.members}) > 1:
        where = clean(one.host)
    elif one.node is not None and len({m.node for m in study.members}) > 1:
        where = f"node {one.node}"
    else:
        return label
    local = "" if one.local_rank is None else f"local rank {one.local_rank} "
    return f"{label} ({local}on {where})"
