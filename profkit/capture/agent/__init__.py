"""What runs inside the target's processes: standard library only, Python 3.8 syntax, never imports profkit.

``inject/sitecustomize.py`` is found by the target's interpreter through ``PYTHONPATH`` and imports this package
under the private name ``_profkit_agent``, so that the target may live in another environment and nothing of
profkit's is importable from it. Everything here must fail silently towards the target: a profiler that breaks
a training run is worse than none.
"""
