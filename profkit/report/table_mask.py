"""The string tables of profiles, masked: the columns alone tell which text is a file, name or module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from profkit.model import Profile, Roots
from profkit.report.declared import FORMS
from profkit.report.secrets import suspects
from profkit.report.text_mask import TextMask


class TableMask:
    """Mask the string tables of a run's profiles by what the columns say that a string is.

    Threads keep sharing a table. Strings that no column names are left out. A string of two kinds, such as a
    function and a module of one name, becomes two if masked differently.
    """

    def __init__(self, masker: TextMask, profiles: Sequence[Profile], roots: Roots) -> None:
        self._masker = masker
        self._strings: dict[int, tuple[str, ...]] = {}
        self._moved: dict[int, dict[str, npt.NDArray[np.int32]]] = {}
        together: dict[int, list[Profile]] = {}
        for profile in profiles:
            together.setdefault(id(profile.strings), []).append(profile)
        for identity, sharing in together.items():
            self._mask(identity, sharing, roots)

    def masked(self, profile: Profile) -> Profile:
        """Return a profile with its table masked."""
        identity = id(profile.strings)
        columns = {column: moved[getattr(profile, column)] for column, moved in self._moved[identity].items()}
        return replace(profile, strings=self._strings[identity], **columns)

    def _mask(self, identity: int, profiles: list[Profile], roots: Roots) -> None:
        masker, strings = self._masker, profiles[0].strings
        among = suspects(strings)
        form = FORMS["Profile.source_hash"]
        # By the columns that hold a kind of text: what masks one, having seen all of them.
        ways: Mapping[tuple[str, ...], Callable[[list[str]], Callable[[str], str]]] = {
            ("file",): lambda _: lambda text: masker.file(text, roots, among),
            ("name", "qualname"): lambda names: masker.name_mask(names, users=False),
            ("module",): lambda _: lambda text: masker.module(text, among),
            ("source_hash",): lambda _: lambda text: masker.formed(text, form),
        }
        texts = [""] * len(strings)
        owned = np.zeros(len(strings), np.bool_)
        owned[0] = True
        moved: dict[str, npt.NDArray[np.int32]] = {}
        for columns, way in ways.items():
            used = np.zeros(len(strings), np.bool_)
            for profile in profiles:
                for column in columns:
                    used[getattr(profile, column)] = True
            places = np.arange(len(strings), dtype=np.int32)
            rows = np.flatnonzero(used).tolist()
            mask = way([strings[at] for at in rows])
            for at in rows:
                text = mask(strings[at])
                if not owned[at]:
                    texts[at] = text
                    owned[at] = True
                elif texts[at] != text:
                    places[at] = len(texts)
                    texts.append(text)
                    moved.update(dict.fromkeys(columns, places))
        self._strings[identity] = tuple(texts)
        self._moved[identity] = moved
