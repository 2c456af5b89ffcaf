"""Signals of one run or of two: counters, waiting, inventory, ranges, movement, statistics. Pure; judges nothing."""
