"""Hold the code that runs inside target processes: standard library only, Python 3.8 syntax, no profkit.

``inject/sitecustomize.py``, found through ``PYTHONPATH``, imports it as ``_profkit_agent``: the target may
live in another environment, and cannot import profkit from here. Code here must fail silently.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    #: Loads a module when it is needed; only the package that `loader` makes has it.
    later: Callable[[str], Any]
