"""All thresholds of the rules by id, each with value, unit and measured origin.

``docs/rules.md`` and ``--explain`` print them; some are defined in `profkit.measure` and `profkit.compare`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from profkit.compare import (
    comparability,
    folded_functions,
    function_table,
    longer_loops,
    movement,
    origins,
    ranking,
    sampled_calls,
    starvation_signs,
    starvation_weights,
    waiting_rows,
)
from profkit.measure import iterations, noise, pause_seconds, side_facts
from profkit.model import estimates


@dataclass(frozen=True, slots=True)
class Threshold:
    """One number that a rule compares with; `provenance` is what was measured, on how many runs."""

    id: str
    value: float
    unit: str
    provenance: str


_Row: TypeAlias = tuple[str, float, str, str]


def _convention(id: str, value: float, unit: str, what: str) -> _Row:
    return id, value, unit, f"{what} (convention)"


#: The labelled runs of seven programs.
_SEVEN = "439 runs of 7 programs on 2 cores"
#: The programs of benchmarks/verdict.
_BENCH = "benchmarks/verdict"
_CLEAN = "95th percentile over 460 pairs of clean runs of 23 programs (benchmarks/verdict)"
_NEIGHBOUR = (
    "part of the baseline's queueing; 95th percentile of 102 pairs beside the same other program "
    "(benchmarks/verdict)"
)

#: Id, value, unit and provenance of each.
_TABLE: tuple[_Row, ...] = (
    # Lost time
    ("time.noticed", 1.12, "factor", f"clean repeats reach it in one of ten pairs ({_SEVEN})"),
    _convention("time.slower", 1.15, "factor", "loss from which a cause is worth naming"),
    ("time.not-faster", 1 / 1.12, "factor", "inverse of time.noticed"),
    (
        "time.drift",
        noise.TOTAL_RATIO_P95,
        "factor",
        f"95th percentile of the ratio of totals of two clean runs ({_SEVEN})",
    ),
    (
        "time.drift-or-own",
        1.0,
        "factor",
        "ratio of the totals over the drift of clean repeats, or of these repeats",
    ),
    ("time.sure-of-none", 1.2, "factor", f"one run a side: beyond it a clean pair is rare ({_BENCH})"),
    ("gc.of-baseline", 0.05, "share", f"well above noise.gc, below which clean pairs stay ({_BENCH})"),
    ("queue.of-baseline", 0.12, "share", "time.noticed, as a part of the baseline's wall"),
    # Waiting for a CPU
    ("wait.much", 0.15, "share", f"recall 1.00 at 0.2 % false alarms ({_SEVEN})"),
    ("wait.growth", 0.10, "share", f"with wait.much ({_SEVEN})"),
    (
        "wait.some",
        0.08,
        "share",
        f"where queueing explains most of the loss: mild contention ({_BENCH}, bursty)",
    ),
    ("wait.some-growth", 0.05, "share", f"with wait.some ({_BENCH}, bursty)"),
    ("throttled", 0.05, "share", f"350 of 350 throttled runs ({_SEVEN})"),
    _convention("steal", 0.1, "cores", "half of what one busy guest takes on one of two cores"),
    _convention("steal.growth", 0.05, "cores", "half of steal"),
    ("others", 0.25, "cores", f"all 134 cases of this cause alone ({_SEVEN})"),
    ("gpu.others", 0.1, "share", "by convention; one busy neighbour on an H100: 0.6, none: 0"),
    ("others.none", 0.05, "cores", f"as much as clean runs differ by ({_SEVEN})"),
    ("others.growth", 0.15, "cores", f"clean runs differ by up to 0.05 ({_SEVEN})"),
    ("others.alone", 0.4, "cores", f"no other side to compare with: clean runs stay below 0.3 ({_BENCH})"),
    ("demand.self", 1.25, "factor", f"demand over CPUs; all 134 cases of this cause alone ({_SEVEN})"),
    _convention(
        "threads.more", 1.25, "factor", "growth of threads per CPU that only another setting explains"
    ),
    _convention("cores.several", 1.25, "cores", "one busy thread, and short moments of other threads"),
    ("threads.fewer", 1 / 1.25, "factor", "inverse of threads.more"),
    _convention(
        "python-threads.fewer", 0.5, "factor", "a setting, and no thread of a library that comes and goes"
    ),
    _convention("python-threads.pool", 5, "count", "a pool of four, and the main thread"),
    (
        "locked.part",
        0.7,
        "share",
        (
            "all of the loss where workers begin to take turns; where the holder of a lock takes longer, at most "
            "(n − 1)/n for n workers"
        ),
    ),
    # Parts of the lost time
    ("queue.least", 0.1, "share", f"beside harmless programs, a program queues too ({_BENCH}, clean pairs)"),
    (
        "queue.least-helpers",
        0.3,
        "share",
        f"threads that hand data to each other reach 0.22 ({_BENCH}, clean pairs)",
    ),
    ("queue.much", 0.4, "share", f"with wait.some ({_BENCH}, bursty)"),
    ("queue.much-known", 0.3, "share", f"the same if it is known who took the CPUs ({_BENCH}, bursty)"),
    _convention(
        "reading.by-disk",
        0.1,
        "share",
        "waiting for a disk, of the CPU time of a function that reads what is mapped to memory",
    ),
    ("part.most", 0.5, "share", "a cause explains most of the loss (definition)"),
    _convention(
        "ranges.same-factor", 0.05, "factor", "as a logarithm: counts of two NVTX ranges changed alike"
    ),
    ("part.ranges-alike", 0.8, "share", "nearly all NVTX ranges ran more often (definition)"),
    (
        "part.stopped",
        0.3,
        "share",
        f"growth of time off the CPU in functions that compute ({_BENCH}, stopped)",
    ),
    (
        "part.iterations-wait",
        0.3,
        "share",
        f"share of the iterations' time in which the consumer waits ({_BENCH}, slow-store)",
    ),
    ("part.iterations-growth", 0.15, "share", "half of part.iterations-wait"),
    # Code, work, speed
    ("code.part", 0.35, "share", f"changed functions, if others gained time too ({_BENCH}, changed)"),
    (
        "code.of-baseline",
        noise.TV_P95,
        "share",
        f"share of time that moves between clean runs, 95th percentile ({_SEVEN})",
    ),
    ("one-function.part", 0.6, "share", f"a slowed function has 0.60 to 0.85 of all added time ({_SEVEN})"),
    (
        "one-function.apart",
        noise.TOTAL_RATIO_P95,
        "factor",
        "time.drift, of its cost per call over that of all others",
    ),
    (
        "one-function.far",
        2.0,
        "factor",
        "plain profiles of 3 to 10 s: beyond it 21 of 22 pairs are changed code (shared corpus of 4 programs)",
    ),
    (
        "starved.beyond",
        5.0,
        "factor",
        f"cost per call over that of all functions; half of a loss is not beyond it beside busy programs ({_BENCH})",
    ),
    _convention("one-function.calls", 10, "count", "fewest calls whose mean is compared"),
    (
        "one-function.alone",
        8.0,
        "factor",
        (
            "native functions that only compute: at most 5.5 beside busy programs, under quotas and bound to one CPU "
            f"({_BENCH})"
        ),
    ),
    (
        "others-same",
        noise.TOTAL_RATIO_P95,
        "factor",
        "time.drift, of the cost per call of all other functions",
    ),
    (
        "spread.clean",
        noise.R_SPREAD_P95,
        "factor",
        f"95th percentile of the scatter of log cost per call ({_SEVEN})",
    ),
    ("spread.twice", 2 * noise.R_SPREAD_P95, "factor", "twice spread.clean"),
    (
        "work.calls",
        1.1,
        "factor",
        f"calls, weighted by time; clean repeats differ by less than 1.03 ({_SEVEN})",
    ),
    ("work.fewer", 1 / 1.1, "factor", "inverse of work.calls"),
    ("work.of-baseline", 0.05, "share", f"well above noise.work, below which clean pairs stay ({_BENCH})"),
    ("work.less-of-baseline", -0.05, "share", "the same with fewer calls"),
    (
        "loops.functions",
        3,
        "count",
        (
            "functions whose loops got longer: at most one under other conditions than more data (549 plain pairs of "
            "4 programs), two in exact runs of 31 programs"
        ),
    ),
    ("per-call.grown", 1.15, "factor", "time.slower, of the cost of one function's calls"),
    _convention(
        "per-call.functions",
        3,
        "count",
        "as loops.functions: one or two functions may be what one edit changed",
    ),
    _convention(
        "loops.power", 3, "factor", "the product of two matrices takes the third power of their size"
    ),
    (
        "machine.python",
        1.1,
        "factor",
        "more data and one slower function leave the median of functions in Python below it (4 programs)",
    ),
    _convention(
        "machine.python-least", 0.0002, "s", "self time from which a function's factor is meaningful"
    ),
    ("work.everywhere", 0.5, "share", "part of the time in functions whose calls changed (definition)"),
    (
        "calls.half-width",
        sampled_calls.HALF_WIDTH,
        "share",
        (
            "relative half-width of the 95 % interval of a ratio of calls up to which the estimate is used: "
            "that of 61 calls counted in bursts (1.96 / √61). For a function with half of the CPU time, an "
            "eighth of all time is then in the wrong bucket of work and speed, as much as noise.speed"
        ),
    ),
    (
        "calls.known",
        0.8,
        "share",
        "part of the CPU time and of its growth from which a rule may say that calls are the same: speed.all",
    ),
    (
        "yardstick.scatter",
        1.35,
        "factor",
        (
            "scatter of the fixed work in older files, which do not record it: 20 repeats beside busy "
            "processes differed by up to 1.31"
        ),
    ),
    (
        "machine.unsure",
        0.8,
        "share",
        (
            "scatter of fixed byte code, as a part of ln of the slow-down, above which it may explain the loss. 0.5 "
            "and 0.8 both correct 5 of 160 clean pairs; 0.5 makes 3 of 491 right verdicts inconclusive, 0.8 one"
        ),
    ),
    _convention(
        "machine.functions", 10, "count", "functions that show one factor: fewer may all have more to do"
    ),
    ("per-call.dearer", noise.LEAST_LOSS, "factor", "loss.least, of the cost of each call"),
    _convention("yardstick.least", 0.01, "s", "start-up work from which its factor is meaningful"),
    ("input.larger", 1.08, "factor", "memory, or bytes read: repeats of one program differ by up to 1.063"),
    _convention(
        "input.larger-throughout",
        1.03,
        "factor",
        "memory, if each of several repeats needed more than all of the other side",
    ),
    _convention("input.larger-bytes", 2e6, "bytes", "least growth of memory or bytes read"),
    ("speed.part", 0.5, "share", "part.most"),
    ("speed.all", 0.8, "share", "the loss is CPU time and nothing else (definition)"),
    (
        "programs.residue",
        0.5,
        "share",
        "most of either side's time is in functions that the other lacks (definition)",
    ),
    _convention(
        "programs.another",
        0.9,
        "share",
        "part of a project's functions, by number and by time, that the other side lacks",
    ),
    ("programs.threads", 0.1, "share", f"clean pairs stay below it ({_SEVEN})"),
    (
        "moved.tv",
        noise.TV_P99,
        "share",
        f"99th percentile of the time that moves between functions in clean pairs ({_SEVEN})",
    ),
    ("moved.tv95", noise.TV_P95, "share", f"95th percentile ({_SEVEN})"),
    # Plain profiles
    ("repeats.least", noise.MIN_RUNS_NOISE, "count", "the spread of two repeats means little"),
    (
        "repeats.noisier",
        0.5,
        "factor",
        f"mean ln of the ratio of scatters: 1 of 282 clean pairs of five runs, 61 of 73 contended ({_BENCH})",
    ),
    _convention("repeats.sigmas", 3.0, "factor", "standard deviations beyond which repeats' totals differ"),
    (
        "starved.holds",
        starvation_weights.ONE_RUN.threshold,
        "share",
        "1.5 % of pairs without contention are called so, by weights learnt on other programs (benchmarks/verdict)",
    ),
    # One run alone
    _convention("alone.wall", 0.5, "s", "a shorter run is mostly start-up"),
    _convention("alone.waits", 0.3, "share", "off the CPU; less is hardly waiting"),
    ("alone.most", 0.5, "share", "most of the wall (definition)"),
    ("alone.ranks", 0.3, "share", f"more ranks than CPUs ({_BENCH}, pipeline_mpi)"),
    ("wait.twice", 0.3, "share", "twice wait.much"),
    _convention("alone.working", 0.5, "cores", "half of one worker"),
    _convention("workers.busy", 0.5, "share", "half of one worker, as a part of the wall"),
    # Which finding is named, and with what confidence
    _convention(
        "findings.about-equal",
        0.15,
        "share",
        "share of the lost time × confidence: if closer than this, the order of rules decides",
    ),
    _convention(
        "confidence.named", 0.5, "share", "a finding stated lower is shown, but not named as the cause"
    ),
    _convention(
        "confidence.shown",
        0.7,
        "share",
        "a confidence that doubts lower below this is not shown: it was learnt without doubts",
    ),
    _convention(
        "confidence.together", 0.9, "share", "factor on the confidence of each of two causes at once"
    ),
    _convention(
        "confidence.both-failed", 0.8, "share", "factor if both targets failed: how far they got is not known"
    ),
    _convention(
        "confidence.python-differs", comparability.PYTHON, "share", "factor if the versions of Python differ"
    ),
    _convention(
        "confidence.cpu-differs", comparability.CPU_MODEL, "share", "factor if the CPU models differ"
    ),
    _convention(
        "confidence.host-differs",
        comparability.HOST,
        "share",
        "factor if the hosts differ and the CPU models do not",
    ),
    ("headline.same-time", 1.005, "factor", "ratio of two walls that reads as 1.00× (rounding)"),
    _convention(
        "headline.same-rate",
        1.1,
        "factor",
        "ratio of two walls over that of iteration rates, up to which a headline shows the rates",
    ),
    ("headline.no-loss", 1.05, "factor", "loss.least: a smaller loss is no alarm"),
    ("headline.lacked-cpus", 0.3, "share", "wait.twice, on both sides"),
    # Noise of the account's buckets, one run a side: part of the baseline's wall
    ("noise.startup", 0.037, "share", _CLEAN),
    (
        "noise.imports",
        0.4,
        "share",
        f"part of the baseline's imports; 95th percentile of 61 clean pairs: AMD 0.4, Intel 0.2 ({_BENCH})",
    ),
    ("noise.work", 0.01, "share", f"{_CLEAN}: 0.001; 99th percentile 0.006"),
    ("noise.code", 0.01, "share", f"{_CLEAN}: 0; as noise.work"),
    ("noise.speed", 0.12, "share", f"{_CLEAN}: 0.109; beside the same other program 0.141"),
    ("noise.queue", 0.051, "share", _CLEAN),
    ("noise.queue-again", 0.35, "share", _NEIGHBOUR),
    ("noise.blocked", 0.012, "share", _CLEAN),
    ("noise.loading", 0.011, "share", _CLEAN),
    ("noise.imbalance", 0.01, "share", f"{_CLEAN}: 0; as noise.work"),
    ("noise.rest", 0.022, "share", _CLEAN),
    ("noise.gil", 0.012, "share", "as noise.blocked, of which it was a part"),
    ("noise.gc", 0.01, "share", "as noise.work"),
    ("noise.gpu", 0.02, "share", "as noise.rest; two clean runs on an H100 differ by 0.014"),
    # Used in measuring: named as in profkit.measure or profkit.compare
    _convention(
        "threads.work",
        side_facts.WORKS,
        "share",
        "part of the wall for which a working thread runs or queues",
    ),
    ("functions.share", noise.MIN_SHARE, "share", "part of the self time; less is noise"),
    ("functions.seconds", noise.MIN_SECONDS, "s", "a context switch of an idle machine takes 1 to 4 ms"),
    (
        "functions.own-noise",
        noise.OWN_NOISE_SHARE,
        "share",
        (
            "part of the self time from which a change beyond a function's own noise counts: none in 48 "
            "clean pairs of five runs (4 programs)"
        ),
    ),
    _convention(
        "functions.sigmas",
        function_table.SIGMAS,
        "factor",
        "standard deviations of repeats beyond which a change is no noise",
    ),
    _convention(
        "functions.less-of-defined",
        function_table.LESS_OF_DEFINED,
        "factor",
        "factor on a sampled side's unseen seconds for a function that it defines",
    ),
    ("functions.climb", noise.CLIMB_P99, "factor", "99th percentile over 360 clean pairs (4 programs)"),
    (
        "order.distance95",
        noise.RBO_P95,
        "distance",
        f"95th percentile of the distance of two rankings ({_SEVEN})",
    ),
    (
        "order.distance99",
        noise.RBO_P99,
        "distance",
        f"99th percentile of the distance of two rankings ({_SEVEN})",
    ),
    _convention("order.depth", ranking.DEPTH, "count", "functions that enter the distance"),
    ("order.nearly-equal", noise.NEARLY_EQUAL, "share", "half of moved.tv95: equal functions change places"),
    (
        "order.deviations",
        estimates.NORMAL,
        "factor",
        "half of the 95 % interval of a normal variable, in standard deviations",
    ),
    ("repeats.scatter", noise.MIN_SCATTER, "factor", "least scatter of ln of a time: clock and rounding"),
    (
        "repeats.clean-scatter",
        noise.CLEAN_SCATTER,
        "factor",
        "the least of the medians of clean programs, 0.025 to 0.05",
    ),
    ("repeats.test", noise.MIN_RUNS_TEST, "count", "with 3 runs a side, p cannot be below 0.10"),
    (
        "loss.least",
        noise.LEAST_LOSS,
        "factor",
        f"ratio of the medians of repeats; none of 392 clean pairs reaches it ({_BENCH})",
    ),
    ("loss.errors", noise.ERRORS_OF_LOSS, "factor", "standard errors, with loss.least"),
    ("loss.p", noise.P_OF_LOSS, "share", "p-value of the rank-sum test, with loss.least"),
    ("calls.changed", sampled_calls.CALLS_CHANGED, "share", "change of a function's calls: work.calls"),
    _convention("loops.calls", longer_loops.LOOP_CALLS, "count", "calls that show the length of a loop"),
    _convention(
        "loops.per-call", longer_loops.LOOP_PER_CALL, "count", "calls per call that come from a loop"
    ),
    (
        "waits.looks",
        pause_seconds.ENOUGH_LOOKS,
        "count",
        "a share of ten looks has a standard error of 0.16 at most; on a busy machine one look may stand for 0.1 s",
    ),
    _convention(
        "waits.one-kind",
        pause_seconds.ONE_KIND,
        "share",
        "seen waiting of one kind from which all of a function's is; set with one program in sight",
    ),
    ("calls.none-seen", estimates.NONE_SEEN, "count", "the rule of three (Hanley and Lippman-Hand 1983)"),
    ("code.still-there", movement.STILL_THERE, "share", "less is another program: programs.residue"),
    _convention(
        "code.root",
        movement.ROOT_SHARE,
        "share",
        "part of the greatest cumulative time from which all is below a function",
    ),
    ("code.below", origins.MOSTLY_BELOW, "share", "part.most: a function that is mostly changed code"),
    _convention("code.others", origins.FEWEST_OTHERS, "count", "functions that show a common factor"),
    ("code.alone", origins.ALONE, "share", "one-function.part, of the changed calls"),
    _convention(
        "code.called-again",
        origins.CALLED_AGAIN,
        "count",
        "calls on each side from which a function's loop counts as its code",
    ),
    _convention(
        "code.folded",
        folded_functions.LEAST_PART,
        "share",
        "part of a folded function's time from which its caller counts as changed too",
    ),
    _convention(
        "waits.serves",
        waiting_rows.SERVES,
        "share",
        "part of a function's calls that come from waiting functions",
    ),
    ("waits.wraps", waiting_rows.WRAPS, "share", "part.most, of a function's time in waiting functions"),
    _convention("iterations.least", iterations.MIN_ITERATIONS, "count", "a median of fewer means little"),
    ("iterations.warm-up", iterations.WARM_UP_FACTOR, "factor", f"repeats vary by up to 1.36× ({_SEVEN})"),
    _convention("iterations.warm-up-most", iterations.WARM_UP_MOST, "share", "of all iterations"),
    (
        "signs.small",
        starvation_signs.SMALL[0],
        "s",
        "least self time of a function that shows a lost slice: below it is the clock's noise",
    ),
    _convention(
        "signs.not-small",
        starvation_signs.SMALL[1],
        "s",
        "most self time of such a function: a slice is small against more",
    ),
    _convention("signs.lump", starvation_signs.LUMP_S, "s", "least lost time; a time slice is longer"),
    _convention(
        "signs.lump-part",
        starvation_signs.LUMP_PART,
        "share",
        "the same, as a part of the function's usual time",
    ),
    _convention(
        "lumps.like", starvation_signs.LIKE, "share", "part of the median within which slices are alike"
    ),
    _convention("lumps.fewest", 3, "count", "fewest slices that show whether they are alike"),
    (
        "lumps.alike",
        0.6,
        "share",
        (
            "part of the lost slices: at most 0.54 beside busy programs, at least 0.6 under quotas and stop "
            f"signals ({_BENCH} and the shared corpus of 4 programs)"
        ),
    ),
    ("lumps.ticks", 8e-3, "s", "two timer ticks at 250 Hz: other programs take such slices too"),
    _convention(
        "lumps.of-quota", 0.025, "s", "a quarter of the period of a quota, which is 100 ms by default"
    ),
    _convention("lumps.period", 0.09, "s", "nine tenths of that period: the program runs in the rest"),
    _convention(
        "signs.fewest", starvation_signs.FEWEST, "count", "fewest functions that show a distribution"
    ),
    _convention(
        "signs.large", starvation_signs.LARGE, "share", "part of the self time from which a function is large"
    ),
    _convention(
        "signs.scatter",
        starvation_signs.SCATTER_SHARE,
        "share",
        "part of the self time from which a function's scatter counts",
    ),
    _convention("signs.bound", starvation_signs.MOST_LOG, "factor", "limit on ln of a ratio"),
    ("signs.depth", starvation_signs.DEPTH, "count", "order.depth"),
)

#: By id.
THRESHOLDS: Mapping[str, Threshold] = {row[0]: Threshold(*row) for row in _TABLE}


def value(name: str) -> float:
    """Return the value of a threshold; raise `KeyError` for an unknown name."""
    return THRESHOLDS[name].value
