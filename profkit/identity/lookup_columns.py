"""Columns of texts and keys that make items on access, and evaluate predicates once per distinct value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

import numpy as np

from profkit.model import ROOTS, FunctionKey
from profkit.model.arrays import Bools, Rows

Item = TypeVar("Item")


class _Column(Sequence[Item], Generic[Item], ABC):
    __slots__ = ()

    @abstractmethod
    def item(self, row: int) -> Item:
        """Return the item of a row."""

    @overload
    def __getitem__(self, row: int) -> Item: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Item]: ...
    def __getitem__(self, row: int | slice) -> Item | Sequence[Item]:
        if isinstance(row, slice):
            return tuple(map(self.item, range(len(self))[row]))
        return self.item(row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))


class Looked(_Column[Item]):
    """The column whose row *i* is ``values[which[i]]``."""

    __slots__ = ("values", "which")

    def __init__(self, which: Rows, values: Sequence[Item]) -> None:
        self.which = which
        self.values = values

    def where(self, holds: Callable[[Item], Any]) -> Bools:
        """Return the rows whose value has a property."""
        return np.fromiter(map(holds, self.values), np.bool_, len(self.values))[self.which]

    def __len__(self) -> int:
        return len(self.which)

    def item(self, row: int) -> Item:
        item: Item = self.values[self.which[row]]
        return item

    def __iter__(self) -> Iterator[Item]:
        return map(self.values.__getitem__, self.which.tolist())


class Keys(_Column[FunctionKey]):
    """The keys of functions; `file` indexes `places` (root and path), `root` indexes `ROOTS`."""

    __slots__ = ("file", "name", "places", "root")

    def __init__(self, file: Rows, places: Sequence[tuple[str, str]], name: Looked[str]) -> None:
        self.file = file
        self.places = places
        self.name = name
        self.root = np.array([ROOTS.index(root) for root, _ in places], np.int8)[file]

    def __len__(self) -> int:
        return len(self.file)

    def item(self, row: int) -> FunctionKey:
        root, path = self.places[self.file[row]]
        return FunctionKey(root, path, self.name[row])

    def __iter__(self) -> Iterator[FunctionKey]:
        places = map(self.places.__getitem__, self.file.tolist())
        return (FunctionKey(root, path, name) for (root, path), name in zip(places, self.name, strict=True))


def rows_where(column: Sequence[Item], holds: Callable[[Item], Any]) -> Bools:
    """Return the rows of any column whose value has a property."""
    if isinstance(column, Looked):
        return column.where(holds)
    return np.fromiter(map(holds, column), np.bool_, len(column))


def rows_in(keys: Sequence[FunctionKey], *roots: str) -> Bools:
    """Return the rows whose functions are under one of these roots."""
    if isinstance(keys, Keys):
        return np.isin(keys.root, [ROOTS.index(root) for root in roots])
    return np.fromiter((key.root in roots for key in keys), np.bool_, len(keys))
