"""Hold the code that runs inside target processes: standard library only, Python 3.8 syntax, no profkit.

``inject/sitecustomize.py``, found through ``PYTHONPATH``, imports this package under the private name
``_profkit_agent``, so the target may live in another environment and cannot import profkit from it. Code here
must fail silently: a profiler that breaks a training run is worse than none.
"""
