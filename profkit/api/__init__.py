"""Runs and comparisons for Python programs, notebooks and the command line: what ``profkit.read`` and others return.

Stands above the rooms that read, compare and lay out, and puts them together in one way: read, compare, mask, lay
out, render. The command line is a user of this room as any other program is. The names for users are in ``profkit``
itself (docs/api.md); nothing of this package but those is public.
"""
