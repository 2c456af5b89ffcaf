"""``profkit attach``: record a running program, with the rights of the user, by agent or py-spy."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from profkit.capture import host, pyspy, remote
from profkit.capture.agent import process_facts, settings
from profkit.capture.agent.process_facts import read_file, read_stat, status_words
from profkit.capture.proc_files import descendants, lives, words
from profkit.capture.provenance import git_state, run_facts, this_process
from profkit.capture.reservation import check_output, free_name, make_spool, reserved
from profkit.capture.sampled_stacks import with_stacks
from profkit.capture.sampler import Sampler
from profkit.capture.spool import remove_spool, write_facts
from profkit.errors import UsageError
from profkit.model import Notice, Run

#: Sources of functions: agent or py-spy, agent alone, py-spy alone, none.
FUNCTIONS = ("auto", "trace", "sample", "none")
#: Seconds to wait for running processes to remove the agent.
_LEAVING_S = 5.0
#: Processes that are asked at the same time to run the agent.
_AT_ONCE = 16
#: Least seconds between scans of /proc for new processes, and the part of a CPU they may take.
_LOOK_S, _LOOK_SHARE = 0.2, 0.005
#: Share of failed readings worth a notice; from Python 3.11 on, programs of small functions lose 20 to 34 %.
_MANY_LOST = 0.05


def attach(
    pid: int,
    output: Path | None = None,
    *,
    duration_s: float = 30.0,
    functions: str = "auto",
    begun: Callable[[Sequence[Notice]], None] | None = None,
    written: Callable[[Path, Run], None] | None = None,
) -> None:
    """Record a process and its descendants for `duration_s`, or until it ends, and write one run file.

    SIGINT and SIGTERM end it earlier. `output` ``None`` picks the first free of ``run.prof``, ``run-2.prof``
    and so on. Raise `UsageError` if the process cannot be read or the output cannot be written.
    """
    target = _Target.found(pid)
    if output is not None:
        check_output(output)
    with free_name(Path("run.prof")) if output is None else reserved(output) as path:
        spool = make_spool(path)
        try:
            with _interrupted() as stop:
                run = _Attachment(target, spool, duration_s, functions, begun).record(stop)
                from profkit.formats.runfile import write_run

                try:
                    write_run(path, run)
                except OSError as error:
                    problem = (
                        f"cannot be written ({error.strerror or error}); free some space, and attach again"
                    )
                    raise UsageError(problem, "output", path) from None
        finally:
            remove_spool(spool)
        if written is not None:
            written(path, run)


@contextlib.contextmanager
def _interrupted() -> Iterator[threading.Event]:
    """Yield an event that SIGINT and SIGTERM set; a second signal has its usual effect."""
    stop = threading.Event()
    before: dict[int, Any] = {}

    def handle(number: int, frame: object) -> None:
        stop.set()
        signal.signal(number, before[number])

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.getsignal(number)
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@dataclass(frozen=True, slots=True)
class _Target:
    pid: int
    born: int
    command: list[str]
    cwd: str
    environment: dict[str, str]

    @classmethod
    def found(cls, pid: int) -> _Target:
        if not sys.platform.startswith("linux") or not os.path.exists("/proc/self/stat"):
            raise UsageError("attaching to a process needs /proc, and there is none here")
        if pid == os.getpid():
            raise UsageError("that is profkit itself; name the process to attach to", "pid", pid)
        try:
            name, fields = read_stat(f"/proc/{pid}/stat")
        except (OSError, ValueError):
            raise UsageError("there is no such process; ps -ef lists those that run", "pid", pid) from None
        whole = _process_of(pid)
        if whole != pid:
            raise UsageError(f"it is a thread; name its process, {whole}", "pid", pid)
        if fields[0] in (b"Z", b"X"):
            raise UsageError("it has ended (zombie process)", "pid", pid)
        if fields[6] == b"-1" and not os.path.exists(f"/proc/{pid}/exe") and not words(pid, "cmdline"):
            raise UsageError("it is a kernel thread; name a program", "pid", pid)
        environment = dict(word.partition("=")[::2] for word in words(pid, "environ"))
        try:
            cwd = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            cwd = ""
        return cls(
            pid,
            int(fields[19]),
            words(pid, "cmdline") or [name],
            cwd,
            settings.recorded_environment(environment),
        )

    def lives(self) -> bool:
        return lives(self.pid, self.born)


def _process_of(pid: int) -> int:
    """Return the process of a thread: the kernel finds threads by number, but does not list them in /proc."""
    with contextlib.suppress(OSError):
        for number in status_words(read_file(f"/proc/{pid}/status"), b"Tgid"):
            return int(number)
    return pid


class _Attachment:
    def __init__(
        self,
        target: _Target,
        spool: Path,
        duration_s: float,
        functions: str,
        begun: Callable[[Sequence[Notice]], None] | None,
    ) -> None:
        self._target = target
        self._spool = spool
        self._duration_s = duration_s
        self._functions = functions
        self._begun = begun
        self._scripts: dict[int, Path] = {}
        self._seen: set[int] = set()
        self._asked: set[int] = set()
        self._refused: dict[tuple[str, str], list[int]] = {}
        self._to_sample: set[int] = set()
        self._pythons = 0
        self._facts: dict[str, Any] = {
            **run_facts(target.command, target.cwd, target.environment),
            "launcher": this_process(),
            "attached": True,
        }

    def record(self, stop: threading.Event) -> Run:
        """Record until the time is over, the target has ended, or `stop` is set; return the run."""
        (self._spool / settings.sampled_mark(process_facts.boot_id())).touch()
        (self._spool / settings.ATTACHED_NAME).touch()
        write_facts(self._spool, self._facts)  # so that the records can be merged if profkit is killed
        before = host.take_reading()
        begin = time.monotonic()
        latest = begin + self._duration_s + pyspy.LONGER_S
        sampler = Sampler(self._target.pid, self._spool, running=True)
        sampling = None
        try:
            self._look(latest)
            until = time.monotonic() + self._duration_s  # asking many processes takes a moment
            sampling = self._sampling()
            self._say_what_is_unseen(sampling)
            due = 0.0
            while (
                (left := until - time.monotonic()) > 0
                and self._target.lives()
                and not stop.wait(min(left, _LOOK_S))
            ):
                if time.monotonic() >= due:
                    cost = time.thread_time()
                    self._look(latest)
                    due = time.monotonic() + (time.thread_time() - cost) / _LOOK_SHARE
                if sampling is not None:
                    sampling.look(self._to_sample)
        finally:
            (self._spool / settings.ATTACHED_NAME).unlink(missing_ok=True)
            ended_ns = time.monotonic_ns()
            self._facts["warnings"] += sampler.finish()
            sampled = sampling.finish() if sampling is not None else None
        self._facts["wall_s"] = (ended_ns / 1e9) - begin
        self._facts["readings"] = [asdict(before), asdict(host.take_reading())]
        self._facts["target"] = {"pid": self._target.pid, "ended_ns": ended_ns}
        self._facts["host"] = asdict(host.read_host())
        self._facts["git"] = git_state()
        self._wait_for_leaving()
        write_facts(self._spool, self._facts)
        return self._packed(sampled)

    def _look(self, until: float) -> None:
        """Ask every new Python of the tree to run the agent, all at once; note those that refuse."""
        chosen = [
            (pid, python)
            for pid in descendants(self._target.pid)
            if (python := self._new_python(pid)) is not None
        ]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            asked = [pool.submit(self._ask, pid, python, until) for pid, python in chosen]
        for (pid, python), answer in zip(chosen, asked, strict=True):
            problem = answer.result()
            if not problem:
                self._asked.add(pid)
            elif lives(pid):
                version = ".".join(map(str, python.version)) + "t" * python.free_threaded
                self._refused.setdefault((version, problem), []).append(pid)
                self._to_sample.add(pid)
        self._to_sample = {pid for pid in self._to_sample if lives(pid)}

    def _new_python(self, pid: int) -> remote.Python | None:
        """Return the interpreter of a process if it is new and to be traced."""
        if pid in self._seen:
            return None
        try:
            python = remote.python_of(pid)
        except PermissionError:
            self._pythons += 1  # presumably a Python
            problem = "access to it was denied: another user's process, or a protected one"
            self._refused.setdefault(("", problem), []).append(pid)
            self._seen.add(pid)
            return None
        if python is None:
            return None  # perhaps not yet a Python
        self._seen.add(pid)
        self._pythons += 1
        if self._functions == "sample":
            self._to_sample.add(pid)
        forked = (self._spool / f"{pid}{settings.TRACED_SUFFIX}").exists()  # by a traced process
        return python if self._functions in ("auto", "trace") and not forked else None

    def _ask(self, pid: int, python: remote.Python, until: float) -> str:
        """Ask a process to run the agent; return the reason if it will not, else an empty text."""
        try:
            problem = remote.another_users(pid) or python.refusal(pid)
            if problem:
                return problem
            script = remote.write_script(pid, self._spool, until)
        except OSError as error:
            return error.strerror or str(error)
        problem = remote.run_in(pid, python, script)
        if problem:
            _remove(script)
        else:
            self._scripts[pid] = script
        return problem

    def _wait_for_leaving(self) -> None:
        """Wait until traced processes have removed the agent; those that make no call do so later."""
        deadline = time.monotonic() + _LEAVING_S
        while time.monotonic() < deadline and any(
            lives(int(path.stem)) for path in self._spool.glob(f"*{settings.TRACED_SUFFIX}")
        ):
            time.sleep(0.02)

    def _sampling(self) -> pyspy.Sampling | None:
        if self._functions not in ("auto", "sample") or not self._pythons or self._asked:
            return None
        command = pyspy.sampler_command()
        if command is None:
            if self._to_sample:
                self._facts["warnings"].append({"code": "attach-no-sampler"})
            return None
        sampling = pyspy.Sampling(command, self._spool, self._duration_s)
        sampling.look(self._to_sample)
        return sampling

    def _say_what_is_unseen(self, sampling: pyspy.Sampling | None) -> None:
        if self._begun is None:
            return
        said = [Notice("attach-begins", "", {"seconds": self._duration_s})]
        if sampling is not None and sampling.rate_hz:
            said.append(
                Notice("attach-samples", "", {"rate": sampling.rate_hz}).at(pids=sorted(self._to_sample))
            )
        elif not self._asked:
            said.append(Notice("attach-counters-only"))
        self._begun(said)

    def _packed(self, sampled: pyspy.Sampled | None) -> Run:
        from profkit.capture.packer import pack_spool
        from profkit.capture.source_cache import Sources, cache_file

        sources = Sources(cache_file(os.environ))
        run = pack_spool(self._spool, sources=sources)
        sources.save()
        assert run.manifest is not None
        said = [Notice("attached", "", {"seconds": run.manifest.wall_s})]
        said += self._said_of_tracing()
        if sampled is not None:
            run = replace(run, processes=with_stacks(run.processes, sampled.threads))
            said += _said_of_sampling(sampled)
        return replace(run, warnings=(*said, *run.warnings)).validate()

    def _said_of_tracing(self) -> list[Notice]:
        """Return what kept processes from being traced, one notice for each reason."""
        found: list[Notice] = []
        if self._functions != "none" and not self._pythons:
            found.append(Notice("attach-not-python"))
        for (version, problem), pids in self._refused.items():
            python = {"python": version} if version else {}
            found.append(Notice("attach-not-traced", problem, python).at(pids=pids))
        for path in sorted(self._spool.glob(f"*{settings.REFUSED_SUFFIX}")):
            with contextlib.suppress(OSError, ValueError):
                problem = path.read_text(encoding="utf-8", errors="replace")[:500]
                found.append(Notice("attach-not-traced", problem).at(pids=[int(path.stem)]))
        for pid, script in self._scripts.items():
            if not lives(pid):
                _remove(script)
        silent = [
            pid
            for pid, script in self._scripts.items()
            if not script.exists() and lives(pid) and not self._heard(pid)
        ]
        if silent:
            found.append(Notice("attach-not-traced", "the agent could not begin in it").at(pids=silent))
        late = [pid for pid, script in self._scripts.items() if script.exists() and lives(pid)]
        if late:
            found.append(Notice("attach-not-reached").at(pids=late))
        return found

    def _heard(self, pid: int) -> bool:
        """Return whether a process's agent left anything, be it why it did not begin."""
        refused = self._spool / f"{pid}{settings.REFUSED_SUFFIX}"
        return refused.exists() or any(self._spool.glob(f"*-{pid}-*"))


def _remove(script: Path) -> None:
    with contextlib.suppress(OSError):
        script.unlink()


def _said_of_sampling(sampled: pyspy.Sampled) -> list[Notice]:
    found: list[Notice] = []
    if sampled.threads:
        numbers = {"rate": sampled.rate_hz, "share": sampled.share}
        found += [Notice("attach-sampled", "", numbers), Notice("foreign-samples", "py-spy")]
    many = {pid: lost for pid, lost in sampled.lost.items() if lost > _MANY_LOST}
    if many:
        found.append(Notice("attach-samples-lost", "", {"share": max(many.values())}).at(pids=many))
    for problem, pids in sampled.problems.items():
        found.append(Notice("attach-not-sampled", problem).at(pids=pids if sampled.threads else ()))
    return found
