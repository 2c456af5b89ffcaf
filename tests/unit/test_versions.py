"""The Python version that a profile's paths tell."""

from __future__ import annotations

import pytest

from profkit.model.versions import python_of_paths


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([], None),
        (["train.py", "/home/anna/python/train.py", "~"], None),
        (["/usr/lib/python3.11/json/decoder.py"], (3, 11)),
        (["/opt/lib64/python3.9/site-packages/numpy/x.py"], (3, 9)),
        (["/root/.pyenv/versions/3.13.0/lib/python3.13t/os.py"], (3, 13)),
        ([r"C:\Python39\Lib\os.py"], (3, 9)),
        ([r"C:\Users\a\AppData\Local\Programs\Python\Python312-32\lib\os.py"], (3, 12)),
        (["/lib/python3.8/a.py", "/lib/python3.11/b.py", "/x/lib/python3.11/c.py"], (3, 11)),
        (["/opt/pypy/lib/pypy3.10/os.py"], (3, 10)),
    ],
)
def test_version_of_paths(files: list[str], expected: tuple[int, int] | None) -> None:
    assert python_of_paths(tuple(files)) == expected
