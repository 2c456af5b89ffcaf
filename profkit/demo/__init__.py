"""The workload that ``profkit demo`` profiles; an ordinary program that imports nothing of profkit.

`profkit.demo.train` is run as a program, never imported by the rest of the package.
"""
