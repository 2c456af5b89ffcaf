"""What a path is, from every layout that a profile can come from."""

from __future__ import annotations

import numpy as np
import pytest

from profkit.identity.function_keys import function_keys, infer_python, infer_roots
from profkit.identity.lookup_columns import Keys, Looked, rows_in, rows_where
from profkit.identity.rooted_paths import normalise, rooted, rooted_all
from profkit.model import FunctionKey, Roots
from tests.builders import Row, profile
from tests.shared import words_of

LAYOUTS = [
    ("/usr/lib/python3.11/json/decoder.py", "stdlib", "json/decoder.py"),
    ("/home/u/.pyenv/versions/3.13.0/lib/python3.13/re/_parser.py", "stdlib", "re/_parser.py"),
    ("/opt/free/lib/python3.13t/re/_parser.py", "stdlib", "re/_parser.py"),
    ("/usr/lib64/python2.7/json/decoder.py", "stdlib", "json/decoder.py"),
    ("/opt/pypy/lib/pypy3.10/json/decoder.py", "stdlib", "json/decoder.py"),
    (
        "/Library/Frameworks/Python.framework/Versions/3.11/lib/python3.11/json/decoder.py",
        "stdlib",
        "json/decoder.py",
    ),
    (r"C:\Users\Jo\AppData\Local\Programs\Python\Python311\Lib\json\decoder.py", "stdlib", "json/decoder.py"),
    (r"c:\python27\lib\json\decoder.py", "stdlib", "json/decoder.py"),
    (r"D:\miniconda3\envs\t\Lib\json\decoder.py", "stdlib", "json/decoder.py"),
    (r"C:\py\python311.zip\json\decoder.py", "stdlib", "json/decoder.py"),
    ("<frozen importlib._bootstrap>", "stdlib", "importlib/_bootstrap.py"),
    ("<frozen posixpath>", "stdlib", "posixpath.py"),
    ("/usr/lib/python3/dist-packages/numpy/ma/core.py", "site", "numpy/ma/core.py"),
    ("/opt/venv/lib/python3.11/site-packages/numpy/ma/core.py", "site", "numpy/ma/core.py"),
    (r"C:\proj\.venv\Lib\site-packages\numpy\ma\core.py", "site", "numpy/ma/core.py"),
    ("/x/lib/python3.8/site-packages/foo-1.0-py3.8.egg/foo/a.py", "site", "foo/a.py"),
    ("/cache/foo-1.0-py3.8.egg/foo/a.py", "site", "foo/a.py"),
    ("<string>", "generated", "<string>"),
    ("<__array_function__ internals>", "generated", "<__array_function__ internals>"),
    ("<attrs generated init a.B>", "generated", "<attrs generated init a.B>"),
    ("<lambdifygenerated-3>", "generated", "<lambdifygenerated>"),
    ("<ipython-input-12-0a1b2c3d>", "generated", "<ipython-input-0a1b2c3d>"),
    ("/tmp/ipykernel_104016/1099215389.py", "generated", "ipykernel/1099215389.py"),
    (r"C:\Users\Jo\AppData\Local\Temp\ipykernel_7\1099215389.py", "generated", "ipykernel/1099215389.py"),
    ("/tmp/tmpab12cd34.py", "generated", "tmp.py"),
    ("/tmp/torchinductor_jo/xy/cxyz.py", "generated", "torchinductor/xy/cxyz.py"),
    ("~", "builtin", ""),
    ("/home/jo/proj/train.py", "project", "/home/jo/proj/train.py"),
    ("/tmp/tmpab12cd34/train.py", "project", "/tmp/tmpab12cd34/train.py"),
    ("/tmp/tmp_train.py", "project", "/tmp/tmp_train.py"),
    ("/home/jo/proj/lib/json/tool.py", "project", "/home/jo/proj/lib/json/tool.py"),
    (r"C:\work\lib\train.py", "project", "c:/work/lib/train.py"),
    ("train.py", "project", "train.py"),
]


@pytest.mark.parametrize(("file", "root", "path"), LAYOUTS)
def test_form_of_a_path_says_what_it_is_relative_to(file: str, root: str, path: str) -> None:
    assert rooted(file, Roots()) == (root, path)


def test_recorded_directories_come_before_the_form() -> None:
    roots = Roots(
        stdlib=("/odd/py",), site=("/odd/py/pkgs", "/odd/py"), project=(r"C:\work", "/home/jo/proj")
    )
    assert rooted("/odd/py/pkgs/a/b.py", roots) == ("site", "a/b.py")
    assert rooted("c:/WORK/src/t.py", roots) == ("project", "src/t.py")
    assert rooted("/home/jo/proj/t.py", roots) == ("project", "t.py")
    assert rooted("/home/jo/project2/t.py", roots) == ("project", "/home/jo/project2/t.py")


def test_a_projects_own_lib_is_its_own_wherever_it_is() -> None:
    file = "/home/jo/python/proj/lib/tokenize.py"
    assert rooted(file, Roots(project=("/home/jo/python/proj",))) == ("project", "lib/tokenize.py")
    assert rooted(file, Roots()) == ("stdlib", "tokenize.py")


def test_virtual_environment_inside_the_project_is_not_project() -> None:
    roots = Roots(project=("/home/jo/proj",))
    assert rooted("/home/jo/proj/.venv/lib/python3.11/site-packages/a.py", roots) == ("site", "a.py")
    assert rooted("/home/jo/proj/py/lib/python3.11/os.py", roots) == ("stdlib", "os.py")


def test_backslash_is_a_separator_only_in_windows_paths() -> None:
    assert normalise(r"/home/jo/odd\name.py") == r"/home/jo/odd\name.py"
    assert normalise(r"\\server\share\a.py") == "//server/share/a.py"
    assert normalise(r"\\?\C:\a\b.py") == "c:/a/b.py"
    assert normalise("./a/../b//c.py") == "b/c.py"
    assert normalise("../../a.py") == "../../a.py"


def test_undecodable_bytes_survive() -> None:
    name = b"/home/jo/caf\xe9/train.py".decode("utf-8", "surrogateescape")
    _, path = rooted(name, Roots(project=("/home/jo",)))
    assert path.encode("utf-8", "surrogateescape") == b"caf\xe9/train.py"


def test_keys_are_free_of_addresses_homes_and_versions() -> None:
    def keys(address: str, project: str, library: str, moved: int = 0) -> Keys:
        rows = [
            Row("~", 0, f"<built-in method __new__ of type object at {address}>"),
            Row(f"{project}/pkg/a.py", 3 + moved, "f"),
            Row(f"{project}/b.py", 9 + moved, "g", qualname="C.g"),
            Row(f"{library}/os.py", 1 + moved, "walk"),
        ]
        return function_keys(profile(rows))

    here = keys("0x7f12ab", "/home/jo/proj", "/usr/lib/python3.11")
    assert tuple(here) == tuple(keys("0x99", "/scratch/x", "/opt/py/lib/python3.13", moved=2))
    assert here[2] == FunctionKey("project", "b.py", "C.g")


def test_roots_and_version_are_inferred_from_the_files() -> None:
    site, stdlib = "/opt/venv/lib/python3.11/site-packages", "/opt/py/lib/python3.11"
    files = [f"{site}/numpy/a.py", f"{stdlib}/os.py", "<string>"]
    files += ["/home/jo/proj/src/a.py", "/home/jo/proj/run.py", "/data/shared/tools/x.py"]
    found = profile([Row(file, 1, f"f{at}") for at, file in enumerate(files)])
    assert infer_roots(found) == Roots((stdlib,), (site,), ("/data/shared/tools", "/home/jo/proj"))
    assert infer_python(found) == (3, 11)
    for files, version in (
        ([r"C:\Python39\Lib\os.py"], (3, 9)),
        ([r"C:\Users\a\AppData\Local\Programs\Python\Python312-32\lib\os.py"], (3, 12)),
        (["/root/.pyenv/versions/3.13.0/lib/python3.13t/os.py"], (3, 13)),
        (["/opt/pypy/lib/pypy3.10/os.py"], (3, 10)),
        (["/lib/python3.8/a.py", "/lib/python3.11/b.py", "/x/lib/python3.11/c.py"], (3, 11)),
        (["a.py", "/home/anna/python/train.py", "~"], None),
    ):
        assert infer_python(profile([Row(file, 1, "f") for file in files])) == version


# Columns that are looked up are ordinary sequences

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
