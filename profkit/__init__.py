"""profkit tells whether a training run is slow because of its code or because it lacks CPU time.

`read` a run, `diff` two sides, `capture` a block of the running program, or mark what ``profkit capture``
records (`start`, `stop`, `step`, `window`). Names are imported on first use (PEP 562), so that ``import
profkit`` is cheap.
"""

__version__ = "1.0.0"

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

TYPE_CHECKING = False  # importing `typing` takes longer than this whole module
if TYPE_CHECKING:
    from typing import Any

    from profkit.api.diff import Diff, diff
    from profkit.api.run import Run, read
    from profkit.api.windows import start, step, stop, window
    from profkit.capture.block import capture
    from profkit.verdict.types import Verdict

#: Home of each name, and of the functions that IPython calls in an extension.
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
        # A callable module; the import system binds it here whenever it is imported.
        return import_module("profkit.capture")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> "list[str]":
    return list(__all__)
