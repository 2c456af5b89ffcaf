"""What a producer of evidence is, and how much it names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from profkit.verdict.types import Evidence

#: Most functions and ranges that are named.
NAMED = 3
#: Least part of a range's time in queueing for it to be named.
LEAST_SHARE = 0.1

Found = Iterable[Evidence]
#: By the name that rules use. Each takes a `Case`; those that rules of one run use, any `Judged`.
Producers = Mapping[str, Callable[[Any], Found]]
