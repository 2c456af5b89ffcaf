"""The target's process, and what the launcher does beside it; failures there are raised after its end."""

from __future__ import annotations

import contextlib
import importlib
import os
import shlex
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profkit.capture import host
from profkit.capture.agent import process_facts, settings
from profkit.capture.gathered import Gatherer
from profkit.capture.native import nvtx_library, users_tracers
from profkit.capture.provenance import git_state, job, run_facts, this_process
from profkit.capture.sampler import Sampler
from profkit.capture.selection import Selection
from profkit.capture.signal_forwarding import Signals
from profkit.capture.spool import keep_local, reserve_facts, write_facts
from profkit.capture.yardsticks import Yardsticks
from profkit.errors import ProfkitError, UsageError

if TYPE_CHECKING:  # numpy, which starting a target does not need
    from profkit.capture.source_cache import Sources

#: Seconds in which nothing is done beside a target: it imports, and libraries start threads on all CPUs.
_STARTING_S = 0.25
#: Seconds between two looks for a CPU that is free.
_LOOK_S = 0.1
#: A run of fewer seconds has no yardsticks after it: the machine has not changed.
_MOMENT_S = 0.05
#: What packing imports, in pieces that each wait for a free CPU; `numpy.unique` imports `numpy.ma`.
_NEEDED = (
    ("numpy",),
    ("numpy.ma",),
    ("profkit.model", "profkit.capture.records"),
    ("profkit.capture.packer", "profkit.formats.runfile"),
)


class CommandNotFoundError(ProfkitError):
    """The target cannot be started; the exit code is the shell's."""

    def __init__(self, command: str, error: OSError) -> None:
        self.exit_code = 127 if isinstance(error, FileNotFoundError) else 126
        meant = _meant(command)
        super().__init__(f"{command}: {error.strerror or error}" + (f" ({meant})" if meant else ""))


def _meant(command: str) -> str:
    """Return what to type instead of a command that cannot be started; empty if unknown."""
    import difflib  # only here: most captures need neither
    import shutil

    program = {".py": "python", ".sh": "bash"}.get(os.path.splitext(command)[1])
    if os.path.isfile(command):
        if program is not None:
            return f"it is a script: profkit capture -- {program} {shlex.quote(command)}"
        if os.access(command, os.X_OK) and not os.path.dirname(command):
            return f"it is here, but not on PATH: profkit capture -- ./{shlex.quote(command)}"
        return ""
    words = command.split()
    if len(words) > 1 and shutil.which(words[0]):
        return f"leave out the quotes around it: profkit capture -- {command}"
    if os.path.dirname(command):
        return ""
    there: set[str] = set()
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        with contextlib.suppress(OSError):
            there.update(os.listdir(folder))
    found = difflib.get_close_matches(command, sorted(there), 5, 0.75)
    near = [name for name in found if shutil.which(name)][:2]
    return f"did you mean {' or '.join(near)}?" if near else ""


class Target:
    """One target, with arguments as in `launcher.capture`; raise `UsageError` if `spool` is not writable."""

    def __init__(
        self,
        command: list[str],
        environ: Mapping[str, str],
        spool: Path,
        signals: Signals,
        *,
        nvtx_shim: bool,
        selection: Selection,
        overhead: float | None,
    ) -> None:
        self._command = command
        self._spool = spool
        self._signals = signals
        self._sampler: Sampler | None = None
        self._failure: Exception | None = None
        self._sources: Sources | None = None
        self._over = threading.Event()
        self._environment = dict(environ)
        self._environment[settings.OVERHEAD_VARIABLE] = (
            settings.SAMPLES_ONLY if overhead == 0.0 else repr(overhead or 0.0)
        )
        self._selection = selection
        if not selection.counters_only:
            inject = str(Path(__file__).parent / "agent" / "inject")
            inherited = self._environment.get("PYTHONPATH", "")
            # An empty entry means the current directory, an empty path nothing.
            entries = [entry for entry in inherited.split(os.pathsep) if entry != inject] if inherited else []
            self._environment["PYTHONPATH"] = os.pathsep.join([inject, *entries])
            tracers = users_tracers(environ)
            if tracers:
                self._environment[settings.TRACERS_VARIABLE] = tracers
        self._environment[settings.SPOOL_VARIABLE] = str(spool)  # marks processes for the sampler
        counters = selection.counters_only
        nvtx_warnings = [] if counters else _inject_nvtx(self._environment, nvtx_shim)
        self._facts: dict[str, Any] = {
            **run_facts(command, process_facts.cwd(), settings.recorded_environment(environ)),
            "job": job(),
            "warnings": nvtx_warnings,
            "launcher": this_process(),
            **selection.as_facts(),
        }
        try:
            (spool / settings.sampled_mark(process_facts.boot_id())).touch()
            keep_local(spool)
            if selection.kind and hasattr(os, "mkfifo"):
                os.mkfifo(spool / settings.SAMPLER_BELL, 0o600)
            write_facts(spool, self._facts)
            reserve_facts(spool, self._facts)
        except OSError as error:
            raise UsageError(f"{spool}: cannot write there ({error.strerror}); nothing was run") from None
        self._yardsticks = Yardsticks()
        self._yardsticks.read_all("before")  # while nothing else of the capture runs
        # With one CPU, the target must not queue for the tenth of a second that preparing takes.
        self._preparation = threading.Thread(target=self._prepare, name="profkit-preparation", daemon=True)
        self._beside = host.cpus_to_use() > 1
        if not self._beside:
            self._facts["git"] = git_state()

    def start(self) -> None:
        """Start it; raise `CommandNotFoundError` if that fails."""
        self._begin = time.monotonic()
        self._selection.inject(self._environment, {"monotonic": self._begin, "time": time.time()})
        self._facts["begin_ns"] = int(self._begin * 1e9)
        self._facts["yardsticks"] = self._yardsticks.as_facts()
        with contextlib.suppress(OSError):  # for readers of the running capture
            write_facts(self._spool, self._facts)
        self._before = host.take_reading()
        try:
            # Descriptors stay open: shells (`<(…)`), make and MPI's process managers pass some on by number.
            self._process = subprocess.Popen(
                self._command, env=self._environment, preexec_fn=self._signals.release, close_fds=False
            )
        except OSError as error:
            raise CommandNotFoundError(self._command[0], error) from None

    def wait(self) -> int:
        """Wait for its end; return its exit code, or ``-N`` for signal N. Raises nothing."""
        with self._kept():
            self._sampler = Sampler(
                self._process.pid, self._spool, self._edges(), yardsticks=self._yardsticks
            )
        gatherer = Gatherer(self._spool)
        if self._beside:
            try:
                self._preparation.start()
            except RuntimeError:  # the user's limit on threads: prepare afterwards
                self._beside = False
        with self._kept():
            self._signals.wait(self._process, self._ended)
        gatherer.stop()
        status = self._process.wait()
        self._facts["tree_cpu_s"] = self._signals.tree_cpu_s
        self._facts["killed"] = status < 0
        self._facts["exit_status"] = status if status >= 0 else 128 - status
        return status

    def _edges(self) -> tuple[float, ...]:
        """Return when a window by the clock opens and closes, in seconds of ``CLOCK_MONOTONIC``."""
        if self._selection.kind != "time":
            return ()
        begin = self._begin + self._selection.delay_s
        return (begin,) if self._selection.duration_s is None else (begin, begin + self._selection.duration_s)

    def _ended(self) -> None:
        self._over.set()
        # Before the last look, which takes time: what no record holds is counted up to here.
        self._facts["target"] = {"pid": self._process.pid, "ended_ns": time.monotonic_ns()}
        with self._kept():
            if self._sampler is not None:
                self._facts["warnings"] += self._sampler.finish()
        with self._kept():
            self._facts["wall_s"] = time.monotonic() - self._begin
            self._facts["readings"] = [asdict(self._before), asdict(host.take_reading())]
            if self._facts["wall_s"] >= _MOMENT_S:
                self._yardsticks.read_all("after")
            self._facts["yardsticks"] = self._yardsticks.as_facts()

    @contextlib.contextmanager
    def _kept(self) -> Iterator[None]:
        """Keep exceptions until the target has ended: `prepared` raises them."""
        try:
            yield
        except Exception as error:
            self._failure = self._failure or error

    def _prepare(self) -> None:
        """Do what packing needs while the target runs, if there is another CPU."""
        with self._kept():
            if self._beside:
                self._over.wait(_STARTING_S)
            if "git" not in self._facts:
                self._facts["git"] = git_state()
            # numpy's BLAS must not start its thread pool beside the target's.
            os.environ["OPENBLAS_NUM_THREADS"] = "1"
            for modules in _NEEDED:
                while self._beside and not (self._over.is_set() or self._has_cpu_to_spare()):
                    self._over.wait(_LOOK_S)
                if self._over.is_set():
                    break  # packing imports what it needs of the rest
                for module in modules:
                    importlib.import_module(module)
            self._facts["host"] = asdict(host.read_host())
            from profkit.capture.source_cache import Sources, cache_file

            self._sources = Sources(cache_file(os.environ))
            if self._beside and not (self._selection.counters_only or self._over.is_set()):
                from profkit.capture.source_lookahead import look_ahead

                look_ahead(self._spool, self._sources, self._over)

    def _has_cpu_to_spare(self) -> bool:
        return self._sampler is not None and self._sampler.has_cpu_to_spare()

    def prepared(self) -> Sources:
        """Complete what packing needs, and return the sources; raise what failed beside the target."""
        self._over.set()
        if self._beside:
            self._preparation.join()
        else:
            self._prepare()
        with contextlib.suppress(OSError):  # disk full or directory gone: packing will fail, and say which
            write_facts(self._spool, self._facts, last=True)
        if self._failure is not None:
            raise self._failure
        assert self._sources is not None  # else there was a failure
        return self._sources


def _inject_nvtx(environment: MutableMapping[str, str], torch_shim: bool) -> list[dict[str, str]]:
    """Make NVTX in the target load the collector unless another tool is set; return notices as JSON.

    With `torch_shim`, also ``torch.cuda.nvtx`` of PyTorch without CUDA; raise `UsageError` without a
    collector.
    """
    warnings = []
    library = nvtx_library()
    taken = environment.get(settings.INJECTION_VARIABLE, "")
    if taken and taken != str(library):
        # NVTX loads one tool only, and the user chose this one.
        warnings.append({"code": "nvtx-other-tool", "subject": taken})
    elif library is not None:
        environment[settings.INJECTION_VARIABLE] = str(library)
    else:
        warnings.append({"code": "nvtx-missing", "subject": ""})
    environment.pop(settings.TORCH_NVTX_VARIABLE, None)
    if torch_shim:
        if library is None:
            raise UsageError(
                "torch.cuda.nvtx cannot be recorded: profkit's NVTX collector was not built here; install a C "
                "compiler on Linux, then profkit again"
            )
        environment[settings.TORCH_NVTX_VARIABLE] = str(library)
    if environment.get("NVTX_DISABLE"):
        # The nvtx package tests whether it is set, not its value.
        warnings.append({"code": "nvtx-disabled", "subject": environment["NVTX_DISABLE"]})
    return warnings
