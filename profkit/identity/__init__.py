"""What is the same function on two machines: its key, roots and paths, the alignment of two profiles. Pure."""
