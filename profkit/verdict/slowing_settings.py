"""Settings of an interpreter or a library, and tools that watch a program, which make the same code slower."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from profkit.measure.side_facts import SideFacts

#: The values that slow a program down, by variable.
_ON = r"(?!0$|false$|no$).+"
_SLOWING: Mapping[str, str] = {
    **dict.fromkeys(("PYTHONDEVMODE", "PYTHONTRACEMALLOC", "PYTHONASYNCIODEBUG"), ".+"),
    "PYTHONMALLOC": ".*debug",
    **dict.fromkeys(
        ("NUMBA_DISABLE_JIT", "JAX_DISABLE_JIT", "TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"), _ON
    ),
    "PYTORCH_JIT": "0",
    "CUDA_LAUNCH_BLOCKING": _ON,
    "PYTORCH_NO_CUDA_MEMORY_CACHING": ".+",
    "TORCH_DISTRIBUTED_DEBUG": "detail",
    **dict.fromkeys(("MALLOC_CHECK_", "MALLOC_PERTURB_"), _ON),
}
#: Options ``-X`` of Python that do the same.
_OPTION = re.compile(r"(dev|tracemalloc(?:=\d+)?)")
#: Modules and commands that run a program and follow each of its lines, calls or allocations.
_TOOLS = frozenset(
    (
        *("coverage", "trace", "pdb", "debugpy", "cProfile", "profile", "viztracer", "hunter"),
        *("memray", "scalene", "kernprof", "line_profiler", "memory_profiler", "mprof"),
    )
)


def slowing(a: SideFacts, b: SideFacts) -> tuple[tuple[str, str, str], ...]:
    """Return what slows the candidate and not the baseline: a variable, ``-X`` or a tool, before and after."""
    found = [
        (name, a.environment.get(name, ""), b.environment[name])
        for name, values in _SLOWING.items()
        if (slows := re.compile(values, re.IGNORECASE)).fullmatch(b.environment.get(name, ""))
        and not slows.fullmatch(a.environment.get(name, ""))
    ]
    options = dict.fromkeys(option for _, option in _options(b.command))
    before = {option for _, option in _options(a.command)}
    found += [("-X", "", option) for option in options if option not in before]
    tool = _tool(b.command)[1]
    return (*found, *([("tool", "", tool)] if tool and tool != _tool(a.command)[1] else ()))


def without_options(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command without such options ``-X``, and without such a tool where it is a module."""
    left_out = {at for place, _ in _options(command) for at in place} | set(_tool(command)[0])
    return tuple(word for at, word in enumerate(command) if at not in left_out)


def _tool(command: Sequence[str]) -> tuple[range, str]:
    """Return such a tool: the places of its words up to the program's file, empty where not known, and its name."""
    program = next((at for at, word in enumerate(command) if word.endswith(".py")), len(command))
    for at, word in enumerate(command[:program]):
        if word == "-m":
            name = "".join(command[at + 1 : at + 2])
            places = range(at, program) if program < len(command) else range(0)
            return (places, name) if name in _TOOLS else (range(0), "")
    name = command[0].rpartition("/")[2] if command else ""
    return range(0), name if name in _TOOLS else ""


def _options(command: Sequence[str]) -> list[tuple[tuple[int, ...], str]]:
    """Return such options: the places of their words, and what follows ``-X``."""
    found: list[tuple[tuple[int, ...], str]] = []
    for at, word in enumerate(command):
        if word in ("-m", "-c") or word.endswith(".py"):
            break  # what follows is the program's own
        places: tuple[int, ...] = (at,)
        option = word[2:] if word.startswith("-X") else ""
        if word == "-X":
            places, option = (at, at + 1), "".join(command[at + 1 : at + 2])
        if _OPTION.fullmatch(option):
            found.append((places, option))
    return found
