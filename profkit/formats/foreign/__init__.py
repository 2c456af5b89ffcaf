"""Readers of what other tools write: each gives a `Run`, and what a format cannot say stays unknown."""
