"""What ``profkit.read``, ``profkit.diff`` and the command line share: read, compare, mask, lay out, render.

Only the names in ``profkit`` itself are public (docs/api.md).
"""
