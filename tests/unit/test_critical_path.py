"""One run along its critical path: which seconds are whose, and which functions wait by design."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profkit.compare.waiting_rows import waiting_rows
from profkit.measure.composition import Composition
from profkit.measure.critical_path import compose, least_beside
from profkit.measure.group_waits import group_waits
from profkit.measure.imports import import_seconds
from profkit.measure.path_reading import PathReading, path_rank, read_path
from profkit.measure.selected_processes import select
from profkit.measure.waits_by_name import is_wait, reads_files, waits_for_gpu, waits_for_ranks
from profkit.model import BUILTIN, PROJECT, STDLIB, Paths, Process, Profile, Roots, Run, Thread
from profkit.model.arrays import spread
from profkit.model.pauses import WAITS, Pause
from profkit.verdict.diagnosis import diagnose as diff
from tests.builders import Row, profile
from tests.programs import ACQUIRE, Fn, one_side, program
from tests.shared import words_of

#: Rows of the readings below.
MAIN, JOB, LOCK, DOT, REDUCE, POLL = range(6)
ROWS = 6


def row(**seconds: float) -> np.ndarray:
    """Seconds by row, from names of rows."""
    values = np.zeros(ROWS)
    for name, value in seconds.items():
        values[globals()[name]] = value
    return values


def reading(
    own: np.ndarray,
    off: np.ndarray | None = None,
    wait: np.ndarray | None = None,
    *,
    startup: float = 0.0,
    helpers: np.ndarray | None = None,
    helpers_run: float | None = None,
) -> PathReading:
    """A traced thread that ran, queued and stood still as its functions say."""
    none = np.zeros(ROWS)
    off, wait, helpers = (none if given is None else given for given in (off, wait, helpers))
    life = float(own.sum())
    return PathReading(
        wall_s=life + startup,
        life_s=life,
        run_s=float((own - off - wait).sum()),
        queue_s=float(wait.sum()),
        own=own,
        own_wait=wait,
        own_blocked=off,
        helpers=helpers,
        helpers_blocked=none,
        helpers_wait=none,
        helpers_run_s=float(helpers.sum()) if helpers_run is None else helpers_run,
        helpers_queue_s=0.0,
        delivery_s=0.0,
    )


def composed(of: PathReading, beside: float = 0.0) -> Composition:
    """Compose it; the parts always add up to the wall."""
    which = np.arange(ROWS)
    nothing = np.zeros(ROWS, np.bool_)
    waits, ranks = np.isin(which, (LOCK, POLL)), which == REDUCE
    found = compose(of, waits, ranks, compute=nothing, gpu=ranks, beside=beside)
    assert found.wall_s == pytest.approx(of.wall_s, rel=1e-12)
    return found


def seconds(values: np.ndarray) -> dict[int, float]:
    """Rows that have any."""
    return {int(i): pytest.approx(float(values[i])) for i in np.flatnonzero(np.abs(values) > 1e-12)}


def kinds(**rows: np.ndarray) -> np.ndarray:
    """Seconds by kind of waiting and row."""
    return np.array([rows.get(what, np.zeros(ROWS)) for what in WAITS])


SECONDS = st.floats(0.0, 100.0)
BY_ROW = st.lists(SECONDS, min_size=ROWS, max_size=ROWS).map(np.array)
PARTS = st.lists(st.floats(0.0, 0.5), min_size=ROWS, max_size=ROWS).map(np.array)
BY_KIND = st.lists(BY_ROW, min_size=len(WAITS), max_size=len(WAITS)).map(np.array)
#: Fields of a reading that its functions do not decide: seconds of all, and seconds of each function.
TOTALS = words_of(
    "run_s queue_s helpers_run_s helpers_queue_s native_run_s native_queue_s helpers_starts_s delivery_s "
    "children_run_s"
)
COLUMNS = words_of("helpers helpers_blocked helpers_wait own_imports helpers_imports")


@given(
    st.builds(reading, BY_ROW, startup=SECONDS),
    *(PARTS, PARTS),
    st.fixed_dictionaries(
        {
            **dict.fromkeys(TOTALS, SECONDS),
            **dict.fromkeys(COLUMNS, BY_ROW),
            "helpers_number": st.integers(0, 9),
        }
    ),
    st.none() | st.tuples(BY_KIND, BY_KIND, BY_ROW, BY_ROW, BY_ROW),
    SECONDS,
)
def test_parts_add_up_whatever_clocks_and_samples_say(
    of: PathReading, off: np.ndarray, wait: np.ndarray, known: dict, pauses: tuple | None, beside: float
) -> None:
    known["native_run_s"] = min(known["native_run_s"], known["helpers_run_s"])
    known["native_queue_s"] = min(known["native_queue_s"], known["helpers_queue_s"])
    known["children_run_s"] = min(known["children_run_s"], known["helpers_run_s"] - known["native_run_s"])
    if pauses is not None:
        names = ("own_waits", "helpers_waits", "helpers_locked", "collected", "held")
        known |= dict(zip(names, pauses, strict=True))
    found = composed(replace(of, own_blocked=off * of.own, own_wait=wait * of.own, **known), beside)
    for part in ("run", "blocked", "waits", "imports", "gil", "collected"):
        assert (getattr(found, part) is None) or (getattr(found, part) >= -1e-9).all(), part


def test_the_least_of_floats_is_spread_too() -> None:
    assert spread(0.5, np.array([5e-324, 0.0])).tolist() == [0.5, 0.0]


def test_who_has_the_interpreters_lock_runs_for_itself() -> None:
    """The main thread waits for its turn for 3 s while another one of Python runs, and then for that one for 1 s."""
    of = reading(row(MAIN=5.0, LOCK=1.0), row(MAIN=3.0, LOCK=1.0), helpers=row(JOB=4.0))
    waits = kinds(gil=row(MAIN=3.0), lock=row(LOCK=1.0))
    found = composed(replace(of, own_waits=waits, helpers_waits=kinds()))
    assert seconds(found.gil) == {MAIN: 3.0}
    assert seconds(found.run) == {MAIN: 2.0, JOB: 1.0}
    assert seconds(found.blocked) == {}
    folded = found.without_pauses()
    assert seconds(folded.blocked) == {MAIN: 3.0}
    assert folded.wall_s == pytest.approx(found.wall_s)


def test_threads_that_spin_are_not_what_an_answer_is_waited_for() -> None:
    """A thread of BLAS runs while the main thread waits for a socket for 4 s, and for 1 s in which it helps."""
    of = reading(row(MAIN=1.0, LOCK=4.0, DOT=1.0), row(LOCK=4.0, DOT=1.0), helpers_run=5.0)
    before = composed(replace(of, native_run_s=5.0))
    assert seconds(before.blocked) == {}
    of = replace(of, own_waits=kinds(socket=row(LOCK=4.0), lock=row(DOT=1.0)), helpers_waits=kinds())
    found = composed(replace(of, native_run_s=5.0))
    assert float(found.blocked.sum()) == pytest.approx(4.0)
    assert float(found.off_by[WAITS.index("socket")].sum()) == pytest.approx(3.2)
    # A process may be what answers.
    assert seconds(composed(replace(of, native_run_s=0.0)).blocked) == {}


def test_threads_that_spin_end_no_wait_for_a_lock_of_python() -> None:
    """A thread of BLAS spins while the main thread waits for 4 s for a queue, which another thread fills late."""
    of = reading(row(MAIN=1.0, LOCK=4.0), row(LOCK=4.0), helpers_run=5.0)
    of = replace(of, native_run_s=5.0, own_waits=kinds(lock=row(LOCK=4.0)), helpers_waits=kinds())
    found = composed(of)
    assert float(found.run.sum()) == pytest.approx(1.0)
    assert float(found.blocked.sum() + found.loading_s) == pytest.approx(4.0)
    # Unless that thread computes with the threads of BLAS.
    filled = composed(replace(of, helpers_blocked=row(DOT=4.0), helpers_waits=kinds(lock=row(DOT=4.0))))
    assert float(filled.blocked.sum() + filled.loading_s) == pytest.approx(0.0)


def test_starts_of_processes_are_no_work_of_their_functions() -> None:
    """A helper runs for 3 s, 1 s of it in a function; the tracer saw that 1.5 s were before and after."""
    of = reading(row(MAIN=1.0, LOCK=3.0), row(LOCK=3.0), helpers=row(JOB=1.0), helpers_run=3.0)
    assert seconds(composed(of).run) == {MAIN: 1.0, JOB: 3.0}
    found = composed(replace(of, helpers_starts_s=1.5))
    assert seconds(found.run) == {MAIN: 1.0, JOB: 1.5}
    assert (found.startup_s, found.starts_s) == (pytest.approx(1.5), pytest.approx(1.5))


def unseen(of: PathReading, off: float, **more: object) -> PathReading:
    """The same by plain cProfile, whose thread was off the CPU for so long by the kernel's counters."""
    life = of.life_s or 0.0
    return replace(of, own_wait=None, own_blocked=None, run_s=life - off, **more)


def test_who_was_stopped_while_it_computed_was_kept_by_no_helper() -> None:
    """4 s off the CPU in functions that wait for nothing, beside a worker process that runs for 3 s."""
    of = reading(row(MAIN=6.0, DOT=2.0), helpers_run=3.0)
    stopped = composed(unseen(of, 4.0, helpers_number=1))
    assert float(stopped.blocked.sum()) == pytest.approx(4.0)
    # A native function may have waited for threads of its library, a lock for another thread.
    assert float(composed(unseen(of, 4.0, native_run_s=3.0)).blocked.sum()) == pytest.approx(1.0)
    waiting = reading(row(MAIN=4.0, LOCK=4.0), helpers_run=3.0)
    assert float(composed(unseen(waiting, 4.0)).blocked.sum()) == pytest.approx(1.0)


def test_who_runs_beside_the_path_does_not_run_while_it_waits() -> None:
    """A thread of BLAS spins beside the main thread; then both are stopped for half of the time."""
    clean = unseen(reading(row(DOT=4.0), helpers_run=4.0), 0.0, native_run_s=4.0, helpers_number=1)
    assert least_beside(clean) == pytest.approx(1.0)
    stopped = unseen(reading(row(DOT=8.0), helpers_run=4.0), 4.0, native_run_s=4.0, helpers_number=1)
    assert least_beside(stopped) == 0.0
    assert float(composed(stopped).blocked.sum()) == 0.0
    assert float(composed(stopped, least_beside(clean)).blocked.sum()) == pytest.approx(4.0)
    # Two workers that run at the same time need no third moment for it.
    two = unseen(reading(row(LOCK=4.0, MAIN=1.0), helpers_run=8.0), 4.0, helpers_number=2)
    assert least_beside(two) == 0.0


def test_who_polls_waits_for_who_works() -> None:
    """The main thread polls for 4 s, in which a worker computes for 3 s and polls for work for 1 s."""
    of = reading(row(MAIN=1.0, POLL=4.0), helpers=row(JOB=3.0, LOCK=1.0))
    found = composed(of)
    assert seconds(found.run) == {MAIN: 1.0, JOB: 3.0}
    assert seconds(found.waits) == {POLL: 1.0}
    # Samples miss some of a worker's time: it goes to what the worker is known to do.
    missed = composed(replace(of, helpers_run_s=4.5))
    assert seconds(missed.run) == {MAIN: 1.0, JOB: 3.5}


def test_a_worker_that_waits_for_work_keeps_nobody_waiting() -> None:
    of = reading(row(MAIN=1.0, LOCK=4.0), row(LOCK=4.0), helpers=row(JOB=1.0))
    of = replace(of, helpers_blocked=row(JOB=3.0, DOT=3.0))
    assert seconds(composed(of).blocked)[DOT] == pytest.approx(12 / 7)
    of = replace(of, own_waits=kinds(), helpers_waits=kinds(pipe=row(JOB=3.0), disk=row(DOT=3.0)))
    found = composed(of)
    assert seconds(found.blocked) == {DOT: 3.0}
    assert seconds(found.off_by[WAITS.index("disk")]) == {DOT: 3.0}


def test_collections_and_imports_are_parts_of_their_own() -> None:
    of = reading(row(MAIN=2.5, LOCK=4.0), row(LOCK=4.0), helpers=row(JOB=3.0, DOT=1.0))
    imports = {"helpers_imports": row(JOB=2.0), "own_imports": row(MAIN=0.5, DOT=1.0)}
    pauses = {"own_waits": kinds(), "helpers_waits": kinds(), "collected": row(MAIN=0.5, JOB=9.0)}
    found = composed(replace(of, **imports, **pauses))
    assert seconds(found.run) == {MAIN: 1.5, JOB: 1.0, DOT: 1.0}
    assert (seconds(found.collected), seconds(found.imports)) == ({MAIN: 0.5}, {MAIN: 0.5, JOB: 2.0})
    # What the main thread imports is its start.
    assert found.own_imports_s == pytest.approx(0.5)
    assert found.wall_s == pytest.approx(composed(of).wall_s)


def test_collections_queue_like_the_functions_that_they_strike() -> None:
    """Their length is read from the clock: 3 s in functions that queue for half of their time are 1.5 s of a CPU."""
    of = reading(row(MAIN=4.0, DOT=2.0), wait=row(MAIN=2.0))
    of = replace(of, own_waits=kinds(), helpers_waits=kinds(), collected=row(MAIN=3.0, DOT=1.0))
    found = composed(of)
    assert seconds(found.collected) == {MAIN: 1.5, DOT: 1.0}
    assert seconds(found.run) == {MAIN: 0.5, DOT: 1.0}


def test_a_mean_of_runs_with_and_without_counters_keeps_what_imports_took() -> None:
    of = reading(row(MAIN=2.0, LOCK=4.0), row(LOCK=4.0), helpers=row(JOB=4.0))
    counted = composed(replace(of, helpers_imports=row(JOB=2.0)))
    bare = composed(replace(of, run_s=None, queue_s=None, own_wait=None, own_blocked=None))
    assert (counted.counters, bare.counters) == (True, False)
    assert Composition.mean([counted, bare]).wall_s == pytest.approx(6.0)


def test_without_a_tracer_functions_that_wait_for_longer_than_the_thread_did_spin() -> None:
    """Counters of the thread, and self times of its functions."""
    known = {"run_s": 5.0, "queue_s": 0.0, "life_s": 6.0, "wall_s": 6.0}
    found = composed(replace(reading(row(MAIN=2.0, POLL=4.0)), own_wait=None, own_blocked=None, **known))
    assert seconds(found.run) == {MAIN: 2.0}
    assert seconds(found.waits) == {POLL: 3.0}
    assert seconds(found.blocked) == {POLL: 1.0}


def test_without_counters_there_are_self_times_alone() -> None:
    of = reading(row(MAIN=3.0, LOCK=2.0, REDUCE=1.0), startup=0.5)
    plain = replace(of, life_s=None, run_s=None, queue_s=None)
    found = composed(plain)
    assert seconds(found.run) == {MAIN: 3.0}
    assert seconds(found.blocked) == {LOCK: 2.0}
    assert (found.imbalance_s, found.queue_s, found.startup_s) == (1.0, 0.0, 0.5)
    assert not found.counters
    assert composed(replace(plain, delivery_s=1.5)).loading_s == 1.5


def job(*busy: float) -> tuple[Process, ...]:
    """Ranks that computed so long, and spun until the slowest was there."""
    found = []
    for number, own in enumerate(busy):
        spun = Fn(
            "<method 'Allreduce' of 'mpi4py.MPI.Comm' objects>", 10, max(busy) - own, callers={"main": 10}
        )
        process = program([Fn("main", 1, own), spun]).processes[0]
        found.append(replace(process, pid=100 + number, role="rank", rank=number))
    return tuple(found)


def test_the_path_goes_through_the_rank_that_computes_longer_than_before() -> None:
    assert path_rank(job(3.0, 2.0), job(3.0, 4.0)) == 1
    # All take as long: who waits spins. The one that computes is the one to look at.
    assert path_rank(job(2.0, 2.0), job(5.0, 2.0)) == 0
    # Of one run it is the one that computes longest.
    alone = job(1.0, 3.0, 2.0)
    assert path_rank(alone, alone) == 1


def staged(process: Process, run_s: float, queue_s: float = 0.0) -> Process:
    """What the process did in a program that it executed before its last one."""
    (earlier,) = program([Fn("stage", 1, run_s, queue_s)]).processes
    return replace(earlier, pid=process.pid, role=process.role, rank=process.rank, exit="replaced")


def test_a_rank_computes_in_all_programs_that_it_executes() -> None:
    """The last one is read, in which it computes for a shorter time than the other rank."""
    first, second = job(2.5, 2.75)
    run = Run("r", (staged(first, 0.5), first, second))
    assert path_rank(run.processes, run.processes) == 0
    assert read_path(run, select(run), 0).run_s == 2.75


def test_programs_that_one_process_executes_in_turn_are_one_main_process() -> None:
    main = program([Fn("main", 1, 3.0)]).processes[0]
    (group,) = group_waits(Run("r", (main, staged(main, 1.0))))
    assert group.name == "main"
    assert [lane.running_s for lane in group.lanes] == [3.0]


class TestReading:
    @staticmethod
    def read(run: Run) -> tuple[PathReading, dict[str, int]]:
        """Read the path, and return the rows by name as well."""
        chosen = select(run)
        names = [chosen.profile.strings[i] for i in chosen.profile.name.tolist()]
        return read_path(run, chosen, None), {name: row for row, name in enumerate(names)}

    def test_workers_and_threads_are_helpers(self) -> None:
        main = [Fn("main", 1, 1.0), Fn(ACQUIRE, 1, 0.0, 0.0, 3.0, {"main": 1})]
        workers = [[Fn("job", 10, 2.0, 0.5, 0.25)]]
        found, at = self.read(program(main, workers=workers, helpers=[(1.0, 0.125)], startup=0.5))
        assert (found.wall_s, found.life_s, found.run_s, found.queue_s) == (4.5, 4.0, 1.0, 0.0)
        job = at["job"]
        assert (found.own[job], found.helpers[job]) == (0.0, 2.0)
        assert (found.helpers_blocked[job], found.helpers_wait[job]) == (0.25, 0.5)
        assert (found.helpers_run_s, found.helpers_queue_s) == (3.0, 0.625)

    def test_what_a_process_did_in_a_program_that_it_replaced_no_helper_did(self) -> None:
        main = [Fn("main", 1, 1.0), Fn(ACQUIRE, 1, 0.0, 0.0, 3.0, {"main": 1})]
        run = program(main, helpers=[(1.0, 0.5)])
        stage = staged(run.processes[0], 2.0, 0.25)
        found, at = self.read(replace(run, processes=(*run.processes, stage)))
        assert (found.run_s, found.helpers_run_s, found.helpers_queue_s) == (1.0, 1.0, 0.5)
        assert (found.own[at["stage"]], found.helpers[at["stage"]], found.helpers_number) == (0.0, 0.0, 1)

    def test_native_threads_of_a_worker_run_for_what_it_runs(self) -> None:
        """The BLAS that a worker started does not compute for the call in which the main thread waits."""
        run = program(
            [Fn("main", 1, 1.0), Fn(ACQUIRE, 1, 0.0, 0.0, 4.0, {"main": 1})],
            workers=[[Fn("whiten", 10, 1.5), Fn("load", 10, 0.5, 0.25)]],
        )
        main, worker = run.processes
        blas = Thread(Profile.empty(), tid=900, run_s=2.0, run_queue_wait_s=1.0)
        worker = replace(worker, cpu_s=(worker.cpu_s or 0.0) + 2.0, threads=(*worker.threads, blas))
        found, at = self.read(replace(run, processes=(main, worker)))
        assert found.helpers[at["whiten"]] == pytest.approx(1.5 + 2.0 * 1.5 / 2.0)
        assert found.helpers[at["load"]] == pytest.approx(0.5 + 2.0 * 0.5 / 2.0)
        assert found.helpers.sum() == pytest.approx(found.helpers_run_s)

    def test_waiting_for_native_threads_is_active(self) -> None:
        waits = Fn("collect", 1, 0.1, 0.0, 4.0, {"main": 1}), Fn(ACQUIRE, 1, 0.0, 0.0, 2.0, {"main": 1})
        run = program([Fn("main", 1, 1.0, 0.0, 0.5), *waits], workers=[[Fn("job", 1, 1.0, 0.0, 1.0)]])
        pool = [Thread(Profile.empty(), tid=900 + i, run_s=1.0, run_queue_wait_s=0.5) for i in range(2)]
        # `main` sleeps, `collect` and the lock wait for another thread; the worker's thread as well.
        kinds = [("sleep", "lock", "lock"), ("lock",)]
        processes = []
        for process, whats in zip(run.processes, kinds, strict=True):
            (thread,) = process.threads
            off = thread.profile.blocked
            pauses = [Pause(i, what, float(off[i]), 10) for i, what in enumerate(whats)]
            threads = (*pool, replace(thread, pauses=tuple(pauses)))
            processes.append(replace(process, threads=threads))
        found = select(replace(run, processes=tuple(processes))).profile
        at = {found.strings[name]: i for i, name in enumerate(found.name.tolist())}
        left = {name: round(float(found.blocked[i]), 6) for name, i in at.items()}
        # The pool was active for 3 s in each process; a wait by design is never active.
        assert left == {"main": 0.5, "collect": 1.0, ACQUIRE: 2.0, "job": 0.0}


@pytest.mark.parametrize(
    ("life", "run", "queue"), [(1.0, 1.04, 0.0), (1.1, 0.6, 0.2), (1.0, 0.7, 0.4), (1.0, 0.3, 0.2)]
)
def test_without_functions_no_part_is_below_zero(life: float, run: float, queue: float) -> None:
    none = np.zeros(0)
    of = replace(reading(np.zeros(ROWS), helpers_run=0.5), helpers_queue_s=0.1)
    of = replace(of, own=none, own_wait=None, own_blocked=None, helpers=none)
    of = replace(of, wall_s=1.0, life_s=life, run_s=run, queue_s=queue)
    nothing = np.zeros(0, np.bool_)
    found = compose(of, waits=nothing, ranks=nothing, compute=nothing, gpu=nothing)
    parts = (found.startup_s, found.own_run_s, found.queue_s, found.helpers_queue_s, found.untraced_blocked_s)
    assert min(parts) >= 0.0
    whole = found.startup_s + found.untraced_run_s + found.queue_s + found.untraced_blocked_s
    assert whole == pytest.approx(1.0)


# Which functions wait by design: by their names, and by whom they call and serve

CONNECTION = "/usr/lib/python3.11/multiprocessing/connection.py"
SELECTORS = "/usr/lib/python3.11/selectors.py"
POLLS = "<method 'poll' of 'select.poll' objects>"
READ = "<method 'read' of '_io.BufferedReader' objects>"


def waiting(*functions: Fn, edges: bool = True) -> set[str]:
    """Names of the functions that wait, in a program whose ``main`` computes as well."""
    run = program([Fn("main", 1, 1.0), *functions])
    found = diff(one_side(run), one_side(run), calls=True)
    rows = waiting_rows(found.table, found.calls if edges else None)
    return {name for name, waits in zip(found.table.name, rows.tolist(), strict=True) if waits}


def test_what_wraps_waiting_waits_where_callers_are_known() -> None:
    functions = (
        Fn("Connection.poll", 100, 0.01, callers={"main": 100}, file=CONNECTION),
        Fn("PollSelector.select", 100, 0.02, callers={"Connection.poll": 100}, file=SELECTORS),
        Fn(POLLS, 100, 0.0, 0.0, 2.0, {"PollSelector.select": 100}),
    )
    assert waiting(*functions) == {"Connection.poll", "PollSelector.select", POLLS}
    assert waiting(*functions, edges=False) == {POLLS}


def test_what_is_called_for_nothing_but_waiting_waits() -> None:
    served = (
        Fn("PollSelector.select", 100, 0.01, callers={"main": 100}, file=SELECTORS),
        Fn(POLLS, 100, 0.0, 0.0, 2.0, {"PollSelector.select": 100}),
        Fn("SelectorKey.__new__", 100, 0.01, callers={"PollSelector.select": 100}, file=SELECTORS),
        Fn("<built-in method builtins.max>", 100, 0.01, callers={"PollSelector.select": 100}),
    )
    assert waiting(*served) == {fn.name for fn in served}
    # The same function that others call as often is theirs too.
    both = {"PollSelector.select": 100, "main": 100}
    shared = Fn("<built-in method builtins.max>", 200, 0.01, callers=both)
    assert waiting(*served[:3], shared) == {fn.name for fn in served[:3]}


def test_a_projects_own_loop_is_the_projects() -> None:
    loop = Fn("wait_for_result", 1, 0.01, callers={"main": 1})
    sleep = Fn("<built-in method time.sleep>", 100, 0.0, 0.0, 2.0, {"wait_for_result": 100})
    helper = Fn("check", 100, 0.01, callers={"wait_for_result": 100})
    assert waiting(loop, sleep, helper) == {sleep.name}


def test_a_library_that_waits_for_the_smaller_part_computes() -> None:
    fit = Fn("fit", 1, 2.0, callers={"main": 1}, file="/usr/lib/python3.11/statistics.py")
    assert waiting(fit, Fn(ACQUIRE, 10, 0.0, 0.0, 0.5, {"fit": 10})) == {ACQUIRE}


def test_what_wraps_reading_computes() -> None:
    """Reading waits, but who reads a file decodes and copies it as well."""
    load = Fn("load", 1, 0.1, callers={"main": 1}, file="/usr/lib/python3.11/json/__init__.py")
    assert waiting(load, Fn(READ, 10, 0.0, 0.0, 2.0, {"load": 10})) == {READ}


@pytest.mark.parametrize(
    ("name", "root", "kinds"),
    [
        ("<method 'Recv' of 'mpi4py.MPI.Comm' objects>", STDLIB, "ranks"),
        ("<built-in method torch._C._distributed_c10d.barrier>", STDLIB, "ranks"),
        ("<method 'allreduce' of 'torch._C._distributed_c10d.ProcessGroup' objects>", STDLIB, "ranks"),
        ("<method 'reduce' of 'numpy.ufunc' objects>", STDLIB, ""),
        ("Comm.Allreduce", STDLIB, ""),
        ("<method 'readinto' of '_io.FileIO' objects>", STDLIB, "waits reads"),
        ("<built-in method posix.read>", STDLIB, "waits reads"),
        ("<built-in method posix.readlink>", STDLIB, ""),
        ("<method 'recv_into' of '_socket.socket' objects>", STDLIB, "waits reads"),
        ("<method '_accept' of '_socket.socket' objects>", BUILTIN, "waits"),
        (ACQUIRE, STDLIB, "waits"),
        (POLLS, STDLIB, "waits"),
        ("<built-in method time.sleep>", STDLIB, "waits"),
        ("<built-in method time.sleep>", BUILTIN, "waits"),
        ("<method 'get' of '_queue.SimpleQueue' objects>", STDLIB, "waits"),
        ("Pool._handle_tasks", STDLIB, "waits"),
        ("<method 'get' of 'dict' objects>", STDLIB, ""),
        ("<method 'join' of 'str' objects>", STDLIB, ""),
        ("Reader.read", STDLIB, ""),
        # A project's own function of such a name may compute.
        ("Queue.wait", STDLIB, "waits"),
        ("Simulation.wait", PROJECT, ""),
        ("<method 'item' of 'torch._C.TensorBase' objects>", STDLIB, "gpu"),
        ("<built-in method torch._C._cuda_synchronize>", STDLIB, "gpu"),
        ("<method 'synchronize' of 'torch._C._CudaEventBase' objects>", STDLIB, "gpu"),
        # A stream waits for the GPU, not the program.
        ("<method 'wait' of 'torch._C._CudaEventBase' objects>", STDLIB, "waits"),
        ("<method 'item' of 'numpy.ndarray' objects>", STDLIB, ""),
        ("synchronize", STDLIB, ""),
    ],
)
def test_what_waits_by_design_or_for_ranks_or_a_gpu_and_what_reads(name: str, root: str, kinds: str) -> None:
    known = {"waits": is_wait(name, root), "ranks": waits_for_ranks(name), "reads": reads_files(name)}
    known["gpu"] = waits_for_gpu(name)
    assert [kind for kind, holds in known.items() if holds] == kinds.split()


def test_a_program_that_is_itself_imported_is_no_import() -> None:
    """``-m`` and launchers import the module that is the program; what that imports is importing."""
    load = "<frozen importlib._bootstrap>", 1, "_find_and_load"
    rows = [
        Row("/w/run.py", 1, "<module>", 1, 9.0),
        Row(*load, 1, 9.0),
        Row("/w/app.py", 1, "<module>", 1, 9.0),
        Row("/w/app.py", 5, "train", 1, 9.0),
        Row("/v/lib/python3.11/site-packages/torch/nn.py", 1, "step", 1, 9.0),
        Row("/v/lib/python3.11/site-packages/torch/__init__.py", 1, "<module>", 1, 9.0),
    ]
    #        run  load  app  train  step  load  torch  step
    parent = [-1, 0, 1, 2, 3, 2, 5, 6]
    function = [0, 1, 2, 3, 4, 1, 5, 4]
    own = np.array([0.5, 0.1, 1.0, 2.0, 4.0, 0.2, 0.4, 0.8])
    paths = Paths(
        np.array(parent, np.int32), np.array(function, np.int32), np.ones(8, np.int64), own, own * 0, own * 0
    ).validate(len(rows))
    thread = Thread(profile(rows), 10, "MainThread", paths=paths)
    of_workers, of_libraries = import_seconds(thread), import_seconds(thread, Roots(project=("/w",)))
    assert of_workers == pytest.approx([0, 0.3, 1.0, 2.0, 4.8, 0.4])
    assert of_libraries == pytest.approx([0, 0.3, 0, 0, 0.8, 0.4])
