"""profkit tells whether a training run is slow because of its code or because something starves it of CPU.

This package module holds the version and nothing else, so that importing it costs nothing; the rooms are
``profkit.model``, ``profkit.formats``, ``profkit.capture``, ``profkit.analysis``, ``profkit.report`` and
``profkit.cli`` (docs/architecture.md).
"""

__version__ = "0.1.0"
