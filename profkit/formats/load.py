"""Runs from a file, directory, glob or baseline that a user names; joins the ranks of one job."""

from __future__ import annotations

import glob
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from profkit.errors import FormatError
from profkit.formats.pstats_file import like_it, read_pstats
from profkit.model import (
    Host,
    Machine,
    Manifest,
    Neighbours,
    Notice,
    Process,
    ProfileError,
    Run,
    RunSet,
    Sampler,
    Thread,
)
from profkit.model.notices import missing_ranks
from profkit.model.run import BASELINE

# ZIP's end-of-central-directory record: signature, 18 bytes, and a comment whose size is its last field.
_END_RECORD = b"PK\x05\x06"
_END_RECORD_SIZE = 22
_LONGEST_COMMENT = 0xFFFF

StrPath = str | os.PathLike[str]
_File = TypeVar("_File")


def load_run(path: StrPath, *, edges: bool = True, processes: bool = True) -> Run:
    """Read a run file, a pstats file of any profiler, another tool's file, or a baseline of one run.

    Raise only `FormatError`, or `UsageError` for a baseline that is not there. Without `edges` every
    ``profile.edges`` is ``None``; without `processes` only the manifest is read. A foreign profile is one process
    with one thread; its ``python`` is derived from library paths.
    """
    path = _one_file(path)
    if _tail_is_zip(path):
        from profkit.formats.runfile import read_run

        return read_run(path, edges=edges, processes=processes)
    from profkit.formats.foreign import read_foreign  # with the readers of all formats

    run = read_foreign(path)
    if run is None:
        run = read_pstats(path, edges=edges)
    elif not edges:
        run = _without_edges(run)
    run = _validated(run)
    return run if processes else replace(run, processes=())


def _one_file(path: StrPath) -> StrPath:
    if not os.fspath(path).startswith(BASELINE):
        return path
    files, _ = files_of(path)
    if len(files) > 1:
        raise FormatError(path, f"holds {len(files)} runs", "name one of the files that were saved")
    return files[0]


def _without_edges(run: Run) -> Run:
    def bare(thread: Thread) -> Thread:
        return replace(thread, profile=replace(thread.profile, edges=None))

    return replace(run, processes=tuple(process.with_threads(bare) for process in run.processes))


def _validated(run: Run) -> Run:
    try:
        return run.validate()
    except ProfileError as error:
        raise FormatError(run.path, str(error), "its numbers are damaged; profile again") from None


def _tail_is_zip(path: StrPath) -> bool:
    """Return whether the file ends with a ZIP archive; errors are left to the next reader."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _END_RECORD_SIZE - _LONGEST_COMMENT))
            tail = file.read(_END_RECORD_SIZE + _LONGEST_COMMENT)
    except OSError:
        return False
    at = tail.rfind(_END_RECORD)
    while at >= 0:
        comment = int.from_bytes(tail[at + 20 : at + 22], "little")
        if at + _END_RECORD_SIZE + comment == len(tail):
            return True
        at = tail.rfind(_END_RECORD, 0, at)
    return False


def load_side(spec: StrPath) -> RunSet:
    """Read one side of a comparison, in the order of file names; raise `FormatError` if nothing can be read.

    `spec` is a file, a directory (its own ``*.prof`` files), a glob, or ``baseline:NAME``. Ranks of one job
    become one run; unreadable files go to ``skipped``.
    """
    paths, many = files_of(spec)
    if not many:
        return RunSet(os.fspath(spec), (load_run(paths[0]),))
    runs: list[Run] = []
    errors: list[FormatError] = []
    for path in paths:
        try:
            runs.append(load_run(path))
        except FormatError as error:
            errors.append(error)
    if not runs:
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        raise FormatError(spec, f"none of its files can be read: {errors[0]}{more}")
    return RunSet(os.fspath(spec), tuple(ranks_joined(runs)), tuple(map(skipped, errors)))


def skipped(error: FormatError) -> Notice:
    """Return the notice for an unreadable file."""
    hint = {"hint": error.hint} if error.hint else {}
    return Notice("file-skipped", error.path, {"problem": error.problem, **hint})


def unreadable(notice: Notice) -> FormatError:
    """Return the error that a notice of `skipped` was made of."""
    return FormatError(notice.subject, str(notice.numbers["problem"]), str(notice.numbers.get("hint", "")))


def files_of(spec: StrPath) -> tuple[list[str], bool]:
    """Return a side's files in order, and whether `spec` may name several.

    Raise `FormatError` if there are none; a single file need not exist.
    """
    text = os.fspath(spec)
    if text.startswith(BASELINE):
        from profkit.formats.baselines import store_of

        return list(store_of().read(text.removeprefix(BASELINE)).files), True
    if os.path.isdir(text):
        found = sorted(glob.glob(os.path.join(glob.escape(text), "*.prof")))
        if not found:
            raise FormatError(text, "holds no .prof file", "give the directory that the runs are in")
        return found, True
    if not os.path.lexists(text) and glob.has_magic(text):
        found = sorted(path for path in glob.glob(text, recursive=True) if not os.path.isdir(path))
        if not found:
            raise FormatError(text, "matches no file", like_it(text) or "check the pattern")
        return found, True
    return [text], False


def _rank_of(run: Run) -> int | None:
    return run.job.get("rank")


def ranks_joined(runs: Sequence[Run]) -> list[Run]:
    """Join ranks of one job; the n-th file of each rank, by start time, is of the job's n-th repetition."""
    return [ranks[0] if len(ranks) == 1 else join_ranks(ranks) for ranks in rank_groups(runs)]


def rank_groups(runs: Sequence[Run]) -> list[list[Run]]:
    """Divide files into runs as `ranks_joined` does; a file without a rank is a run of its own."""
    groups: dict[object, list[Run]] = {}
    for i, run in enumerate(runs):
        key: object = i
        if _rank_of(run) is not None:
            # Some launchers give rank and size but no job id; the command then identifies the job.
            key = (run.job.get("id") or run.command, run.job.get("world_size"))
        groups.setdefault(key, []).append(run)
    return [runs for group in groups.values() for runs in repetitions(sorted(group, key=_started), _rank_of)]


def repetitions(files: Iterable[_File], rank_of: Callable[[_File], int | None]) -> list[list[_File]]:
    """Divide the files of a job's ranks, sorted by start, into its runs: the n-th file of each rank."""
    found: list[list[_File]] = []
    seen: Counter[int | None] = Counter()
    for file in files:
        nth = seen[rank_of(file)]
        seen[rank_of(file)] += 1
        if nth == len(found):
            found.append([])
        found[nth].append(file)
    return found


def _started(run: Run) -> str:
    return run.manifest.started if run.manifest is not None else ""


def join_ranks(runs: Sequence[Run]) -> Run:
    """Join the files of one job's ranks, in any order, to one run, lowest rank first.

    Manifest and machine counters are the lowest rank's, the wall is the longest, the exit status the first
    other than 0, the host's CPUs those of all its files. ``warnings`` name missing ranks and differing hosts.
    Raise `ValueError` without runs, and `FormatError` for two jobs, a repeated rank, or more calls than a run
    can make.
    """
    joined, portions = join_files(runs)
    return _validated(replace(joined, processes=tuple(itertools.chain.from_iterable(portions))))


def join_files(
    files: Sequence[StrPath | Run], progress: Callable[[str], None] = lambda doing: None
) -> tuple[Run, Iterator[Sequence[Process]]]:
    """Join as `join_ranks`, with one file's processes in memory at a time.

    Return the run without processes, and an iterator over each file's processes, which raises what `load_run`
    does. `progress` is called before each file.
    """
    heads = [file if isinstance(file, Run) else load_run(file, processes=False) for file in files]
    order = _rank_order(heads)
    if any(head.machine is not None and head.machine.neighbours is not None for head in heads):
        heads = [_with_pids(head, file) for head, file in zip(heads, files, strict=True)]

    def portions() -> Iterator[Sequence[Process]]:
        for number, i in enumerate(order, 1):
            progress(f"file {number} of {len(order)}")
            file = files[i]
            yield _of_rank(file if isinstance(file, Run) else load_run(file))

    return _joined([heads[i] for i in order]), portions()


def _with_pids(head: Run, file: StrPath | Run) -> Run:
    """Return the head of a file with its pids alone: the processes of a job are no neighbours of its ranks."""
    if isinstance(file, Run):
        return head
    pids = [process.pid for process in load_run(file, edges=False).processes]
    return replace(head, processes=tuple(Process(pid=pid) for pid in pids))


def _rank_order(runs: Sequence[Run]) -> list[int]:
    """Check that the runs are of one job, and return their indices, lowest rank first."""
    if not runs:
        raise ValueError("no runs to join")
    _check_one_job(runs)
    ranks = [min(_ranks_of(run), default=None) for run in runs]
    last = max((rank for rank in ranks if rank is not None), default=0) + 1
    return sorted(range(len(runs)), key=lambda i: last if (rank := ranks[i]) is None else rank)


def _check_one_job(runs: Sequence[Run]) -> None:
    """Raise `FormatError` for files of two jobs, as far as launchers name the job, and repeated ranks."""
    named: Run | None = None
    sized: Run | None = None
    seen: dict[int, Run] = {}
    for run in runs:
        job = run.job
        if job.get("id"):
            named = named or run
            if job["id"] != named.job["id"]:
                problem = f"is of a different job or job step than {named.path}"
                raise FormatError(run.path, problem, "name the files of one job")
        if job.get("world_size"):
            sized = sized or run
            if job["world_size"] != sized.job["world_size"]:
                problem = f"is of a job with {job['world_size']} ranks, {sized.path} of one with"
                problem += f" {sized.job['world_size']}"
                raise FormatError(run.path, problem, "name the files of one job")
        for rank in _ranks_of(run):
            if rank in seen:
                problem = f"is rank {rank}, and so is {seen[rank].path}"
                raise FormatError(run.path, problem, "name one file for each rank of one run")
            seen[rank] = run


def _ranks_of(run: Run) -> tuple[int, ...]:
    """Return the rank of a file, or the ranks that were joined in it."""
    rank = _rank_of(run)
    return tuple(run.job.get("ranks") or ()) if rank is None else (rank,)


def _joined(ordered: Sequence[Run]) -> Run:
    """Return a job's run without processes."""
    first = ordered[0]
    warnings = list(dict.fromkeys(warning for run in ordered for warning in run.warnings))
    warnings += _doubts(ordered)
    manifest = first.manifest
    if manifest is not None:
        known = [run.manifest for run in ordered if run.manifest is not None]
        statuses = [m.exit_status for m in known]
        ranks = [rank for run in ordered for rank in _ranks_of(run)]
        job = first.job.copy()
        job.pop("rank", None)
        job.pop("local_rank", None)
        job.pop("node", None)
        manifest = replace(
            manifest,
            wall_s=max(m.wall_s for m in known),
            exit_status=next((status for status in statuses if status), statuses[0]),
            # Without `rank`, the joined file is not taken for rank 0 when read again.
            job={**job, "ranks": tuple(ranks)} if job or ranks else None,
            sampler=_samplers(known),
            host=_host(manifest.host, [m.host for m in known]),
        )
    path = first.path if len(ordered) == 1 else f"{first.path} and {len(ordered) - 1} more"
    return Run(
        path,
        (),
        manifest,
        _machine(first, ordered),
        tuple(warnings),
        # Of the first rank, like the machine: other ranks saw the same host or have another clock.
        first.series,
        _machines(ordered),
    )


def _host(first: Host, hosts: Sequence[Host]) -> Host:
    """Return the first file's host with the CPUs that all files of that host together may use."""
    here = [host for host in hosts if host.name == first.name]
    if not all(host.affinity_cpus for host in here):
        return first
    cpus = tuple(sorted({cpu for host in here for cpu in host.affinity_cpus}))
    return replace(first, affinity=len(cpus), affinity_cpus=cpus)


def _machine(run: Run, runs: Sequence[Run]) -> Machine | None:
    """Return a rank's machine with the CPU time of all ranks that ran on it."""
    if run.machine is None or run.host is None:
        return run.machine
    name = run.host.name
    here = [other for other in runs if other.host is not None and other.host.name == name]
    times = [None if other.machine is None else other.machine.tree_cpu_s for other in here]
    known = [time for time in times if time is not None]
    return replace(
        run.machine,
        tree_cpu_s=sum(known) if len(known) == len(times) else None,
        neighbours=_neighbours(run.machine.neighbours, here),
    )


def _neighbours(found: Neighbours | None, ranks: Sequence[Run]) -> Neighbours | None:
    """Return a rank's neighbours without the other ranks of its host."""
    if found is None:
        return None
    pids = {process.pid for rank in ranks for process in rank.processes}
    own = [one for one in found.listed if one.pid is not None and one.pid in pids]
    if not own:
        return found
    cores = None if found.cores is None else max(0.0, found.cores - sum(one.cores for one in own))
    return replace(found, listed=tuple(one for one in found.listed if one not in own), cores=cores)


def _machines(runs: Sequence[Run]) -> dict[str, Machine]:
    """Return the machine of each host; empty if there is only one."""
    found: dict[str, Machine] = {}
    for run in runs:
        machine = _machine(run, runs)
        if run.host is not None and machine is not None:
            found.setdefault(run.host.name, machine)
        for name, machine in run.machines.items():
            found.setdefault(name, machine)
    return found if len(found) > 1 else {}


def _samplers(manifests: Sequence[Manifest]) -> Sampler | None:
    """Return the first rank's sampler with the CPU time and notices of all."""
    known = [manifest.sampler for manifest in manifests if manifest.sampler is not None]
    if not known:
        return None
    notes = dict.fromkeys(note for each in known for note in each.get("notes", ()))
    return {
        **known[0],
        "cpu_s": sum(each.get("cpu_s") or 0.0 for each in known),
        "notes": tuple(notes),
    }


def _of_rank(run: Run) -> list[Process]:
    """Return a rank's processes, completed from its own manifest."""
    processes = [p if p.host is not None else replace(p, host=run.host) for p in run.processes]
    rank = _rank_of(run)
    if processes and rank is not None and processes[0].rank is None:
        local_rank, node = run.job.get("local_rank"), run.job.get("node")
        processes[0] = replace(processes[0], rank=rank, role="rank", local_rank=local_rank, node=node)
    return processes


def _doubts(runs: Sequence[Run]) -> list[Notice]:
    """Return notices about files that do not fit together as one job."""
    doubts = []
    hosts = {run.host.name for run in runs if run.host is not None}
    if len(hosts) > 1:
        doubts.append(Notice("ranks-on-hosts", "", {"hosts": len(hosts)}))
    ranks = [rank for run in runs for rank in _ranks_of(run)]
    size = max((run.job.get("world_size") or 0 for run in runs), default=0)
    missing = missing_ranks("rank-file-missing", ranks, size) if ranks else None
    return doubts if missing is None else [*doubts, missing]
