"""Two sides of a comparison, from their runs to all that is measured of both: `Pair`, then `Signals`."""
