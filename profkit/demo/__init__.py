"""The workload of ``profkit demo``: a program that imports nothing of profkit and is never imported by it."""
