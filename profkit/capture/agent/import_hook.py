"""Call a function when the target imports a module, right after the module's own code has run.

The finder on ``sys.meta_path`` answers only for these modules, and goes when all are imported.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Dict


def after_import(actions: Dict[str, Callable[[Any], None]]) -> None:
    """Have ``actions[name](module)`` called for each module; at once if it is already imported."""
    waiting = {}
    for name, action in actions.items():
        module = sys.modules.get(name)
        if module is None:
            waiting[name] = action
        else:
            _act(action, module)
    if waiting:
        sys.meta_path.insert(0, _Finder(waiting))


def _act(action: Callable[[Any], None], module: Any) -> None:
    try:
        action(module)
    except Exception:
        pass  # the target must run as without profkit


class _Finder:
    def __init__(self, actions: Dict[str, Callable[[Any], None]]) -> None:
        self._actions = actions

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec that the other finders find, with our loader; ``None`` for unwanted modules."""
        if name not in self._actions:
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                break
        else:
            return None
        if hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, self, self._actions[name])
        return spec

    def done(self, name: str) -> None:
        """Stop waiting for this module."""
        self._actions.pop(name, None)
        if not self._actions and self in sys.meta_path:
            sys.meta_path.remove(self)


class _Loader:
    def __init__(self, loader: Any, finder: _Finder, action: Callable[[Any], None]) -> None:
        self._loader = loader
        self._finder = finder
        self._action = action

    def create_module(self, spec: Any) -> Any:
        """Create the module as its own loader does."""
        create = getattr(self._loader, "create_module", None)
        return create(spec) if create is not None else None

    def exec_module(self, module: Any) -> None:
        """Run the module's code, then the action."""
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._finder.done(module.__name__)
        _act(self._action, module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)  # e.g. for `get_source` and `get_data` of a spec's loader
