"""Load the agent's modules so that coverage, trace and debuggers take them for the interpreter's own.

They are not in `sys.modules`, no finder finds them, they have no ``__file__``, and their code is named like
that of frozen modules. They import each other through an ``__import__`` in their own builtins. This file has
no ``from __future__ import annotations``: the target would find that module imported.
"""

import _imp
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import SourceFileLoader
from marshal import dumps, loads
from os import fstat, getpid, replace, unlink

try:
    from os import getuid
except ImportError:  # Windows, where every file is of user 0
    getuid = int

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


#: Modules that only some processes need, at their end.
_LATER = ("thread_pools", "pool_libraries")

#: Suffix of a file in the spool with the agent's code.
_CODE_SUFFIX = ".code"


def load(folder: str, name: str, use: "Callable[[Any], Any]", spool: str = "") -> "Any":
    """Return ``use(module)`` for the agent's module `name` in `folder`.

    The first process of an interpreter leaves the code in the directory `spool`: reading a dozen modules takes
    longer than reading one file, and where Python may not write bytecode, each process would compile them.

    The agent cannot import its modules later, except by `_Importer.later`: C functions import by the
    ``__import__`` of the calling frame, and a target's profiler would see ours.
    """
    importer = _Importer(folder, spool)
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
    def __init__(self, folder: str, spool: str) -> None:
        self._folder = folder
        interpreter = sys.implementation.cache_tag, sys.hexversion
        self._file = "%s/%s-%x%s" % (spool, *interpreter, _CODE_SUFFIX) if spool else ""
        self._codes: "Dict[str, bytes]" = self._read()
        self._keeps = bool(self._file and not self._codes)
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
        if self._keeps:
            self._keep()
            self._keeps = False
            self._codes.clear()

    def _read(self) -> "Dict[str, bytes]":
        try:
            with open(self._file, "rb") as file:
                own = fstat(file.fileno()).st_uid == getuid()  # nobody else's code is run
                return dict(loads(file.read())) if own else {}
        except (OSError, EOFError, TypeError, ValueError):
            return {}

    def _keep(self) -> None:
        temporary = "%s.%d" % (self._file, getpid())
        try:
            for name in _LATER:
                self._code(name)
            # Processes in containers may have the same number.
            with open(temporary, "xb") as file:
                file.write(dumps(self._codes))
            replace(temporary, self._file)
        except FileExistsError:
            pass
        except (OSError, ValueError):  # then the next process does it
            try:
                unlink(temporary)
            except OSError:
                pass

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
        self, name: str, of: "Any" = None, local: "Any" = None, wanted: "Sequence[str]" = (), level: int = 0
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
        code = self._code(name)
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

    def _code(self, name: str) -> "Any":
        if not self._keeps and name in self._codes:
            return loads(self._codes.pop(name))
        path = "%s/%s.py" % (self._folder, name)
        source = SourceFileLoader("%s.%s" % (_NAME, name), path)
        try:
            code: "Any" = source.get_code(source.name)
        except (EOFError, TypeError, ValueError):  # truncated bytecode: a full disk, a limit on file size
            code = source.source_to_code(source.get_data(path), path)
        if _rename is not None:
            _rename(code, "<frozen profkit.%s>" % name)
        if self._keeps:
            self._codes[name] = dumps(code)
        return code

    def _built_in(self, name: str) -> "Any":
        module = _imp.create_builtin(ModuleSpec(name, None))
        _imp.exec_builtin(module)
        sys.modules.pop(name, None)
        self._private[name] = module
        return module
