"""Programs that use much of the standard library; see tracer_workloads.py. Holds no tests itself."""

# ruff: noqa: SIM105, UP

import argparse
import configparser
import contextlib
import fractions
import heapq
import html.parser
import io
import json
import pickle
import re
import string
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
