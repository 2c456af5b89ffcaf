"""Loads the agent so that what looks at the target's modules and files passes it over as the interpreter's own.

Its modules are in no `sys.modules` and found by no finder. Their code is named as that of frozen modules is, such as
``<frozen profkit.session>``, and they have no ``__file__``: coverage, trace, debuggers and the like take them for no
file of the program. What they import of the agent, they get from here, by an ``__import__`` in builtins of their own.

Who starts the agent runs this file itself: ``inject/sitecustomize.py``, and the script that ``attach`` sends. It has
no ``from __future__ import annotations``: that module would be the first one that the target finds imported.
"""

import _imp
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import SourceFileLoader

TYPE_CHECKING = False  # the module `typing` would cost every process of the target several milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Sequence

_NAME = "_profkit_agent"

#: Gives code, and what is in it, another file name.
_rename: "Any" = getattr(_imp, "_fix_co_filename", None)

#: Built-in modules that the agent has for itself where the target has not imported them.
_PRIVATE = {"_functools", "errno", "gc", "itertools"}
if sys.version_info >= (3, 10):  # before, what was registered is lost when the module is made another time
    _PRIVATE.add("atexit")


def load(folder: str, name: str, use: "Callable[[Any], Any]") -> "Any":
    """Return ``use(module)`` of a module of the agent, whose files are in `folder`.

    Nothing can be imported of the agent afterwards: C functions import by the ``__import__`` of the frame that calls
    them, and one in Python would be seen by a profiler of the target's.
    """
    importer = _Importer(folder)
    gc = importer.bring("gc")
    collects = gc.isenabled()
    gc.disable()  # collections would find nothing in what is imported, and take a quarter of the time
    try:
        return use(importer.module(name))
    finally:
        importer.end()
        if collects:
            gc.enable()


class _Importer:
    """The agent's modules, and what stands for `__import__` in them."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._import = sys.modules["builtins"].__import__
        self._builtins = dict(sys.modules["builtins"].__dict__, __import__=self.bring)
        self._package: "Any" = type(sys)(_NAME)
        self._package.__path__ = [folder]
        # The compiler alone needs what is in the real one.
        future: "Any" = type(sys)("__future__")
        future.annotations = None
        self._private: "Dict[str, Any]" = {"__future__": future}

    def end(self) -> None:
        """Have modules import as others do."""
        self._builtins["__import__"] = self._import

    def bring(
        self,
        name: str,
        of: "Any" = None,
        local: "Any" = None,
        wanted: "Sequence[str]" = (),
        level: int = 0,
    ) -> "Any":
        """Import as `__import__` does."""
        if level:
            for one in (name,) if name else wanted:
                if one not in self._package.__dict__:
                    self.module(one)
            return self._package.__dict__[name] if name else self._package
        if name in self._private:
            return self._private[name]
        if name in _PRIVATE and name not in sys.modules and name in sys.builtin_module_names:
            return self._built_in(name)
        return self._import(name, of, local, wanted, level)

    def module(self, name: str) -> "Any":
        """Run a module of the agent."""
        full = "%s.%s" % (_NAME, name)
        path = "%s/%s.py" % (self._folder, name)
        source = SourceFileLoader(full, path)
        try:
            code: "Any" = source.get_code(full)
        except (
            EOFError,
            TypeError,
            ValueError,
        ):  # bytecode that was cut: a full disk, a limit on the size of files
            code = source.source_to_code(source.get_data(path), path)
        if _rename is not None:
            _rename(code, "<frozen profkit.%s>" % name)
        module = type(sys)(full)
        module.__package__ = _NAME
        module.__dict__["__builtins__"] = self._builtins
        setattr(self._package, name, module)
        try:
            exec(code, module.__dict__)
        except BaseException:
            delattr(self._package, name)
            raise
        return module

    def _built_in(self, name: str) -> "Any":
        module = _imp.create_builtin(ModuleSpec(name, None))
        _imp.exec_builtin(module)
        sys.modules.pop(name, None)
        self._private[name] = module
        return module
