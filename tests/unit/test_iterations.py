"""The iteration model: what is taken for what, what bounds an iteration, and what is left out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from profkit.errors import UsageError
from profkit.measure.iterations import IterationModel, IterationNames, iteration_model, typical_model
from profkit.measure.role_parts import COMPUTE, ITERATION, LOAD, NO_ROLE, WAIT, roles_of
from profkit.model import Host, Process, Run
from profkit.model.ranges import Ranges
from profkit.report.iterations import change_sections, model_sections
from tests.builders import Told, ranges
from tests.shared import words_of

#: One range: name, begin, end (milliseconds), thread.
Event = tuple[str, float, float, int]


def _is_around(outer: Event, inner: Event) -> bool:
    return outer[3] == inner[3] and outer[1] <= inner[1] and inner[2] <= outer[2]


def ranges_from(events: Sequence[Event], payload: Sequence[int] | None = None) -> Ranges:
    """Build ranges whose parents are those around them in the same thread."""
    events = sorted(events, key=lambda e: (e[3], e[1], -e[2]))
    payloads = [(0, 0)] * len(events) if payload is None else [(1, number) for number in payload]
    told: list[Told] = []
    open_: list[int] = []
    for i, (event, value) in enumerate(zip(events, payloads, strict=True)):
        while open_ and not _is_around(events[open_[-1]], event):
            open_.pop()
        name, begin, end, thread = event
        times = round(begin * 1e6), round(end * 1e6)
        told.append(Told(name, *times, thread=thread, payload=value, parent=open_[-1] if open_ else -1))
        open_.append(i)
    return ranges(told)


def run_of(*processes: Process) -> Run:
    return Run("a.prof", processes)


def model_of(events: Sequence[Event], names: IterationNames | None = None) -> IterationModel:
    return iteration_model(run_of(Process(pid=7, ranges=ranges_from(events))), names)


def in_turn(n: int = 10, first: float = 0.0) -> list[Event]:
    """A loop that loads and computes in one thread; its first iteration takes `first` more."""
    events: list[Event] = []
    for i in range(n):
        now = 40.0 * i + (first if i else 0.0)
        events += [
            ("load batch", now, now + 30.0, 1),
            ("forward", now + 30.0, now + 34.0, 1),
            ("backward", now + 34.0, now + 40.0, 1),
            (f"step {i}", now, now + 40.0 + (0.0 if i else first), 1),
        ]
    return events


def beside(n: int = 10, load: float = 30.0, compute: float = 10.0, loaders: int = 1) -> list[Event]:
    """A loop that waits for what other threads load, each one batch after the other."""
    events: list[Event] = []
    period = max(load / loaders, compute)
    for i in range(n):
        begin = i * period
        events += [
            (f"step {i}", begin, begin + period, 1),
            ("wait for batch", begin, begin + period - compute, 1),
            ("forward", begin + period - compute, begin + period, 1),
        ]
    for loader in range(loaders):
        count = n // loaders
        each = n * period / count if load / loaders >= compute else load
        events += [
            ("fetch", i * period * loaders, i * period * loaders + each, 10 + loader) for i in range(count)
        ]
    return events


@pytest.mark.parametrize(
    ("role", "names"),
    [
        (LOAD, "load_batch|data/fetch|prefetchBatch"),
        (COMPUTE, "forward|Optimizer.step#SGD.step|optimizer step|Fwd pass"),
        (ITERATION, "step {n}|train_step|Iteration {n}"),
        (WAIT, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__|wait for batch"),
        (NO_ROLE, "validation step|epoch {n}|stepping stone|conv2d|"),
    ],
    ids=["load", "compute", "iteration", "wait", "none"],
)
def test_what_a_name_says(role: int, names: str) -> None:
    for name in words_of(names, "|"):
        assert roles_of([name], [], IterationNames()) == {name: role}


def test_what_else_decides_a_role() -> None:
    batch = ["batch {n}", "forward"]
    # A batch is an iteration if it computes, and is loaded if not.
    for pair, role in ((("batch {n}", "forward"), ITERATION), (("epoch", "batch {n}"), LOAD)):
        assert roles_of(batch, [pair], IterationNames())["batch {n}"] == role
    # What the user says of a role is all of it.
    named = IterationNames(compute=("conv 3",), load=("back*",))
    roles = roles_of(["forward", "backward", "conv {n}"], [], named)
    assert roles == {"forward": NO_ROLE, "backward": LOAD, "conv {n}": COMPUTE}
    for said in (IterationNames(iteration=("step",)), IterationNames(load=("read",))):
        around = [("batch", "forward")] if said.iteration else []
        roles = roles_of(["batch", "step", "read", "forward"], around, said)
        assert roles["batch"] == NO_ROLE, said


def test_in_turn_the_times_add_up() -> None:
    model = model_of(in_turn())
    assert (model.bound, model.overlapped, model.loaders) == ("sum", False, 0)
    assert (model.iteration, model.count, model.left_out) == ("step {n}", 10, 0)
    assert (model.loads, set(model.computes)) == (("load batch",), {"forward", "backward"})
    found = model.duration.median_s, model.compute.mean_s, model.load.median_s, model.predicted_s
    assert found == pytest.approx((0.040, 0.010, 0.030, 0.040))
    assert model.outside.mean_s == pytest.approx(0.0, abs=1e-9)
    assert (model.consumer_wait_share, model.steps_per_s) == pytest.approx((0.75, 25.0))
    assert (model.batch, model.samples_per_s) == (None, None)


@pytest.mark.parametrize("loaders", [1, 3])
def test_beside_a_slow_loader_the_consumer_waits(loaders: int) -> None:
    model = model_of(beside(12, load=40.0 * loaders, compute=10.0, loaders=loaders))
    assert (model.bound, model.overlapped, model.loaders) == ("loading", True, loaders)
    found = model.load.mean_s, model.predicted_s, model.wait.median_s, model.consumer_wait_share
    assert found == pytest.approx((0.040, 0.040, 0.030, 0.75))
    assert model.load.median_s is None
    assert model.waited == model.count == 12


def test_beside_a_fast_loader_computing_is_the_bound() -> None:
    model = model_of(beside(10, load=3.0, compute=10.0))
    assert (model.bound, model.waited, model.consumer_wait_share) == ("compute", 0, 0.0)
    assert model.predicted_s == pytest.approx(0.010)


def test_loaders_in_other_processes_of_the_same_host() -> None:
    own, theirs = (ranges_from([e for e in beside() if (e[3] == 1) is mine]) for mine in (True, False))
    consumer = Process(pid=7, host=Host("a"), ranges=own)
    # The clock of another host says nothing.
    for host, found in (("a", ("loading", 1)), ("b", ("sum", 0))):
        model = iteration_model(run_of(consumer, Process(pid=8, parent=7, host=Host(host), ranges=theirs)))
        assert (model.bound, model.loaders) == found


def test_loader_workers_that_are_restarted_every_epoch_count_by_how_many_run_at_once() -> None:
    own, loads = ([e for e in beside() if (e[3] == 1) is mine] for mine in (True, False))
    consumer = Process(pid=7, ranges=ranges_from(own))
    # One brings five batches, and after its end another one four; or both load all the time.
    for parts, found in (((loads[:5], loads[6:]), (1, 0.027)), ((loads, loads), (2, 0.030))):
        loaders = (Process(pid=8 + i, parent=7, ranges=ranges_from(part)) for i, part in enumerate(parts))
        model = iteration_model(run_of(consumer, *loaders))
        assert (model.loaders, model.load.mean_s) == (found[0], pytest.approx(found[1]))
        assert model.bound == "loading"


def test_without_ranges_around_iterations_one_reaches_to_the_end_of_its_last_range() -> None:
    bare = [e for e in in_turn() if not e[0].startswith("step")]
    model = model_of(bare)
    assert (model.delimited, model.iteration, model.count) == (False, "forward", 10)
    assert (model.duration.median_s, model.consumer_wait_share) == pytest.approx((0.040, 0.75))
    # Loading between iterations belongs to the next.
    model = model_of([*bare, *((f"step {i}", 40.0 * i + 30.0, 40.0 * i + 40.0, 1) for i in range(10))])
    assert model.delimited
    assert (model.duration.median_s, model.load.median_s) == pytest.approx((0.040, 0.030))


def test_nothing_is_counted_twice() -> None:
    inside = {
        "forward": ("conv forward", 1, -1),
        "load batch": ("decode", 1, -1),
        "backward": ("load weights", 0, -1),
    }
    nested = [(*inside[e[0]], e) for e in in_turn() if e[0] in inside]
    around = [("next batch", *e[1:]) for e in in_turn() if e[0] == "load batch"]
    model = model_of([*in_turn(), *around, *((name, e[1] + a, e[2] + b, 1) for name, a, b, e in nested)])
    assert (model.compute.mean_s, model.load.mean_s) == pytest.approx((0.010, 0.030))


def test_a_first_iteration_that_warms_up_is_left_out_with_the_reason() -> None:
    model = model_of(in_turn(20, first=400.0))
    assert (model.count, model.left_out) == (19, 1)
    assert "11.0 times" in model.why_left_out
    assert model.steps_per_s == pytest.approx(25.0)


def test_iterations_without_named_loading_say_so() -> None:
    model = model_of([e for e in in_turn() if e[0] != "load batch"])
    assert (model.bound, model.load, model.wait, model.consumer_wait_share) == (None,) * 4
    assert model.outside.mean_s == pytest.approx(0.030)
    assert "No range marks loading" in str(model_sections(model))


def test_samples_from_the_payload_or_the_user() -> None:
    events = [e for e in in_turn() if e[0].startswith("step")]

    def model(payload: Sequence[int], names: IterationNames | None = None) -> IterationModel:
        return iteration_model(run_of(Process(ranges=ranges_from(events, payload))), names)

    even = model([32] * 10)
    assert (even.batch, even.batch_from) == (32.0, "payload")
    assert even.samples_per_s == pytest.approx(800.0)
    assert model([32] * 9 + [16]).batch == pytest.approx(30.4), "the last batch of an epoch is smaller"
    assert model(([32] * 4 + [7]) * 2).batch == pytest.approx(27.0)
    assert model([16, 16, 16, 32, 32, 32, 64, 64, 64, 64]).batch == pytest.approx(40.0), "a batch that grows"
    for counts in (range(1, 11), [*range(1, 6)] * 2, [*range(3, 6), *range(1, 6), 1, 2], [1] * 5 + [2] * 5):
        assert model(list(counts)).batch is None, "a payload that counts iterations or epochs is no batch"
    told = model(list(range(10)), IterationNames(batch_size=8))
    assert (told.batch, told.batch_from, told.samples_per_s) == (8.0, "--batch-size", pytest.approx(200.0))


def test_nothing_to_say() -> None:
    assert iteration_model(run_of(Process())) is None
    # The last is too few.
    for events in ([], [("conv", 0.0, 1.0, 1)] * 9, in_turn(4)):
        assert model_of(events) is None
    assert typical_model([None]) is None
    assert model_sections(None) == change_sections((None, None)) == []


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("epoch 1 *", ["epoch {n} run", "epoch 1 all"]),
        ("epoch*", ["epoch {n} run", "epoch 1 all"]),
        ("epoch 7 run", ["epoch {n} run"]),
        ("conv1*", ["conv1d"]),
        ("layer [0-3]", ["layer 3"]),
    ],
)
def test_names_with_numbers_and_wildcards(pattern: str, meant: Sequence[str]) -> None:
    names = ["epoch {n} run", "epoch 1 all", "conv1d", "conv2d", "layer 3", "layer {n} x"]
    roles = roles_of(names, (), IterationNames(iteration=(pattern,)))
    assert [name for name, role in roles.items() if role == ITERATION] == meant


def test_names_that_do_not_exist_are_bad_usage() -> None:
    with pytest.raises(UsageError, match=r"iteration x: .*there are: none"):
        iteration_model(run_of(Process()), IterationNames(iteration=("x",)))
    with pytest.raises(UsageError, match="fewer than 5"):
        model_of(in_turn(4), IterationNames(iteration=("step 1",)))
    # Nor are ranges that compute taken for the iterations.
    epochs = [(f"epoch {i}", i * 10.0, i * 10.0 + 10.0, 1) for i in range(3)]
    steps = [("forward", float(i), i + 0.5, 1) for i in range(30)]
    assert model_of([*epochs, *steps]).iteration == "forward"
    with pytest.raises(UsageError, match="fewer than 5"):
        model_of([*epochs, *steps], IterationNames(iteration=("epoch 1",)))


def test_one_side_of_a_comparison_alone() -> None:
    model = model_of(in_turn())
    (only,) = change_sections((None, model))
    (both,) = change_sections((model, model_of(beside())))
    assert (only.title, both.title) == ("Iterations of the candidate", "Iterations")
    assert "take turns" in str(both)
    assert "Bound by loading" in str(both)
