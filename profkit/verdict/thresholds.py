"""All thresholds of the rules by id, each with value, unit and measured origin.

``docs/rules.md`` and ``--explain`` print them; some are defined in `profkit.measure` and `profkit.compare`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from profkit.compare import (
    comparability,
    folded_functions,
    function_table,
    movement,
    origins,
    ranking,
    sampled_calls,
    starvation_signs,
    starvation_weights,
    waiting_rows,
)
from profkit.measure import iterations, noise, side_facts
from profkit.model import estimates


@dataclass(frozen=True, slots=True)
class Threshold:
    """One number that a rule compares with; `provenance` is what was measured, on how many runs."""

    id: str
    value: float
    unit: str
    provenance: str


#: The labelled runs of seven programs.
_SEVEN = "439 runs of 7 programs on 2 cores"
#: The programs of benchmarks/verdict.
_BENCH = "benchmarks/verdict"
_CLEAN = "95th percentile over 460 pairs of clean runs of 23 programs (benchmarks/verdict)"
_NEIGHBOUR = (
    "of what the baseline queued; 95th percentile of 102 pairs beside the same neighbour (benchmarks/verdict)"
)

_TABLE = (
    # Lost time
    Threshold("time.noticed", 1.12, "factor", f"clean repeats reach it in one of ten pairs ({_SEVEN})"),
    Threshold("time.slower", 1.15, "factor", "loss from which a cause is worth naming (convention)"),
    Threshold("time.not-faster", 1 / 1.12, "factor", "inverse of time.noticed"),
    Threshold(
        "time.drift",
        noise.TOTAL_RATIO_P95,
        "factor",
        f"95th percentile of the ratio of totals of two clean runs ({_SEVEN})",
    ),
    Threshold("time.drift-or-own", 1.0, "factor", "totals over what clean repeats, or these repeats, drift"),
    Threshold(
        "time.sure-of-none", 1.2, "factor", f"one run a side: beyond it a clean pair is rare ({_BENCH})"
    ),
    Threshold("queue.of-baseline", 0.12, "share", "time.noticed, as a part of the baseline's wall"),
    # Waiting for a CPU
    Threshold("wait.much", 0.15, "share", f"recall 1.00 at 0.2 % false alarms ({_SEVEN})"),
    Threshold("wait.growth", 0.10, "share", f"with wait.much ({_SEVEN})"),
    Threshold(
        "wait.some",
        0.08,
        "share",
        f"where queueing explains most of the loss: mild contention ({_BENCH}, bursty)",
    ),
    Threshold("wait.some-growth", 0.05, "share", f"with wait.some ({_BENCH}, bursty)"),
    Threshold("throttled", 0.05, "share", f"350 of 350 throttled runs ({_SEVEN})"),
    Threshold("steal", 0.1, "cores", "half of what one busy guest takes on one of two cores (convention)"),
    Threshold("steal.growth", 0.05, "cores", "half of steal (convention)"),
    Threshold("others", 0.25, "cores", f"134 of 134 pure cases ({_SEVEN})"),
    Threshold("others.growth", 0.15, "cores", f"clean runs differ by up to 0.05 ({_SEVEN})"),
    Threshold(
        "others.alone", 0.4, "cores", f"no other side to compare with: clean runs stay below 0.3 ({_BENCH})"
    ),
    Threshold("demand.self", 1.25, "factor", f"demand over CPUs; 134 of 134 pure cases ({_SEVEN})"),
    Threshold(
        "threads.more",
        1.25,
        "factor",
        "growth of threads per CPU that is another setting and not chance (convention)",
    ),
    # Parts of the lost time
    Threshold(
        "queue.least", 0.1, "share", f"a benign neighbour makes a program queue too ({_BENCH}, clean pairs)"
    ),
    Threshold(
        "queue.least-helpers",
        0.3,
        "share",
        f"threads that hand data to each other reach 0.22 ({_BENCH}, clean pairs)",
    ),
    Threshold("queue.much", 0.4, "share", f"with wait.some ({_BENCH}, bursty)"),
    Threshold(
        "queue.much-known",
        0.3,
        "share",
        f"the same where the one that took the CPUs is known ({_BENCH}, bursty)",
    ),
    Threshold("part.most", 0.5, "share", "a cause explains most of the loss (definition)"),
    Threshold(
        "part.stopped",
        0.3,
        "share",
        f"growth of time off the CPU in functions that compute ({_BENCH}, stopped)",
    ),
    Threshold(
        "part.iterations-wait",
        0.3,
        "share",
        f"part of the iterations in which the consumer waits ({_BENCH}, slow-store)",
    ),
    Threshold("part.iterations-growth", 0.15, "share", "half of part.iterations-wait"),
    # Code, work, speed
    Threshold(
        "code.part", 0.35, "share", f"changed functions beside others that gained too ({_BENCH}, changed)"
    ),
    Threshold(
        "code.of-baseline",
        noise.TV_P95,
        "share",
        f"share of time that moves between clean runs, 95th percentile ({_SEVEN})",
    ),
    Threshold("one-function.part", 0.6, "share", f"regressions hold 0.60 to 0.85 of all gains ({_SEVEN})"),
    Threshold(
        "one-function.apart",
        noise.TOTAL_RATIO_P95,
        "factor",
        "time.drift: its cost per call against all others'",
    ),
    Threshold(
        "one-function.far",
        2.0,
        "factor",
        "plain profiles of 3 to 10 s: beyond it 21 of 22 pairs are changed code (shared corpus of 4 programs)",
    ),
    Threshold(
        "others-same", noise.TOTAL_RATIO_P95, "factor", "time.drift: cost per call of all other functions"
    ),
    Threshold(
        "spread.clean",
        noise.R_SPREAD_P95,
        "factor",
        f"95th percentile of the scatter of log cost per call ({_SEVEN})",
    ),
    Threshold("spread.twice", 2 * noise.R_SPREAD_P95, "factor", "twice spread.clean"),
    Threshold(
        "work.calls",
        1.1,
        "factor",
        f"calls, weighted by time; clean repeats differ by less than 1.03 ({_SEVEN})",
    ),
    Threshold("work.fewer", 1 / 1.1, "factor", "inverse of work.calls"),
    Threshold(
        "work.of-baseline", 0.05, "share", f"clean pairs stay below noise.work; above it with room ({_BENCH})"
    ),
    Threshold("work.less-of-baseline", -0.05, "share", "the same with fewer calls"),
    Threshold(
        "work.everywhere", 0.5, "share", "part of the time in functions whose calls changed (definition)"
    ),
    Threshold(
        "calls.half-width",
        sampled_calls.HALF_WIDTH,
        "share",
        "relative half-width of the 95 % interval of a ratio of calls up to which its estimate weighs times: "
        "61 calls counted in bursts (1.96 / √61). Of a function with half of the CPU time an eighth of all is then "
        "in the wrong one of work and speed: noise.speed",
    ),
    Threshold(
        "calls.known",
        0.8,
        "share",
        "of the CPU time, and of what it gained, for a rule to say that the calls are the same: speed.all",
    ),
    Threshold(
        "yardstick.scatter",
        1.35,
        "factor",
        "of the one piece of work of older files, which says nothing of its scatter: 20 repeats beside busy "
        "processes spread over 1.31",
    ),
    Threshold(
        "machine.functions",
        10,
        "count",
        "functions that show one factor: fewer may all have more to do (convention)",
    ),
    Threshold(
        "per-call.dearer",
        noise.LEAST_LOSS,
        "factor",
        "loss.least: each call of a function costs more by so much",
    ),
    Threshold(
        "yardstick.least", 0.01, "s", "start-up's own work from which its factor says something (convention)"
    ),
    Threshold(
        "input.larger", 1.08, "factor", "memory, or bytes read: repeats of one program differ by up to 1.063"
    ),
    Threshold(
        "input.larger-throughout",
        1.03,
        "factor",
        "memory, where each of several repeats needed more than all of the other side (convention)",
    ),
    Threshold("input.larger-bytes", 2e6, "bytes", "… and by at least so many (convention)"),
    Threshold("speed.part", 0.5, "share", "part.most"),
    Threshold("speed.all", 0.8, "share", "the loss is CPU time and nothing else (definition)"),
    Threshold(
        "programs.residue",
        0.5,
        "share",
        "most of either side's time is in functions that the other lacks (definition)",
    ),
    Threshold(
        "programs.another",
        0.9,
        "share",
        "of a project's functions, by number and by time, that the other side lacks (convention)",
    ),
    Threshold("programs.threads", 0.1, "share", f"clean pairs stay below it ({_SEVEN})"),
    Threshold(
        "moved.tv",
        noise.TV_P99,
        "share",
        f"99th percentile of time that sits elsewhere, clean pairs ({_SEVEN})",
    ),
    Threshold("moved.tv95", noise.TV_P95, "share", f"95th percentile ({_SEVEN})"),
    # Plain profiles
    Threshold("repeats.least", noise.MIN_RUNS_NOISE, "count", "two repeats have no spread to speak of"),
    Threshold(
        "repeats.noisier",
        0.5,
        "factor",
        f"mean ln of the ratio of scatters: 1 of 282 clean pairs of five runs, 61 of 73 contended ({_BENCH})",
    ),
    Threshold(
        "repeats.sigmas",
        3.0,
        "factor",
        "standard deviations beyond which repeats' totals differ (convention)",
    ),
    Threshold(
        "starved.holds",
        starvation_weights.ONE_RUN.threshold,
        "share",
        "1.5 % of pairs without contention pass it, by weights learnt on other programs (benchmarks/verdict)",
    ),
    # One run alone
    Threshold("alone.wall", 0.5, "s", "below it a run is mostly its own start (convention)"),
    Threshold("alone.waits", 0.3, "share", "off the CPU; less is hardly waiting (convention)"),
    Threshold("alone.most", 0.5, "share", "most of the wall (definition)"),
    Threshold("alone.ranks", 0.3, "share", f"more ranks than CPUs ({_BENCH}, pipeline_mpi)"),
    Threshold("wait.twice", 0.3, "share", "twice wait.much"),
    Threshold("alone.working", 0.5, "cores", "half of one worker (convention)"),
    Threshold("workers.busy", 0.5, "share", "half of one worker, of the wall (convention)"),
    # Which finding is named, and with what confidence
    Threshold(
        "findings.about-equal",
        0.15,
        "share",
        "share of the lost time × confidence: if closer than this, the order of rules decides (convention)",
    ),
    Threshold("confidence.named", 0.5, "share", "a finding stated lower is shown, not named (convention)"),
    Threshold(
        "confidence.shown",
        0.7,
        "share",
        "a confidence doubted below it is not shown: the table was learnt without doubts (convention)",
    ),
    Threshold(
        "confidence.together",
        0.9,
        "share",
        "what two causes at once leave of the confidence in either (convention)",
    ),
    Threshold(
        "confidence.both-failed",
        0.8,
        "share",
        "how far two failed targets got is not known (convention)",
    ),
    Threshold("confidence.python-differs", comparability.PYTHON, "share", "another Python (convention)"),
    Threshold(
        "confidence.cpu-differs", comparability.CPU_MODEL, "share", "another model of CPU (convention)"
    ),
    Threshold(
        "confidence.host-differs", comparability.HOST, "share", "another host of the same CPUs (convention)"
    ),
    Threshold("headline.same-time", 1.005, "factor", "ratio of two walls that reads as 1.00× (rounding)"),
    Threshold(
        "headline.same-rate",
        1.1,
        "factor",
        "ratio of two walls over that of iteration rates, up to which a headline shows the rates (convention)",
    ),
    Threshold("headline.no-loss", 1.05, "factor", "loss.least: below it nothing worth an alarm was lost"),
    Threshold(
        "headline.lacked-cpus",
        0.3,
        "share",
        "wait.twice, on both sides: a run that lacked CPUs, whatever the other did",
    ),
    # Noise of the account's buckets, one run a side: part of the baseline's wall
    Threshold("noise.startup", 0.037, "share", _CLEAN),
    Threshold("noise.work", 0.01, "share", f"{_CLEAN}: 0.001; 99th percentile 0.006"),
    Threshold("noise.code", 0.01, "share", f"{_CLEAN}: 0; as noise.work"),
    Threshold("noise.speed", 0.12, "share", f"{_CLEAN}: 0.109; beside the same neighbour 0.141"),
    Threshold("noise.queue", 0.051, "share", _CLEAN),
    Threshold("noise.queue-again", 0.35, "share", _NEIGHBOUR),
    Threshold("noise.blocked", 0.012, "share", _CLEAN),
    Threshold("noise.loading", 0.011, "share", _CLEAN),
    Threshold("noise.imbalance", 0.01, "share", f"{_CLEAN}: 0; as noise.work"),
    Threshold("noise.rest", 0.022, "share", _CLEAN),
    Threshold("noise.gil", 0.012, "share", "as noise.blocked, of which it was a part"),
    Threshold("noise.gc", 0.01, "share", "as noise.work"),
    # Used in measuring: named as in profkit.measure or profkit.compare
    Threshold("threads.work", side_facts.WORKS, "share", "of the wall: a thread that works (convention)"),
    Threshold("functions.share", noise.MIN_SHARE, "share", "of self time: less is noise"),
    Threshold(
        "functions.seconds", noise.MIN_SECONDS, "s", "a context switch of an idle machine takes 1 to 4 ms"
    ),
    Threshold(
        "functions.own-noise",
        noise.OWN_NOISE_SHARE,
        "share",
        "of self time, from which leaving its own noise counts: none in 48 clean pairs of five runs (4 programs)",
    ),
    Threshold(
        "functions.sigmas",
        function_table.SIGMAS,
        "factor",
        "standard deviations of repeats that are no noise (convention)",
    ),
    Threshold(
        "functions.less-of-defined",
        function_table.LESS_OF_DEFINED,
        "factor",
        "less time of a function that both sides define on the side whose samples lack it (convention)",
    ),
    Threshold(
        "functions.climb", noise.CLIMB_P99, "factor", "99th percentile over 360 clean pairs (4 programs)"
    ),
    Threshold("order.distance95", noise.RBO_P95, "distance", f"of rankings, 95th percentile ({_SEVEN})"),
    Threshold("order.distance99", noise.RBO_P99, "distance", f"of rankings, 99th percentile ({_SEVEN})"),
    Threshold("order.depth", ranking.DEPTH, "count", "functions that enter the distance (convention)"),
    Threshold(
        "order.nearly-equal", noise.NEARLY_EQUAL, "share", "half of moved.tv95: equal functions change places"
    ),
    Threshold("order.deviations", estimates.NORMAL, "factor", "half of a 95 % interval of a normal variable"),
    Threshold("repeats.scatter", noise.MIN_SCATTER, "factor", "of ln of a time: clock and rounding"),
    Threshold(
        "repeats.clean-scatter",
        noise.CLEAN_SCATTER,
        "factor",
        "the least of the medians of clean programs, 0.025 to 0.05",
    ),
    Threshold("repeats.test", noise.MIN_RUNS_TEST, "count", "3 a side cannot go below p = 0.10"),
    Threshold(
        "loss.least", noise.LEAST_LOSS, "factor", f"of medians of repeats: none of 392 clean pairs ({_BENCH})"
    ),
    Threshold("loss.errors", noise.ERRORS_OF_LOSS, "factor", "standard errors, with loss.least"),
    Threshold("loss.p", noise.P_OF_LOSS, "share", "p-value of the rank-sum test, with loss.least"),
    Threshold("calls.changed", sampled_calls.CALLS_CHANGED, "share", "of a function's calls: work.calls"),
    Threshold(
        "calls.none-seen",
        estimates.NONE_SEEN,
        "count",
        "the rule of three (Hanley and Lippman-Hand 1983)",
    ),
    Threshold("code.still-there", movement.STILL_THERE, "share", "less is another program: programs.residue"),
    Threshold(
        "code.root",
        movement.ROOT_SHARE,
        "share",
        "of the greatest cumulative time: all is below it (convention)",
    ),
    Threshold(
        "code.below", origins.MOSTLY_BELOW, "share", "part.most: a function that is mostly changed code"
    ),
    Threshold(
        "code.others", origins.FEWEST_OTHERS, "count", "functions that show a common factor (convention)"
    ),
    Threshold("code.alone", origins.ALONE, "share", "one-function.part, of the changed calls"),
    Threshold(
        "code.called-again",
        origins.CALLED_AGAIN,
        "count",
        "calls of a function that others follow (convention)",
    ),
    Threshold(
        "code.folded", folded_functions.LEAST_PART, "share", "of a folded function's time (convention)"
    ),
    Threshold(
        "waits.serves",
        waiting_rows.SERVES,
        "share",
        "of a function's calls that come from what waits (convention)",
    ),
    Threshold("waits.wraps", waiting_rows.WRAPS, "share", "part.most, of a function's time in what waits"),
    Threshold(
        "iterations.least", iterations.MIN_ITERATIONS, "count", "a median of fewer means nothing (convention)"
    ),
    Threshold(
        "iterations.warm-up", iterations.WARM_UP_FACTOR, "factor", f"repeats vary by up to 1.36× ({_SEVEN})"
    ),
    Threshold("iterations.warm-up-most", iterations.WARM_UP_MOST, "share", "of all iterations (convention)"),
    Threshold(
        "signs.small",
        starvation_signs.SMALL[0],
        "s",
        "self time in which a lump shows: below it is the clock's noise",
    ),
    Threshold("signs.not-small", starvation_signs.SMALL[1], "s", "… above it a lump is little (convention)"),
    Threshold("signs.lump", starvation_signs.LUMP_S, "s", "a time slice is longer (convention)"),
    Threshold(
        "signs.lump-part",
        starvation_signs.LUMP_PART,
        "share",
        "… and that of what the function took (convention)",
    ),
    Threshold(
        "lumps.like",
        starvation_signs.LIKE,
        "share",
        "of the median: slices so near to it are alike (convention)",
    ),
    Threshold("lumps.fewest", 3, "count", "slices that show whether they are alike (convention)"),
    Threshold(
        "lumps.alike",
        0.6,
        "share",
        "of the lost slices: at most 0.54 beside busy neighbours, at least 0.6 under quotas and stop signals "
        f"({_BENCH} and the shared corpus of 4 programs)",
    ),
    Threshold("lumps.ticks", 8e-3, "s", "two timer ticks at 250 Hz, which neighbours take, too"),
    Threshold(
        "lumps.of-quota",
        0.025,
        "s",
        "a quarter of the period of a quota, which is 100 ms by default (convention)",
    ),
    Threshold("lumps.period", 0.09, "s", "nine tenths of it: the program runs in the rest (convention)"),
    Threshold(
        "signs.fewest", starvation_signs.FEWEST, "count", "functions that show a distribution (convention)"
    ),
    Threshold("signs.large", starvation_signs.LARGE, "share", "of self time: a large function (convention)"),
    Threshold(
        "signs.scatter",
        starvation_signs.SCATTER_SHARE,
        "share",
        "of self time: its scatter is looked at (convention)",
    ),
    Threshold(
        "signs.bound", starvation_signs.MOST_LOG, "factor", "of ln of a ratio: more adds nothing (convention)"
    ),
    Threshold("signs.depth", starvation_signs.DEPTH, "count", "order.depth"),
)

#: By id.
THRESHOLDS: Mapping[str, Threshold] = {threshold.id: threshold for threshold in _TABLE}


def value(name: str) -> float:
    """Return the value of a threshold; raise `KeyError` for an unknown name."""
    return THRESHOLDS[name].value
