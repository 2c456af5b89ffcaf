"""Which functions are the same on two machines: keys, rooted paths, alignment of profiles."""
