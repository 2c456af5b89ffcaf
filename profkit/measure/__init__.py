"""Signals of one run or of two, as numbers: counters, waiting, inventory, ranges, movement, statistics. Pure; judges nothing."""
