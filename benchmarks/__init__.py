"""Speed and memory, as ratios against a peer on the same work, taken in one run (``python -m benchmarks``)."""
