"""Hold the code that runs inside target processes: standard library only, Python 3.8 syntax, no profkit.

``inject/sitecustomize.py``, found through ``PYTHONPATH``, imports it as ``_profkit_agent``: the target may
live in another environment, and cannot import profkit from here. Code here must fail silently.
"""
