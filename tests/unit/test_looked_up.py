"""Columns that are looked up are ordinary sequences."""

from __future__ import annotations

import numpy as np
import pytest

from profkit.identity.lookup_columns import Keys, Looked, rows_in, rows_where
from profkit.identity.rooted_paths import rooted, rooted_all
from profkit.model import Roots
from tests.shared import words_of

NAMES = ("", "f", "<lambda>", "g")
NAME = Looked(np.array([1, 3, 2, 1]), NAMES)
KEYS = Keys(np.array([0, 1, 1, 0]), [("project", "a.py"), ("stdlib", "b.py")], NAME)


@pytest.mark.parametrize(("names", "keys"), [(NAME, KEYS), (tuple(NAME), tuple(KEYS))])
def test_questions_have_the_answers_of_plain_columns(names: object, keys: object) -> None:
    assert rows_where(names, lambda text: len(text) == 1).tolist() == [True, True, False, True]
    assert rows_in(keys, "stdlib", "site").tolist() == [False, True, True, False]


DIRECTORIES = words_of(
    "|/|/usr/lib/python3.11|/usr/lib/python3.11/json|/e/lib/python3.11/site-packages/p|/home/u/proj|"
    "/home/u/proj/lib|/opt/py/Lib|C:/Python39/Lib|c:/work|/tmp|/tmp/ipykernel_12|/x/torchinductor_u/ab|"
    "./src|/a//b/../c|/a/./b|/p/foo.egg/x|<frozen x|/z/python311.zip/os|lib|rel/dir|\\\\host\\s|"
    "C:\\Python39\\lib|/s/lib-python/3/os|/a/dist-packages/q",
    "|",
)
FILES = words_of(
    "x.py|os.py|tmpab12cd34.py|TMPab12cd34.py|test_x.py|__init__.py|__autograph_generated_fileq.py|"
    "|.|..|.hidden.py|a b.py|json|re.py|w\\in.py|new\nline.py|<string>|é.py|\udce9.py",
    "|",
)


@pytest.mark.parametrize(
    "roots",
    [Roots(), Roots(("/usr/lib/python3.11/",), ("/s",), ("/home/u/proj", "c:/WORK"))],
    ids=["none", "some"],
)
def test_files_of_a_directory_are_what_each_of_them_is(roots: Roots) -> None:
    paths = [f"{directory}/{name}" for directory in DIRECTORIES for name in FILES]
    paths += [*FILES, *DIRECTORIES, "~", "<frozen importlib._bootstrap>", "<ipython-input-1-0a>"]
    for order in (paths, paths[::-1]):
        assert rooted_all(order, roots) == [rooted(path, roots) for path in order]
