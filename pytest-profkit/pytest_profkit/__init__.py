"""The pytest plugin of profkit: ``pytest --profkit`` fails marked tests that became slower."""

#: Environment variable that makes a pytest process measure one test.
TASK = "PROFKIT_TEST_TASK"
