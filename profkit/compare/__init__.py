"""Two sides of a comparison, from their runs to `Pair` and `Signals`."""
