"""Run files: what is read can be written, and is then read as the same."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from fuzz.mutate import Mutation, packed, unpacked
from fuzz.scratch import folder
from fuzz.target import Target, Wrong
from fuzz.targets import pstats
from profkit.errors import FormatError
from profkit.formats import load_run, write_run
from profkit.formats.load import join_ranks, ranks_joined
from profkit.model import Job, Manifest, Run


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    path, copy = folder() / "run.prof", folder() / "copy.prof"
    path.write_bytes(data)
    try:
        load_run(path, edges=False)
    except FormatError:
        with_edges = False
    else:
        with_edges = True
    try:
        run = load_run(path)
    except FormatError:
        return
    if not with_edges:
        raise Wrong("a run is read with edges and refused without")
    write_run(copy, run)
    first = copy.read_bytes()
    write_run(copy, load_run(copy))
    if copy.read_bytes() != first:
        raise Wrong("a run is read as another one after it was written")
    if run.manifest is not None:
        _check_joined(run, run.manifest)


def _check_joined(run: Run, manifest: Manifest) -> None:
    """Two ranks of one job become one run, and files of two jobs do not."""

    def rank(number: int, size: int, job: str) -> Run:
        return replace(run, manifest=replace(manifest, job=Job(id=job, rank=number, world_size=size)))

    first = rank(0, 2, "1")
    with contextlib.suppress(FormatError):  # more calls than a run can make
        for runs in ([rank(1, 2, "1"), first], [first]):
            if len(join_ranks(runs).processes) != len(runs) * len(run.processes):
                raise Wrong("joined ranks have other processes")
        (joined,) = ranks_joined([rank(1, 2, "1"), first])
        if len(joined.processes) != 2 * len(run.processes):
            raise Wrong("the ranks of a job are no run")
    for other in (rank(1, 2, "2"), rank(1, 3, "1"), rank(0, 2, "1")):
        try:
            join_ranks([first, other])
        except FormatError:
            continue
        raise Wrong("files of two runs are joined")


def change_member(name: str, data: bytes, mutation: Mutation) -> bytes:
    """Change a member of a run file by what it is."""
    if name.endswith(".json"):
        return mutation.json_bytes(data)
    if name.endswith(".npy"):
        return mutation.column(data)
    return mutation.bytes_of(data, len(data) + 64)


def mutate(data: bytes, mutation: Mutation) -> bytes:
    """Change members of the archive, the plain profile before it, or any byte."""
    found = unpacked(data)
    if found is None or mutation.random.random() < 0.05:
        return mutation.bytes_of(data, TARGET.most_bytes)
    front, members = found
    if mutation.random.random() < 0.05:
        front = pstats.mutate(front, mutation)
    if not members:
        return packed(front, members)
    # JSON has most of the meaning, and is two members of sixty.
    documents = [name for name in members if name.endswith(".json")]
    if documents and mutation.random.random() < 0.5:
        name = mutation.random.choice(documents)
        members[name] = mutation.json_bytes(members[name])
    else:
        members = mutation.members(members, lambda name, old: change_member(name, old, mutation))
    return packed(front, members)


TARGET = Target(check, mutate, 64 << 10, quick=800)
