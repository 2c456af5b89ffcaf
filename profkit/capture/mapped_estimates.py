"""Calls of a thread's functions: counted one by one, or estimated from the bursts of a sampled process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from profkit.capture import mapped_layout as layout
from profkit.capture.thread_tables import Rows
from profkit.capture.thread_tables import rows as rows_of
from profkit.model.arrays import Bools, Floats, Ints
from profkit.model.bounds import EXACT
from profkit.model.estimates import FEW_SAMPLES, NONE_SEEN, NORMAL

#: Fewest bursts to estimate calls from: the scatter of two says nothing.
FEWEST_BURSTS = 3
#: Parts by which the estimated cost of counting in a burst may be too great or too small: events cost 1.0 to
#: 2.5 times what they do on warm caches, and 1.6 is assumed (native/tracer/tiers.c).
LESS_SLOWED, MORE_SLOWED = 0.4, 0.6
#: Shortest call, in Python or C: 25 to 40 ns on the machines of docs/costs.md.
SHORTEST_CALL_S = 2.5e-8
#: Factor by which calls of a function may become cheaper.
CHEAPER = 2.0
#: Traced calls for each one cut by a change of tier, above which the time of a call is known.
FEWEST_WHOLE = 3
#: Share of the sampled time of a function that never returned; looks miss stacks that cannot be read.
ALWAYS = 0.99


@dataclass(frozen=True, slots=True)
class Bursts:
    """How calls were counted in bursts; `counted`: seldom called functions were counted all the time.

    `lasted_ns` is the length of all bursts without the cost of counting, which `slowed_ns` estimates.
    """

    sampled_ns: int
    number: int
    lasted_ns: int
    slowed_ns: float
    counted: bool

    @property
    def known(self) -> bool:
        """Return whether there were enough bursts to estimate calls."""
        return self.number >= FEWEST_BURSTS and self.lasted_ns > 0

    @property
    def scales(self) -> tuple[float, float, float]:
        """Return how many calls one in a burst stands for: estimate, least and most."""
        lasted, slowed = float(self.lasted_ns), self.slowed_ns
        return (
            self.sampled_ns / lasted,
            self.sampled_ns / (lasted + LESS_SLOWED * slowed),
            self.sampled_ns / max(lasted - MORE_SLOWED * slowed, lasted / 3),
        )


class CallEstimates:
    """The calls of a thread's functions, from their entries and the edges to them.

    `estimated`: by function, whether its calls are estimated where the process was sampled.
    """

    def __init__(
        self, bursts: Bursts, ns_per_tick: float, functions: Rows, edges: Rows, estimated: Bools
    ) -> None:
        self._bursts = bursts
        self._ns_per_tick = ns_per_tick
        self._functions = functions
        self._edges = edges
        self._estimated = estimated

    def calls(self, edges: Rows) -> Ints:
        """Return calls of edges: those traced, and those that bursts stand for."""
        bursts = self._bursts
        seen: Ints = 0 * edges.seen
        if bursts.known:
            seen = np.rint(np.minimum(edges.seen * bursts.scales[0], EXACT)).astype(np.int64)
        counted = self._counted(edges)
        # What was counted for a while is the least number of calls.
        found: Ints = edges.exact + np.where(
            self._estimated[edges.callee], np.maximum(seen, counted), counted
        )
        return found

    def _counted(self, edges: Rows) -> Ints:
        """Return calls of edges that were counted one by one while the process was sampled."""
        counted: Ints = edges.counted
        return counted if self._bursts.counted else 0 * counted

    def sums(self) -> dict[str, Any]:
        """Return the columns of functions: their own, and sums over incoming edges."""
        edges = self._edges
        found: dict[str, Any] = {name: column.copy() for name, column in self._functions.columns.items()}
        columns = edges.columns | {"calls": self.calls(edges), "counted": self._counted(edges)}
        for column in ("calls", "exact", "counted", "seen", "samples", "sampled", "own", "wait", "blocked"):
            found[column] = self._by_callee(columns[column])
        if self._bursts.counted:
            found["recursive"] += np.where(self._estimated, 0, found["counted_recursive"])
        layout.counts(found["calls"])
        # Functions that no burst saw: sampled time over the time of a traced call.
        by_time, _ = self._calls_in_time(found, found["looked"], 1.0)
        unseen = self._estimated & (found["seen"] == 0) & (found["counted"] == 0)
        found["calls"] += np.where(unseen, by_time, 0.0).astype(np.int64)
        return found

    def known(self, functions: dict[str, Any], rows: Bools) -> Rows:
        """Return intervals of calls and errors of times; callers' errors add up, since calls may coincide."""
        samples, squares = functions["samples"], self._by_callee(self._edges.squares)
        sampled_ns = np.maximum(functions["sampled"], 0) * self._ns_per_tick
        look_ns = squares.sum() / max(sampled_ns.sum(), 1.0)
        weight = np.where(samples > 0, squares / np.maximum(sampled_ns, 1.0), look_ns)
        # A function that was called may have no sample by chance.
        none = np.where(functions["seen"] > 0, NONE_SEEN * look_ns, 0.0)
        error = np.where(samples > 0, NORMAL * np.sqrt(squares + FEW_SAMPLES * weight**2), none) / 1e9
        limits = np.full((2, len(samples)), np.nan)
        if self._bursts.known:
            limits = self._limits(functions, look_ns / self._ns_per_tick)
        low, high = np.where(self._estimated, limits, functions["calls"])[:, rows]
        return rows_of("estimates", low, high, samples[rows], error[rows])

    def _limits(self, functions: dict[str, Any], look: float) -> Floats:
        """Return the least and most calls of functions from bursts, NaN if unknown; a look lasts `look` ticks."""
        edges = self._edges
        exact, seen, counted = (functions[column] for column in ("exact", "seen", "counted"))
        # Calls come in groups: the number of independent ones with this scatter (L. Kish, "Survey Sampling").
        groups = np.maximum(edges.seen.astype(np.float64) ** 2 / np.maximum(edges.seen_squares, 1.0), 1.0)
        part = NORMAL / np.sqrt(groups)
        less = self._by_callee(edges.seen * np.minimum(part, 1.0))
        more = self._by_callee(edges.seen * (part + 2 / groups))
        _, least, most = self._bursts.scales
        low = exact + np.maximum((seen - less) * least, np.maximum(seen, counted))
        high = np.maximum(low, exact + (seen + more) * most)
        # Of unseen functions, at most what fits into their time; without time, a Poisson bound (`NONE_SEEN`).
        within, own = functions["looked"], np.maximum(functions["sampled"], 0).sum()
        in_time, known = self._calls_in_time(
            functions, within + NORMAL * np.sqrt(np.maximum(within, 0) * look) + NONE_SEEN * look, CHEAPER
        )
        at_most = np.where(
            within > 0, layout.seconds(within, self._ns_per_tick) / SHORTEST_CALL_S, NONE_SEEN * most
        )
        # What was open when the tier changed and at every look since has not returned, unless it is one that
        # does return: the body of a loop is at most looks as well.
        only_cut = (functions["cut"] > 0) & (exact <= functions["cut"])
        at_most[only_cut & (within >= ALWAYS * own)] = 0.0
        unseen = np.maximum(low, exact + np.where(known, np.minimum(in_time, at_most), at_most))
        high = np.where(seen == 0, unseen, high)
        return np.where((seen == 0) & (exact == 0) & (counted == 0), np.nan, [low, high])

    def _by_callee(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the sum over the edges to each function."""
        found = np.zeros(len(self._functions), values.dtype)
        np.add.at(found, self._edges.callee, values)
        return found

    def _calls_in_time(
        self, functions: dict[str, Any], ticks: npt.NDArray[Any], cheaper: float
    ) -> tuple[Floats, Bools]:
        """Return the calls `cheaper` times faster than traced ones that fit into a time, and where known."""
        traced = np.maximum(functions["total"] - functions["looked"], 0) / cheaper
        known = (functions["exact"] > FEWEST_WHOLE * functions["cut"]) & (traced > 0)
        per_tick = np.divide(functions["exact"], traced, out=np.zeros(len(traced)), where=known)
        return np.rint(np.minimum(ticks * per_tick, 2.0**50)), known
