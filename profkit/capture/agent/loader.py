"""Load the agent's modules so that coverage, trace and debuggers take them for the interpreter's own.

They are not in `sys.modules`, no finder finds them, they have no ``__file__``, and their code is named like
that of frozen modules. They import each other through an ``__import__`` in their own builtins. This file has
no ``from __future__ import annotations``: the target would find that module imported.
"""

import _imp
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import SourceFileLoader

TYPE_CHECKING = False  # importing `typing` would cost each target process milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Sequence

_NAME = "_profkit_agent"

#: Function that changes the file name of code and of the code inside it.
_rename: "Any" = getattr(_imp, "_fix_co_filename", None)

#: Built-in modules that the agent copies for itself unless the target has imported them.
_PRIVATE = {"_functools", "errno", "gc", "itertools"}
if sys.version_info >= (3, 10):  # before 3.10, making the module again loses what was registered
    _PRIVATE.add("atexit")


def load(folder: str, name: str, use: "Callable[[Any], Any]") -> "Any":
    """Return ``use(module)`` for the agent's module `name` in `folder`.

    The agent cannot import its modules later, except by `_Importer.later`: C functions import by the
    ``__import__`` of the calling frame, and a target's profiler would see ours.
    """
    importer = _Importer(folder)
    gc = importer.bring("gc")
    collects = gc.isenabled()
    gc.disable()  # collections would find nothing here, and take a quarter of the time
    try:
        return use(importer.module(name))
    finally:
        importer.end()
        if collects:
            gc.enable()


class _Importer:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._import = sys.modules["builtins"].__import__
        self._builtins = dict(sys.modules["builtins"].__dict__, __import__=self.bring)
        self._package: "Any" = type(sys)(_NAME)
        self._package.__path__ = [folder]
        self._package.__dict__["later"] = self.later
        # Only the compiler needs the contents of the real module.
        future: "Any" = type(sys)("__future__")
        future.annotations = None
        self._private: "Dict[str, Any]" = {"__future__": future}

    def end(self) -> None:
        """Let the modules import as others do."""
        self._builtins["__import__"] = self._import

    def later(self, name: str) -> "Any":
        """Return a module that most processes do not need; called while a record is written."""
        if name not in self._package.__dict__:
            self._builtins["__import__"] = self.bring
            try:
                self.module(name)
            finally:
                self.end()
        return self._package.__dict__[name]

    def bring(
        self,
        name: str,
        of: "Any" = None,
        local: "Any" = None,
        wanted: "Sequence[str]" = (),
        level: int = 0,
    ) -> "Any":
        """Import, with the signature of `__import__`."""
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
        """Run a module of the agent and return it."""
        full = "%s.%s" % (_NAME, name)
        path = "%s/%s.py" % (self._folder, name)
        source = SourceFileLoader(full, path)
        try:
            code: "Any" = source.get_code(full)
        except (
            EOFError,
            TypeError,
            ValueError,
        ):  # truncated bytecode: a full disk, a limit on file size
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
