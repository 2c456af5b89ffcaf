"""Writers of what other tools open: each takes a `Run`, or a profile, and gives bytes."""
