"""A suite of some hundred small tests, with fixtures, parameters and failures that are expected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest


class Store:
    """A key-value store in one JSON file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: dict[str, int] = {}

    def put(self, key: str, value: int) -> None:
        if not key:
            raise KeyError("empty")
        self.values[key] = value
        self.path.write_text(json.dumps(self.values))

    def read(self) -> dict[str, int]:
        found: dict[str, int] = json.loads(self.path.read_text())
        return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "store.json")
    yield made
    made.values.clear()


@pytest.mark.parametrize("count", range(1, 101))
def test_what_is_put_is_read(store: Store, count: int) -> None:
    for number in range(count % 7 + 1):
        store.put(f"key {number}", number * count)
    assert store.read() == {f"key {number}": number * count for number in range(count % 7 + 1)}


@pytest.mark.parametrize("key", ["a", "b c", "ü", "x" * 100])
@pytest.mark.parametrize("value", range(50))
def test_any_key(store: Store, key: str, value: int) -> None:
    store.put(key, value)
    assert store.read()[key] == value


@pytest.mark.parametrize("value", range(100))
def test_an_empty_key_is_refused(store: Store, value: int) -> None:
    with pytest.raises(KeyError, match="empty"):
        store.put("", value)
    assert not store.path.exists()


@pytest.mark.xfail(strict=True)
@pytest.mark.parametrize("number", range(20))
def test_expected_failures(number: int) -> None:
    assert [number] * 3 == [number] * 2 + [number + 1]
