"""Loading of compiled extension modules, which an installation may lack."""

from __future__ import annotations

from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any


def load_extension(path: Path) -> Any:
    """Return the extension module in a file, ``None`` if it was not built or cannot be loaded."""
    name = path.name.partition(".")[0]
    loader = ExtensionFileLoader(name, str(path))
    try:
        module = module_from_spec(ModuleSpec(name, loader, origin=str(path)))
        loader.exec_module(module)
    except (ImportError, MemoryError):
        return None
    return module
