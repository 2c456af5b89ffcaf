"""Programs that use much of the standard library; see tracer_workloads.py. Holds no tests itself."""

# ruff: noqa: B015, B018, SIM105, PT009, PT027, UP

import _pydecimal
import argparse
import ast
import base64
import calendar
import collections
import configparser
import contextlib
import csv
import dataclasses
import datetime
import decimal
import difflib
import enum
import fractions
import hashlib
import heapq
import html.parser
import inspect
import io
import itertools
import json
import logging
import os
import pathlib
import pickle
import pprint
import random
import re
import shlex
import statistics
import string
import struct
import textwrap
import tokenize
import traceback
import typing
import unittest
import urllib.parse
import xml.etree.ElementTree as ET
import zipfile

DATA = {"a": [1, 2.5, None, True, {"b": "cé"}] * 5}


def documents():
    """Formats that are read and written."""
    json.loads(json.dumps(DATA, indent=2))
    json.dumps(DATA, cls=type("E", (json.JSONEncoder,), {}))
    try:
        json.loads("{bad")
    except ValueError:
        pass
    re.purge()
    re.findall("(\\w+)@(\\w+)\\.(com|org)", "a@b.com c@d.org" * 5)
    re.sub("a+", lambda mm: mm.group().upper(), "aab")
    re.compile("(?P<x>[a-z]{2,3})|(?:x*)$", re.I).split("abcd")
    re.purge()
    p = argparse.ArgumentParser(prog="x")
    p.add_argument("--n", type=int, default=3, help="n")
    s = p.add_subparsers()
    s.add_parser("go").add_argument("file")
    p.parse_args(["--n", "3", "go", "f"])
    p.format_help()


def declarations():
    """Classes that are made by the library."""

    @dataclasses.dataclass(order=True, frozen=False)
    class D:
        a: int
        b: str = "x"
        c: list = dataclasses.field(default_factory=list)

    repr(D(1))
    D(1) == D(2)
    D(1) < D(2)
    dataclasses.asdict(D(1))
    dataclasses.replace(D(1), b="z")


def numbers_and_text():
    """Arithmetic in Python and in C, comparing and wrapping text."""
    decimal.Decimal("1.1") + 3
    str(decimal.Decimal(2).sqrt())
    _pydecimal.Decimal("1.1") * 3
    _pydecimal.Decimal(2).sqrt()
    list(difflib.unified_diff(list("abcdef" * 5), list("abdxef" * 5)))
    difflib.SequenceMatcher(None, "abcd", "bcde").ratio()
    difflib.get_close_matches("appel", ["ape", "apple"])
    f = io.StringIO()
    csv.writer(f).writerows([[1, "a,b"], [2, "c"]])
    f.seek(0)
    list(csv.DictReader(f))
    textwrap.fill("lorem ipsum " * 20, 30)
    ast.dump(ast.parse("def f(x):\n return x+1\n"))
    list(tokenize.generate_tokens(io.StringIO("a = 1 + (2)\n").readline))
    h = logging.StreamHandler(io.StringIO())
    lg = logging.Logger("x")
    lg.addHandler(h)
    lg.warning("w %s", 1)
    try:
        1 / 0
    except ZeroDivisionError:
        lg.exception("e")
        traceback.format_exc()


def containers():
    """Named tuples, counters, enumerations, statistics."""
    P = collections.namedtuple("P", "x y")
    P(1, 2)._replace(x=3)
    collections.Counter("abca").most_common()
    collections.OrderedDict(a=1).move_to_end("a")
    collections.ChainMap({}, {"a": 1})["a"]

    class Col(enum.Enum):
        R = 1
        G = 2

    Col(1)
    Col["G"]
    list(Col)

    class Fl(enum.Flag):
        A = enum.auto()
        B = enum.auto()

    Fl.A | Fl.B
    statistics.stdev([1, 2, 3, 4])
    statistics.median([3, 1, 2])
    fractions.Fraction(1, 3) + fractions.Fraction("0.25")
    r = random.Random(3)
    r.shuffle(list(range(20)))
    r.gauss(0, 1)
    r.sample(range(100), 5)


def parsing_and_pickling():
    """Configuration, HTML, XML, archives, pickles, context managers."""
    string.Template("$a ${b}").substitute(a=1, b=2)
    c = configparser.ConfigParser()
    c.read_string("[a]\nb=1\nc=%(b)s\n")
    c.getint("a", "b")
    c["a"]["c"]

    class H(html.parser.HTMLParser):
        def handle_starttag(self, t, a):
            self.t = t

    H().feed("<p class=x>hi<br/></p>")
    heapq.nsmallest(3, [5, 4, 3, 2], key=lambda v: v)
    list(heapq.merge([1, 3], [2, 4]))
    pickle.loads(pickle.dumps([DATA, fractions.Fraction(1, 2)]))
    pickle._loads(pickle._dumps(DATA))
    with contextlib.ExitStack() as st:
        st.callback(len, "a")
        st.enter_context(contextlib.suppress(KeyError))
        raise KeyError

    @contextlib.contextmanager
    def cm():
        try:
            yield 1
        except ValueError:
            pass

    with cm():
        raise ValueError
    root = ET.fromstring("<a><b x='1'>t</b></a>")
    root.find("b").get("x")
    ET.tostring(root)
    list(root.iter())
    b = io.BytesIO()
    z = zipfile.ZipFile(b, "w")
    z.writestr(zipfile.ZipInfo("a"), b"x" * 100)
    z.close()
    zipfile.ZipFile(b).read("a")


def small_things():
    """One call here and there, and a test suite with a failure."""
    struct.pack("ii", 1, 2)
    list(itertools.groupby("aabb", key=str.upper))
    inspect.signature(documents)
    inspect.getdoc(json)
    typing.get_type_hints(documents)
    datetime.datetime(2020, 1, 2).strftime("%Y")
    datetime.datetime.fromisoformat("2020-01-02")
    calendar.month(2020, 1)
    shlex.split("a 'b c'")
    pprint.pformat(DATA, width=30)
    base64.b64decode(base64.b64encode(b"abc"))
    hashlib.sha256(b"a").hexdigest()
    urllib.parse.urlsplit("http://a/b?c#d")
    urllib.parse.urlencode({"a": 1})
    pathlib.Path("/a/b.c").with_suffix(".d")
    os.path.join("a", "b")

    class T(unittest.TestCase):
        def test_a(self):
            self.assertEqual(1, 1)

        def test_b(self):
            self.assertRaises(ValueError, int, "x")

        def test_c(self):
            self.fail("no")

    unittest.TextTestRunner(stream=io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(T))
