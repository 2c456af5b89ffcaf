"""How often the verdict is right: real programs under known conditions, and a score of what `diff` says of them.

``python -m benchmarks.verdict setup`` makes an environment with the libraries, ``take`` runs the programs under
every condition, ``report`` scores the verdicts, ``facts`` writes what the rules see. Nothing here is a test.
"""
