"""The targets in C: how they are built, and where they are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

__all__ = ["QUICK", "TARGETS", "build", "command", "compiler", "environment"]

FOLDER = Path(__file__).resolve().parent
_PACKAGE = FOLDER.parents[1] / "profkit"
BUILT = FOLDER.parents[1] / ".fuzz" / "native"

#: Targets in C with the directory of what they test, and inputs of each in a bounded run.
TARGETS = {
    "dumps": _PACKAGE / "formats" / "native" / "pstats",
    "nvtx": _PACKAGE / "capture" / "native" / "nvtx",
    "tracer": _PACKAGE / "capture" / "native" / "tracer",
    "torn_stacks": _PACKAGE / "capture" / "native" / "tracer",
}
QUICK = 10_000


def environment(name: str) -> dict[str, str]:
    """Return the variables that a target is run with."""
    # An interpreter never gives back all that it takes: the tracer's target counts references instead.
    leaks = f"detect_leaks={int(name not in _BESIDE)}"
    return {
        "ASAN_OPTIONS": f"handle_abort=1:quarantine_size_mb=16:{leaks}",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONMALLOC": "malloc",  # so that each of its objects is seen
    }


#: Sources of the tracer that targets with an interpreter are linked with; others are part of the target. None has
#: the hooks, which bring events from the interpreter.
_BESIDE = {
    "tracer": tuple(
        sorted(
            {path.name for path in TARGETS["tracer"].glob("*.c")}
            - {"booking.c", "kernel.c", "range_events.c"}
            - {"collector.c", "hook_monitoring.c", "hook_profile.c", "module.c", "warmup.c"}
        )
    ),
    "torn_stacks": ("freed.c",),
}

_FLAGS = ("-std=c11", "-g", "-O2", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all", "-Wall", "-Wextra")


def compiler() -> str | None:
    """Return clang, which has libFuzzer; ``None`` where there is none."""
    return shutil.which(os.environ.get("FUZZ_CC", "clang"))


def command(name: str) -> list[str]:
    """Build a target where its sources are newer, and return how it is called.

    Raises
    ------
    SystemExit
        There is no clang.
    """
    clang = compiler()
    if clang is None:
        sys.exit(f"{name}: clang is not installed (Debian: apt install clang)")
    program = BUILT / name
    sources = [FOLDER / f"{name}.c", *sorted(TARGETS[name].glob("*.[ch]")), *FOLDER.glob("*.h")]
    if not program.exists() or program.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        BUILT.mkdir(parents=True, exist_ok=True)
        build(name, program, clang, "-fsanitize=fuzzer,address,undefined")
    return [str(program)]


def build(name: str, program: Path, *compiler_: str) -> None:
    """Compile a target together with the sources that it tests, with this compiler and these flags.

    Raises
    ------
    subprocess.CalledProcessError
        The compiler refuses it, and has said why.
    """
    first, *flags = compiler_
    words = [first, *_FLAGS, *flags, f"-I{TARGETS[name]}", f"-I{FOLDER}", str(FOLDER / f"{name}.c")]
    words += [f"-o{program}", "-pthread"]
    # As one file: each would read Python's headers again, which takes most of the time.
    beside = "".join(f'#include "{TARGETS[name] / source}"\n' for source in _BESIDE.get(name, ()))
    if beside:
        library = sysconfig.get_config_var("LIBDIR")
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        words += [
            f"-I{sysconfig.get_paths()['include']}",
            f"-L{library}",
            f"-Wl,-rpath,{library}",
            f"-l{version}",
        ]
        words += ["-ldl", "-lm", "-D_GNU_SOURCE=1", "-xc", "-"]
    subprocess.run(words, check=True, input=beside, text=True)
