"""Defines and calls so many functions that packing them takes a while, and exits with the status that is given."""

import sys

for start in range(0, 6000, 1000):
    lines = [f"def f{number}(): pass\nf{number}()" for number in range(start, start + 1000)]
    exec("\n".join(lines), {})
sys.exit(int(sys.argv[1]))
