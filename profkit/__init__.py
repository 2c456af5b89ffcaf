"""profkit tells whether a training run is slow because of its code or because something starves it of CPU.

The names here are all that is public (docs/api.md): `read` a run, `diff` two sides, `capture` a block of the running
program, and say in a program what of it ``profkit capture`` is to record (`start`, `stop`, `step`, `window`). They
are imported when they are first used (PEP 562), so that ``import profkit`` costs next to nothing. The rooms below
are described in docs/architecture.md.
"""

__version__ = "0.1.0"

__all__ = [
    "Diff",
    "Run",
    "Verdict",
    "__version__",
    "capture",
    "diff",
    "read",
    "start",
    "step",
    "stop",
    "window",
]

TYPE_CHECKING = False  # the module `typing` takes longer to import than all that is here
if TYPE_CHECKING:
    from typing import Any

    from profkit.api.diff import Diff, diff
    from profkit.api.run import Run, read
    from profkit.api.windows import start, step, stop, window
    from profkit.capture.block import capture
    from profkit.verdict.types import Verdict

#: Where a name is; what IPython looks for in an extension is no name for users.
_HOMES = {
    "Diff": "profkit.api.diff",
    "Run": "profkit.api.run",
    "Verdict": "profkit.verdict.types",
    "diff": "profkit.api.diff",
    "load_ipython_extension": "profkit.api.notebook",
    "read": "profkit.api.run",
    "start": "profkit.api.windows",
    "step": "profkit.api.windows",
    "stop": "profkit.api.windows",
    "unload_ipython_extension": "profkit.api.notebook",
    "window": "profkit.api.windows",
}


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name == "capture":
        # The room of that name, which can be called: the import system sets it here whenever it is imported.
        return import_module("profkit.capture")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> "list[str]":
    return list(__all__)
