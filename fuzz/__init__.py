"""Fuzzing of profkit: targets, mutators, seeds and oracles; ``fuzz/README.md`` says how to run it.

Not part of the package, and imported by no test but the one that replays seeds and past findings.
"""
