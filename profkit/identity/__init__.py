"""What is the same function on two machines: its key, the roots and paths, the alignment of two profiles. Pure functions."""
