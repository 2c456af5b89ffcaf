"""The pytest plugin of profkit: ``pytest --profkit`` fails marked tests that became slower."""
