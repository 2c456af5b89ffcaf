"""The tests of profkit; `tests.requirements` is what they share."""
