"""Summing profiles."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from profkit.model import Profile
from profkit.model.merge import collapse, merge_profiles
from tests import builders

#: File, line, name and qualified name of a function.
Key = tuple[str, int, str, str]


def build(keys: list[Key], links: list[tuple[int, int]] | None, *, wait: bool = False) -> Profile:
    """Build a profile whose numbers are powers of two, so that every sum tells its parts."""
    waits = {"wait": 0.5, "cumwait": 0.75} if wait else {}
    rows = [builders.Row(*key[:3], 1 + i, 2.0**i, 1.0, key[3], **waits) for i, key in enumerate(keys)]
    pairs = None if links is None else [(*pair, 1 + i, 2.0**i) for i, pair in enumerate(links)]
    made = builders.profile(rows, pairs)
    edges, n = made.edges, len(made)
    if edges is not None:
        edges = replace(edges, primitive_calls=np.ones(len(edges), np.int64), cumtime=np.ones(len(edges)))
    cumblocked = np.full(n, 0.25) if wait else None
    return replace(made, edges=edges, primitive_calls=np.ones(n, np.int64), cumblocked=cumblocked).validate()


def key_of(profile: Profile, row: int) -> Key:
    file, name, qualname = (
        profile.strings[column[row]] for column in (profile.file, profile.name, profile.qualname)
    )
    return file, int(profile.line[row]), name, qualname


COLUMNS = ("ncalls", "primitive_calls", "tottime", "cumtime")


def sums(profiles: list[Profile]) -> tuple[Counter[Any], Counter[Any]]:
    """Sum everything the plain way."""
    functions: Counter[Any] = Counter()
    links: Counter[Any] = Counter()
    for profile in profiles:
        for row in range(len(profile)):
            for column in COLUMNS:
                functions[key_of(profile, row), column] += getattr(profile, column)[row].item()
        edges = profile.edges
        for e in range(0 if edges is None else len(edges)):
            pair = key_of(profile, int(edges.caller[e])), key_of(profile, int(edges.callee[e]))
            for column in COLUMNS:
                links[pair, column] += getattr(edges, column)[e].item()
    return functions, links


keys = st.tuples(
    st.sampled_from(["", "a.py", "b.py"]),
    st.sampled_from([-(2**31), 0, 1, 2**31 - 1]),
    st.sampled_from(["f", "g", "a.py"]),
    st.sampled_from(["", "f", "C.f"]),
)


@st.composite
def profiles(draw: Any) -> Profile:
    rows = draw(st.lists(keys, max_size=8))
    ends = st.integers(0, len(rows) - 1) if rows else st.nothing()
    links = draw(st.lists(st.tuples(ends, ends), max_size=8)) if rows else []
    return build(rows, links)


@settings(max_examples=60)
@given(st.lists(profiles(), max_size=4))
@example([])
@example([Profile.empty(), Profile.empty()])
@example([build([("a.py", 1, "f", ""), ("a.py", 2, "g", "")], [(0, 1), (0, 1)])])
def test_every_sum_is_right(parts: list[Profile]) -> None:
    merged = merge_profiles(parts).validate()
    assert sums([merged]) == sums(parts)
    found = [key_of(merged, row) for row in range(len(merged))]
    # Every function once, in order of first occurrence.
    assert found == list(dict.fromkeys(key_of(p, row) for p in parts for row in range(len(p))))
    pairs = list(zip(merged.edges.caller.tolist(), merged.edges.callee.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    bare = merge_profiles(parts, edges=False).validate()
    if parts:
        assert bare.edges is None
    assert bare.tottime.tolist() == merged.tottime.tolist()


def test_one_profile_without_duplicates_is_returned_as_it_is() -> None:
    profile = build([("a.py", 1, "f", ""), ("a.py", 2, "f", "")], [(0, 1)])
    assert merge_profiles([profile]) is profile
    assert collapse(profile) is profile


def test_qualified_names_tell_functions_apart_unless_told_not_to() -> None:
    profile = build([("<string>", 2, "__init__", f"{name}.__init__") for name in "AB"], None)
    assert collapse(profile) is profile
    assert collapse(profile, qualified=False).tottime.tolist() == [3.0]


def test_string_table_that_repeats_a_string() -> None:
    profile = build([("a.py", 1, "f", ""), ("a.py", 1, "g", "")], None)
    names = np.array([profile.name[0], len(profile.strings)], np.int32)
    twice = replace(profile, strings=(*profile.strings, "f"), name=names).validate()
    assert collapse(twice).tottime.tolist() == [3.0]


def test_wait_is_summed_over_those_that_have_it() -> None:
    rows = [("a.py", 1, "f", "")]
    merged = merge_profiles([build(rows, None, wait=wait) for wait in (True, False, True)])
    assert merged.wait.tolist() == [1.0]
    assert merged.blocked is None
    assert merged.cumwait.tolist() == [1.5]
    assert merged.cumblocked.tolist() == [0.5]
    assert merge_profiles([build(rows, None)] * 2).wait is None


def test_known_source_is_kept() -> None:
    plain = build([("a.py", 1, "f", "")], None)
    known = np.array([len(plain.strings)], np.int32)
    merged = merge_profiles([plain, replace(plain, strings=(*plain.strings, "h4sh"), source_hash=known)])
    assert merged.strings[merged.source_hash[0]] == "h4sh"
