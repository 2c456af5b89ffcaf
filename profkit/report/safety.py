"""What may leave the machine: results and runs without homes, users, host names and secrets.

The one boundary before every renderer: a command hands its `Diff` or `Run` through a `Masker` and only what
comes out of it is laid out, so that no renderer has to remember. Every string of every field is looked at, also
of fields that this module has never heard of; function names stay as they are. Paths become what a
`FunctionKey` says of them (``<project>/model/blocks.py``), so that a masked run is still compared as before.
What a secret looks like is in `secrets`. Reads no files and no environment.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np

from profkit.capture.agent.settings import THREAD_VARIABLES
from profkit.identity.paths import normalise, rooted
from profkit.measure.settings import Setting
from profkit.measure.tables import DiffTable
from profkit.model import PROJECT, SITE, STDLIB, FunctionKey, Notice, Profile, Roots, Run
from profkit.model.notices import CODES
from profkit.report.secrets import MASK, is_plain_name, masked_text, masked_words, secret_values
from profkit.verdict.types import Diff

__all__ = ["HOME", "Masker", "Owner"]

#: What stands for a user's name, and for a home.
HOME = "~"

T = TypeVar("T")

_SEPARATOR = r"[\\/]+"
_NAME = r"[^\\/\s'\":;,<>|*?“”()]+"
#: Directories that are some user's home, by their form: the user's name is the last part.
_HOMES = re.compile(
    rf"(?:(?<![\w.~-])(?:[A-Za-z]:|/mnt/[a-z]|/(?:cygdrive/)?[a-z])?{_SEPARATOR}(?:Users|Documents and Settings)"
    rf"|(?<![\w.~-])(?:/(?:export|nfs|net|mnt|usr|var|data|gpfs|lustre|scratch|storage|cluster|remote)[\w.-]*)?/home\d*"
    rf"|(?<![\w.~-])/afs/[\w.-]+/(?:user|home)/\w)"
    rf"{_SEPARATOR}(?P<user>{_NAME})",
)
_ROOT_HOME = re.compile(r"(?<![\w.~-])/(?:var/)?root(?=[/\s'\":;,]|$)")
#: Names in the place of a user's that belong to no person.
_NOBODY = frozenset("root user users shared public default guest admin ubuntu debian runner".split())  # noqa: SIM905
#: Options whose value names machines.
_HOST_OPTION = re.compile(
    r"-{0,2}(?:H|hosts?|w|nodelist|host-?names?|master[_-]addr(?:ess)?|rdzv[_-]endpoint|coordinator(?:[_-]address)?"
    r"|(?:scheduler|server|head)[_-](?:address|host)|node[_-]ip[_-]address|ip)",
    re.IGNORECASE,
)
_HOST_IN_LIST = re.compile(r"[A-Za-z0-9][\w-]*(?:\.[\w-]+)*")
_IPV4 = re.compile(r"(?<![\w.])(?!127\.|0\.0\.0\.0)\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)")
#: A host in front of a path, as Windows and automounters have it.
_HOST_OF_PATH = re.compile(r"(?:^|(?<=[\s'\"]))(?:\\\\|//|/net/)(?P<host>[A-Za-z][\w.-]*)[\\/]", re.MULTILINE)
_LOCAL = frozenset(("localhost", "localhost.localdomain", "127.0.0.1", "0.0.0.0", "::1"))
#: Fields whose strings are files that the user named: their base names are enough.
_FILE_FIELDS = frozenset(("label", "files", "path"))
#: Fields of sentences and commands, where a word that looks random is a secret, as it is in a `Notice`. Elsewhere it
#: may be the name of a generated function.
_SPOKEN_FIELDS = frozenset(("advice", "cwd", "environment"))
_PLACEHOLDERS = {STDLIB: "<stdlib>", SITE: "<site>", PROJECT: "<project>"}


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose machine the report is made on; empty where it is not known."""

    home: str = ""
    user: str = ""
    host: str = ""


class Masker:
    """Takes out of results what identifies people and machines.

    One masker serves one report: the same machine has the same pseudonym everywhere in it (``host-a``,
    ``host-b`` in the order of the runs), and two machines have two.

    Parameters
    ----------
    runs
        All runs of the report, the baseline's first: what they say of hosts, homes and commands is looked for
        in every text.
    owner
        The same of the machine that makes the report.
    """

    def __init__(self, runs: Iterable[Run] = (), owner: Owner | None = None) -> None:
        owner = owner or Owner()
        self._texts: dict[tuple[str, bool], str] = {}
        self._prefixes: dict[tuple[str, str], str] = {}
        self._hosts: dict[str, str] = {}
        self._users: set[str] = set()
        self._literals: dict[str, str] = {}
        self._homes: list[str] = []
        gathered = list(runs)
        for run in gathered:
            self._learn(run)
        self._learn_host(owner.host)
        self._learn_user(owner.user)
        if len(owner.home.strip("/\\")) > 1:
            self._homes.append(owner.home.rstrip("/\\"))
            self._learn_user(re.split(_SEPARATOR, owner.home.rstrip("/\\"))[-1])
        self._known = self._compiled()
        for run in gathered:
            self._learn_commands(run)
        self._known = self._compiled()

    # What the runs say -----------------------------------------------------------------------------------

    def _learn(self, run: Run) -> None:
        if run.manifest is not None:
            self._learn_host(run.manifest.host.name)
        for process in run.processes:
            if process.host is not None:
                self._learn_host(process.host.name)
        for command in _commands(run):
            for words in (command, *(w.split() for w in command if " " in w)):
                self._learn_hosts_of(words)
        for text in _paths(run):
            for home in _HOMES.finditer(text):
                self._learn_user(home["user"])
            for host in _HOST_OF_PATH.finditer(text):
                self._learn_host(host["host"])

    def _learn_host(self, name: str) -> None:
        name = name.strip()
        if not name or name.lower() in _LOCAL or name in self._hosts:
            return
        short = name.partition(".")[0]
        pseudonym = self._hosts.get(short)
        if pseudonym is None or _IPV4.fullmatch(name):
            pseudonym = f"host-{_letters(len(set(self._hosts.values())))}"
        self._hosts[name] = pseudonym
        if not _IPV4.fullmatch(name):
            self._hosts.setdefault(short, pseudonym)

    def _learn_hosts_of(self, words: Sequence[str]) -> None:
        for place, word in enumerate(words):
            option, sign, value = word.partition("=")
            if not sign and place + 1 < len(words):
                value = words[place + 1]
            if _HOST_OPTION.fullmatch(option) and value and (sign or option.startswith("-")):
                for part in re.split(r"[,;\s]+", value.rpartition("://")[2]):
                    found = _HOST_IN_LIST.match(part)
                    # A number, a path or another option is no host.
                    if found and not part[0].isdigit() and part[found.end() :][:1] in ("", ":", "/"):
                        self._learn_host(found.group())
        for word in words:
            for address in _IPV4.findall(word):
                self._learn_host(address)

    def _learn_user(self, name: str) -> None:
        if len(name) >= 3 and name.lower() not in _NOBODY and name not in (HOME, "..."):
            self._users.add(name)

    def _learn_commands(self, run: Run) -> None:
        """Find the secrets of every command, and how each command reads without them."""
        for command in _commands(run):
            if not command:
                continue
            masked = self.words(command)
            if masked != tuple(command):
                for join in (shlex.join, " ".join):
                    self._literals.setdefault(join(command), join(masked))
            for secret in secret_values(command):
                self._literals.setdefault(secret, MASK)
        self._literals.setdefault(run.path, self.text(_base(run.path)))
        environments = [p.environment for p in run.processes]
        if run.manifest is not None:
            environments.append(run.manifest.environment)
        for environment in environments:
            for secret in secret_values([f"{name}={value}" for name, value in environment.items()]):
                self._literals.setdefault(secret, MASK)

    def _compiled(self) -> re.Pattern[str] | None:
        """One pattern for all that is known by its letters, the longest first."""
        parts = [(literal, re.escape(literal)) for literal in self._literals if literal]
        parts += [(home, rf"{re.escape(home)}(?![\w.-])") for home in self._homes]
        for host in self._hosts:
            # A name like ``train`` is found as a word only, one like ``gpu-node17`` also in the name of a file.
            distinct = re.search(r"[\d.-]", host) or len(host) >= 10
            around = (
                (r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])")
                if distinct
                else (r"(?<![\w./-])", r"(?![\w/-]|\.\w)")
            )
            parts.append((host, f"{around[0]}{re.escape(host)}{around[1]}"))
        for user in self._users:
            name = re.escape(user)
            parts.append(
                (user, rf"(?<=[\\/_=:@]){name}(?=[\\/@:\s'\"]|$)|(?<![\w./-]){name}(?!\w|\.\w|[/-])")
            )
        if not parts:
            return None
        parts.sort(key=lambda part: -len(part[0]))
        return re.compile("|".join(pattern for _, pattern in parts))

    def _replacement(self, match: re.Match[str]) -> str:
        text = match.group()
        if text in self._literals:
            return self._literals[text]
        return self._hosts.get(text, HOME)

    # Strings ---------------------------------------------------------------------------------------------

    def text(self, text: str, *, random: bool = True) -> str:
        """Mask running text; `random` as in `profkit.report.secrets.masked_text`."""
        known = self._texts.get((text, random))
        if known is None:
            known = self._texts[text, random] = self._masked(text, random)
        return known

    def _masked(self, text: str, random: bool) -> str:
        if not text:
            return text
        if self._known is not None:
            text = self._known.sub(self._replacement, text)
        if "/" in text or "\\" in text:
            text = _ROOT_HOME.sub(HOME, _HOMES.sub(HOME, text))
        return masked_text(text, random=random)

    def path(self, path: str) -> str:
        """Mask a path: its directory, which many files share, and its last part apart."""
        directory, slash, name = path.rpartition("/")
        if not is_plain_name(name) or (self._known is not None and self._known.search(name)):
            return self.text(path, random=False)
        # The slash stays with the directory: homes are known by what follows them.
        return self.text(directory + slash, random=False) + name if slash else name

    def words(self, words: Sequence[str]) -> tuple[str, ...]:
        """Mask a command line word by word."""
        return tuple(self.text(word, random=False) for word in masked_words(words))

    def file(self, file: str, roots: Roots) -> str:
        """Name a source file by its root: ``<site>/numpy/linalg/_linalg.py``.

        A second directory of the same kind is ``<site-2>``, so that two copies of a module stay two.
        """
        root, inside = rooted(file, roots)
        placeholder = _PLACEHOLDERS.get(root)
        if placeholder is None or file.endswith(">") or _is_absolute(inside):
            return self.text(file, random=False)
        prefix = normalise(file).removesuffix(inside)
        known = self._prefixes.get((root, prefix))
        if known is None:
            number = 1 + sum(kind == root for kind, _ in self._prefixes)
            known = placeholder if number == 1 else f"{placeholder[:-1]}-{number}>"
            self._prefixes[root, prefix] = known
        return f"{known}/{self.path(inside)}"

    # Objects ---------------------------------------------------------------------------------------------

    def diff(self, diff: Diff) -> Diff:
        """Return the comparison as it may be shown."""
        label_a, label_b = self._labels(diff.baseline.label, diff.candidate.label)
        masked = self.value(diff)
        return replace(
            masked,
            baseline=replace(masked.baseline, label=label_a),
            candidate=replace(masked.candidate, label=label_b),
        )

    def run(self, run: Run) -> Run:
        """Return the run as it may be shown, or attached to a ticket; it is compared as before."""
        directories = [process.roots for process in run.processes]
        roots = Roots(
            tuple(dict.fromkeys(d for r in directories for d in r.stdlib)),
            tuple(dict.fromkeys(d for r in directories for d in r.site)),
            tuple(dict.fromkeys(d for r in directories for d in r.project)),
        )
        profiles = [thread.profile for process in run.processes for thread in process.threads]
        if not roots.project:
            roots = replace(roots, project=_inferred_projects(profiles))
        tables = self._tables(profiles, roots)

        def convert(value: object, field: str) -> object:
            if isinstance(value, Profile):
                return replace(value, strings=tables[id(value.strings)])
            if isinstance(value, Roots):
                return placeholders
            return self._plain(value, field, convert)

        found: dict[str, list[str]] = {STDLIB: [], SITE: [], PROJECT: []}
        for (root, _), name in self._prefixes.items():
            found[root].append(name)
        placeholders = Roots(tuple(found[STDLIB]), tuple(found[SITE]), tuple(found[PROJECT]))
        return cast(Run, convert(run, ""))

    def value(self, value: T, field: str = "") -> T:
        """Return any result with its strings masked; `field` is the name of the field that holds it."""
        if isinstance(value, DiffTable):
            return cast(T, self._table(value))
        return cast(T, self._plain(value, field, self.value))

    def _plain(self, value: Any, field: str, convert: Any) -> Any:
        """Rebuild a value from its converted parts; itself where nothing changes."""
        if isinstance(value, str):
            if field in _FILE_FIELDS:
                return self.text(_base(value))
            return self.text(value, random=field in _SPOKEN_FIELDS)
        if value is None or isinstance(value, bool | int | float | np.ndarray | np.generic):
            return value
        if isinstance(value, FunctionKey):
            return value._replace(path=self.path(value.path))
        if isinstance(value, Notice):
            return self._notice(value)
        if isinstance(value, Setting) and value.kind == "variable" and value.name not in THREAD_VARIABLES:
            return replace(value, baseline=value.baseline and MASK, candidate=value.candidate and MASK)
        if isinstance(value, tuple | list):
            if field in ("command", "argv"):
                return self.words(value)
            parts = [convert(item, field) for item in value]
            if all(new is old for new, old in zip(parts, value, strict=True)):
                return value
            return value._make(parts) if hasattr(value, "_make") else type(value)(parts)
        if isinstance(value, Mapping):
            return self._mapping(value, field, convert)
        if is_dataclass(value) and not isinstance(value, type):
            changed = {}
            for part in fields(value):
                old = getattr(value, part.name)
                new = convert(old, part.name)
                if new is not old:
                    changed[part.name] = new
            return replace(value, **changed) if changed else value
        return value

    def _notice(self, notice: Notice) -> Notice:
        """Mask the texts of a notice; of those that this version does not know, the names of its numbers too."""

        def masked(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(masked(item) for item in value)
            return self.text(value) if isinstance(value, str) else value

        known = notice.code in CODES
        numbers = {
            name if known else self.text(name): masked(value) for name, value in notice.numbers.items()
        }
        return Notice(notice.code, self.text(notice.subject), numbers)

    def _mapping(self, value: Mapping[str, Any], field: str, convert: Any) -> dict[str, Any]:
        if field == "environment":
            kept = {name: text for name, text in value.items() if name in THREAD_VARIABLES}
            words = masked_words([f"{name}={text}" for name, text in kept.items()])
            return {name: self.text(word.partition("=")[2]) for name, word in zip(kept, words, strict=True)}
        if field == "job" and isinstance(value.get("id"), str):
            # Schedulers put hosts and users into it; ranks of one job need only to have the same.
            digest = hashlib.sha256(value["id"].encode("utf-8", "surrogatepass")).hexdigest()[:12]
            already = re.fullmatch(r"job-[0-9a-f]{12}", value["id"])
            value = {**value, "id": value["id"] if already else f"job-{digest}"}
        return {self.text(str(key), random=False): convert(item, field) for key, item in value.items()}

    def _table(self, table: DiffTable) -> DiffTable:
        masked = {path: self.path(path) for path in {key.path for key in table.keys}}
        changed = {path for path, shown in masked.items() if shown != path}
        keys = table.keys
        if changed:
            keys = tuple(k._replace(path=masked[k.path]) if k.path in changed else k for k in keys)
        rooted_as = {
            (root, path): f"{placeholder}/{path}"
            for path in masked.values()
            if path and not _is_absolute(path)
            for root, placeholder in _PLACEHOLDERS.items()
        }
        files = tuple(
            rooted_as.get(key[:2]) or self.text(file, random=False)
            for key, file in zip(keys, table.file, strict=True)
        )
        return replace(table, keys=keys, file=files)

    def _tables(self, profiles: Sequence[Profile], roots: Roots) -> dict[int, tuple[str, ...]]:
        """Mask the files in every string table, by the table's identity: threads share theirs."""
        used: dict[int, tuple[tuple[str, ...], np.ndarray[Any, np.dtype[np.bool_]]]] = {}
        for profile in profiles:
            known = used.get(id(profile.strings))
            if known is None:
                known = used[id(profile.strings)] = (
                    profile.strings,
                    np.zeros(len(profile.strings), np.bool_),
                )
            known[1][profile.file] = True
        result = {}
        for identity, (strings, is_file) in used.items():
            texts = list(strings)
            for at in np.flatnonzero(is_file).tolist():
                texts[at] = self.file(texts[at], roots)
            result[identity] = tuple(texts)
        return result

    def _labels(self, baseline: str, candidate: str) -> tuple[str, str]:
        """Base names of what the user typed, with a directory more where those are the same."""
        if baseline == candidate:
            return (self.text(_base(baseline)),) * 2
        sides = [re.split(_SEPARATOR, self.text(label).rstrip("/\\")) for label in (baseline, candidate)]
        for parts in range(1, max(map(len, sides)) + 1):
            tails = ["/".join(side[-parts:]) for side in sides]
            if tails[0] != tails[1]:
                return tails[0], tails[1]
        return self.text(_base(baseline)), self.text(_base(candidate))


def _letters(number: int) -> str:
    """``a`` … ``z``, ``aa`` …"""
    text = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(ord("a") + digit) + text
    return text


def _base(path: str) -> str:
    """Last part of a path of any system; of ``a.prof and 2 more`` too."""
    parts = [part for part in re.split(_SEPARATOR, path) if part]
    return parts[-1] if parts else path


def _is_absolute(path: str) -> bool:
    return path.startswith(("/", "\\", f"{HOME}/")) or path[1:2] == ":"


def _commands(run: Run) -> list[tuple[str, ...]]:
    commands = [run.manifest.command] if run.manifest is not None else []
    return list(dict.fromkeys([*commands, *(process.command for process in run.processes)]))


def _paths(run: Run) -> list[str]:
    """Every text of a run that may hold a path, files of a whole table in one text."""
    texts = [run.path, *_texts(run.warnings)]
    if run.manifest is not None:
        texts += [run.manifest.cwd, *run.manifest.environment.values()]
    for process in run.processes:
        roots = process.roots
        texts += [
            *roots.stdlib,
            *roots.site,
            *roots.project,
            *_texts(process.notes),
            *process.environment.values(),
        ]
    texts += [word for command in _commands(run) for word in command]
    files: set[str] = set()
    for process in run.processes:
        for thread in process.threads:
            strings = thread.profile.strings
            files.update(strings[at] for at in np.unique(thread.profile.file).tolist())
    # A home is a directory, and many files share one.
    directories = {file.rpartition("/")[0] + "/" if "/" in file else file for file in files}
    return [*texts, "\n".join(directories)]


def _texts(notices: Iterable[Notice]) -> Iterator[str]:
    """Every text in some notices."""
    for notice in notices:
        yield notice.subject
        for value in notice.numbers.values():
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, str):
                    yield item


def _inferred_projects(profiles: Sequence[Profile]) -> tuple[str, ...]:
    from profkit.identity.keys import infer_roots

    return tuple(dict.fromkeys(d for profile in profiles for d in infer_roots(profile).project))
