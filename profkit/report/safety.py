"""What may leave the machine: results and runs without homes, users, host names and secrets.

Commands render only what a `Masker` returns. Masked runs compare as before, by paths as in a `FunctionKey`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from profkit.capture.agent.settings import RECORDED_VARIABLES
from profkit.compare.result_types import DiffTable
from profkit.compare.setting_differences import Setting
from profkit.measure.line_times import SeenLine
from profkit.model import PROJECT, SITE, STDLIB, FunctionKey, Notice, Profile, Ranges, Roots, Run, Thread
from profkit.model.arrays import Index
from profkit.model.notices import WHERE
from profkit.model.range_calls import RangeCalls
from profkit.report.declared import HASH, PYTHON, Kind, declared
from profkit.report.known_words import is_said
from profkit.report.learned_texts import ROOT_NAMES, is_absolute
from profkit.report.notices import SENTENCES, units_of
from profkit.report.recorded_texts import roots_of
from profkit.report.secrets import suspects
from profkit.report.text_mask import TextMask
from profkit.verdict.types import Advice, Checked, Diff, Evidence

T = TypeVar("T")
#: Masked strings, and by column the new index of each string where two kinds of text share one.
_Table = tuple[tuple[str, ...], dict[str, Index]]

#: Advice whose words are profkit's own.
_OWN_ADVICE = frozenset(
    ("list-processes", "look-at-quota", "lscpu", "show-workers", "show-waiting", "child-commands", "verify")
)
_POOL_SIZE = re.compile(r"(?P<size>\d+|\?)(?: \((?P<why>[^)]*)\))?")
_REVISION = re.compile(r"[0-9a-f]{7,64}(?: \+)?")


class Masker(TextMask):
    """Remove what identifies people and machines from results; use one per report (see `TextMask`)."""

    #: Of the run being masked: string tables by the id of the original, and the roots.
    _tables: Mapping[int, _Table] = {}
    _roots = Roots()

    def diff(self, diff: Diff) -> Diff:
        label_a, label_b = self._labels(diff.baseline.label, diff.candidate.label)
        masked: Diff = self._record(diff)
        return replace(
            masked,
            baseline=replace(masked.baseline, label=label_a),
            candidate=replace(masked.candidate, label=label_b),
        )

    def run(self, run: Run) -> Run:
        """Mask a run to show it or attach it to a ticket; it compares as before."""
        self._tables = self._masked_tables(run.profiles, roots_of(run))
        found: dict[str, list[str]] = {STDLIB: [], SITE: [], PROJECT: []}
        for (root, _), name in self.prefixes.items():
            found[root].append(name)
        self._roots = Roots(tuple(found[STDLIB]), tuple(found[SITE]), tuple(found[PROJECT]))
        return cast(Run, self._record(run))

    def value(self, value: T) -> T:
        """Mask the strings of any result; profiles and roots need their run."""
        return cast(T, self._masked(value, "", ""))

    def _masked(self, value: Any, owner: str, field: str) -> Any:
        """Mask the parts of a value; return it unchanged if no part changes."""
        if isinstance(value, str):
            return self._string(value, owner, field)
        if value is None or isinstance(value, bool | int | float | np.ndarray | np.generic):
            return value
        special = self._SPECIAL.get(type(value))
        if special is not None:
            return special(self, value)
        if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
            kind = declared(owner, field)
            if kind is Kind.COMMAND:
                return self.words(value)
            if kind is Kind.WORDS and all(isinstance(item, str) for item in value):
                return self.words(("", *value))[1:]
            parts = [self._masked(item, owner, field) for item in value]
            if all(new is old for new, old in zip(parts, value, strict=True)):
                return value
            return type(value)(parts)
        if isinstance(value, Mapping):
            return self._mapping(value, owner, field)
        return self._record(value) if is_dataclass(value) and not isinstance(value, type) else value

    def _record(self, value: Any, but: Sequence[str] = ()) -> Any:
        changed = {}
        for part in fields(value):
            old = getattr(value, part.name)
            new = old if part.name in but else self._masked(old, type(value).__name__, part.name)
            if new is not old:
                changed[part.name] = new
        return replace(value, **changed) if changed else value

    def _string(self, text: str, owner: str, field: str) -> str:
        kind = declared(owner, field)
        if not text or kind is Kind.OWN:
            return text
        if kind is HASH:
            return self._hash(text)
        if isinstance(kind, re.Pattern):
            return self.formed(text, kind)
        if kind is Kind.ENVIRONMENT:
            name, sign, value = text.partition("=")
            shown = name if name in RECORDED_VARIABLES else self.hidden(name)
            return f"{shown}{sign}{self.variable(name, value)}"
        mask: Callable[[str], str] = getattr(self, kind.value, self.hidden)
        return mask(text)

    def _mapping(self, value: Mapping[str, Any], owner: str, field: str) -> dict[str, Any]:
        kind = declared(owner, field)
        if kind is Kind.ENVIRONMENT:
            return {
                name: self.variable(name, text) for name, text in value.items() if name in RECORDED_VARIABLES
            }
        if kind is Kind.VERSION:
            return {self.name(name): self.version(text) for name, text in value.items()}
        if kind is Kind.HOST:
            return {self.host(name): self._masked(item, owner, field) for name, item in value.items()}
        found = {}
        for key, item in value.items():
            # Keys of results are identifiers of readings.
            name = key if kind is Kind.NAME else self._string(str(key), owner, field)
            # A key ends in a number where there are several of it.
            member = str(key).partition("-")[0]
            if isinstance(item, str) and declared(field, member) is not Kind.UNDECLARED:
                found[name] = self._string(item, field, member)
            else:
                # Forms apply to a mapping's keys; its string values are undeclared, so they are hidden.
                found[name] = self._masked(item, owner, field if kind is Kind.NAME else f"{field}[]")
        return found

    def _notice(self, notice: Notice) -> Notice:
        """Mask a notice's texts; of unknown notices also the code and the names of numbers."""
        known = notice.code in SENTENCES
        units = units_of(notice.code) if known else WHERE
        subject = self._said(notice.subject, units.get("subject", ""))
        numbers: dict[str, Any] = {}
        for name, value in notice.numbers.items():
            shown = (known and name in units) or all(is_said(part) for part in name.split("_"))
            key = name if shown else self.hidden(name)
            numbers[key] = self._said(value, units.get(name, ""))
        if known or all(is_said(part) for part in notice.code.split("-")):
            return Notice(notice.code, subject, numbers)
        return Notice("text", f"{self.hidden(notice.code)}: {subject}", numbers)

    def _said(self, value: Any, unit: str) -> Any:
        """Mask a text of a notice by its unit."""
        if isinstance(value, tuple):
            return tuple(self._said(item, unit) for item in value)
        if not isinstance(value, str) or not value:
            return value
        masks: Mapping[str, Callable[[str], str]] = {
            "file": self.user_file,
            "path": self._commands.path,
            "host": self.host,
            "python": lambda version: self.formed(version, PYTHON),
            "label": self.label,
        }
        return masks.get(unit.rstrip("?"), self.message)(value)

    def _setting(self, setting: Setting) -> Setting:
        masks: Mapping[str, Callable[[str], str]] = {
            "variable": lambda value: self.variable(setting.name, value),
            "package": self.version,
            "pool": lambda value: ", ".join(map(self._pool_size, value.split(", "))),
            "machine": lambda value: self.host(value) if setting.name == "host" else self.label(value),
            "source": lambda value: self.formed(value, _REVISION),
        }
        mask = masks.get(setting.kind, partial(self.formed, form=PYTHON))
        name = self.name(setting.name) if setting.kind == "package" else self.label(setting.name)
        baseline, candidate = (value and mask(value) for value in (setting.baseline, setting.candidate))
        return Setting(setting.kind, name, baseline, candidate)

    def _pool_size(self, text: str) -> str:
        found = _POOL_SIZE.fullmatch(text)
        if found is None:
            return self.hidden(text)
        why = found["why"]
        if not why:
            return text
        shown = self._string(why, "Pool", "variable" if "=" in why else "origin")
        return f"{found['size']} ({shown})"

    def _checked(self, checked: Checked) -> Checked:
        """Mask what a condition was evaluated with, unless its reading gives one of profkit's identifiers."""
        own = declared("numbers", checked.reading) is Kind.OWN
        return cast(Checked, self._record(checked, ("value",) if own else ()))

    def _evidence(self, evidence: Evidence) -> Evidence:
        sides = {}
        for side in ("baseline", "candidate"):
            value = getattr(evidence, side)
            if isinstance(value, str):
                if evidence.signal == "command":
                    value = self._words.get(value) or self._joined.get(value) or self._commands.shown(value)
                elif evidence.signal == "variable":
                    value = self.variable(evidence.subject, value)
                else:
                    value = self.name(value)
            sides[side] = value
        return cast(Evidence, replace(self._record(evidence, tuple(sides)), **sides))

    def _advice(self, advice: Advice) -> Advice:
        argv = advice.argv if advice.kind in _OWN_ADVICE else self.words(advice.argv)
        if advice.kind == "compare-libraries":
            argv = (*advice.argv[:-1], self.name(advice.argv[-1]))
        if advice.kind == "git-log":
            argv = (*advice.argv[:-1], self.key_path(advice.argv[-1]))
        return cast(Advice, replace(self._record(advice, ("argv",)), argv=argv))

    def _strings_of(self, table: Ranges | RangeCalls) -> Ranges | RangeCalls:
        """Mask the names of ranges; strings that no row uses become empty."""
        used = np.zeros(len(table.strings), np.bool_)
        for column in ("name", "domain", "category"):
            rows = getattr(table, column, None)
            if rows is not None:
                used[rows] = True
        masked = self.name_mask(table.strings)
        strings = [
            masked(text) if kept else "" for text, kept in zip(table.strings, used.tolist(), strict=True)
        ]
        return replace(table, strings=tuple(strings))

    def _masked_tables(self, profiles: Sequence[Profile], roots: Roots) -> dict[int, _Table]:
        """Mask the string tables of a run's profiles by the columns that use each string.

        Threads keep sharing a table; unused strings become empty. A string of two kinds, such as a function
        and a module of one name, becomes two if masked differently.
        """
        together: dict[int, list[Profile]] = {}
        for profile in profiles:
            together.setdefault(id(profile.strings), []).append(profile)
        return {identity: self._masked_table(sharing, roots) for identity, sharing in together.items()}

    def _masked_table(self, profiles: list[Profile], roots: Roots) -> _Table:
        strings = profiles[0].strings
        among = suspects(strings)
        # By columns of one kind: a function that takes all their strings and returns the mask of one.
        ways: Mapping[tuple[str, ...], Callable[[list[str]], Callable[[str], str]]] = {
            ("file",): lambda _: lambda text: self.file(text, roots, among),
            ("name", "qualname"): lambda names: self.name_mask(names, users=False),
            ("module",): lambda _: lambda text: self.module(text, among),
            ("source_hash",): lambda _: self._hash,
        }
        texts = [""] * len(strings)
        owned = np.zeros(len(strings), np.bool_)
        owned[0] = True
        moved: dict[str, Index] = {}
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
        return tuple(texts), moved

    def _hash(self, text: str) -> str:
        """Mask the hash of a source, which contains the function's name: it would confirm a guess at it."""
        known = self.formed(text, HASH)
        if self._pseudonyms is None or not HASH.fullmatch(text):
            return known
        return self._pseudonyms.digest(known)[: len(known)]

    def _thread(self, thread: Thread) -> Thread:
        """Mask a thread; digests of names that have pseudonyms would match nothing, and let them be guessed."""
        masked: Thread = self._record(thread)
        return replace(masked, definitions=()) if self._pseudonyms is not None else masked

    def _profile(self, profile: Profile) -> Profile:
        strings, moved = self._tables[id(profile.strings)]
        columns = {column: places[getattr(profile, column)] for column, places in moved.items()}
        return replace(profile, strings=strings, **columns)

    def _table(self, table: DiffTable) -> DiffTable:
        # In row order: placeholders are numbered as texts are met.
        paths = self.key_paths(key.path for key in table.keys)
        called = list(dict.fromkeys((*table.name, *(key.qualname for key in table.keys))))
        names = dict(zip(called, map(self.name_mask(called, users=False), called), strict=True))
        keys = table.keys
        if any(shown != path for path, shown in (*paths.items(), *names.items())):
            keys = tuple(FunctionKey(k.root, paths[k.path], names[k.qualname]) for k in keys)
        rooted_as = {
            (root, path): f"{placeholder}/{path}"
            for path in paths.values()
            if path and not is_absolute(path)
            for root, placeholder in ROOT_NAMES.items()
        }
        nowhere = Roots()
        files = tuple(
            rooted_as.get(key[:2]) or self.file(file, nowhere)
            for key, file in zip(keys, table.file, strict=True)
        )
        return replace(table, keys=keys, name=tuple(names[name] for name in table.name), file=files)

    def _labels(self, baseline: str, candidate: str) -> tuple[str, str]:
        """Return base names of the user's arguments, with as many directories as make them differ."""
        if baseline == candidate:
            return (self.user_file(baseline),) * 2
        sides = [self.outside(label.rstrip("/\\")).split("/") for label in (baseline, candidate)]
        for parts in range(1, max(map(len, sides)) + 1):
            tails = ["/".join(side[-parts:]) for side in sides]
            if tails[0] != tails[1]:
                return tails[0], tails[1]
        return self.user_file(baseline), self.user_file(candidate)

    _SPECIAL: Mapping[type, Callable[[Masker, Any], Any]] = {
        Run: run,
        Diff: diff,
        Thread: _thread,
        Profile: _profile,
        Roots: lambda self, _: self._roots,
        DiffTable: _table,
        FunctionKey: lambda self, key: key._replace(
            path=self.key_path(key.path), qualname=self.name(key.qualname, users=False)
        ),
        # Source text may contain anything.
        SeenLine: lambda self, line: self._record(replace(line, file="", text="")),
        Notice: _notice,
        Setting: _setting,
        Checked: _checked,
        Evidence: _evidence,
        Advice: _advice,
        Ranges: _strings_of,
        RangeCalls: _strings_of,
    }
