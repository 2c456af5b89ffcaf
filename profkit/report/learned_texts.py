"""What masking learns from the runs of one report: private texts, and the names that are shown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from profkit.identity.rooted_paths import normalise, rooted
from profkit.model import PROJECT, SITE, STDLIB, Run
from profkit.report.known_words import is_known, is_number, is_said, suffix_of
from profkit.report.placeholders import HOME, PLACEHOLDER, Placeholders, PrivateTexts, Pseudonyms
from profkit.report.recorded_texts import (
    assigned,
    commands_of,
    files_of,
    host_names,
    paths_of,
    roots_of,
    users_of,
)
from profkit.report.secrets import holds_secret, suspects

_SEPARATOR = r"[\\/]+"
_NAME = r"[^\\/\s'\":;,<>|*?“”()]+"
#: Home directories by their form; the last part is the user's name.
HOMES = re.compile(
    rf"(?:(?<![\w.~-])(?:[A-Za-z]:|/mnt/[a-z]|/(?:cygdrive/)?[a-z])?[\\/]{{1,8}}(?:Users|Documents and Settings)"
    rf"|(?<![\w.~-])(?:/(?:export|nfs|net|mnt|usr|var|data|gpfs|lustre|scratch|storage|cluster|remote)[\w.-]*)?/home\d*"
    rf"|(?<![\w.~-])/afs/[\w.-]+/(?:user|home)/\w)"
    rf"{_SEPARATOR}(?P<user>{_NAME})",
)
#: Names that may stand for a user but belong to no person.
NOBODY = frozenset("root user users shared public default guest admin ubuntu debian runner".split())  # noqa: SIM905
#: Options whose value names hosts.
HOST_OPTION = re.compile(
    r"-{0,2}(?:H|hosts?|w|nodelist|host-?names?|master[_-]addr(?:ess)?|rdzv[_-]endpoint|coordinator(?:[_-]address)?"
    r"|(?:scheduler|server|head)[_-](?:address|host)|node[_-]ip[_-]address|ip)",
    re.IGNORECASE,
)
_HOST_IN_LIST = re.compile(r"[A-Za-z0-9][\w-]*(?:\.[\w-]+)*")
_SPACE = re.compile(r"\s")
_BEHIND_HOST = re.compile(r"(?::\d{1,5})?(?:/.*)?", re.DOTALL)
_IPV4 = re.compile(r"(?<![\w.])(?!127\.|0\.0\.0\.0)\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)")
#: A host before a path, as on Windows or with an automounter.
_HOST_OF_PATH = re.compile(r"(?:^|(?<=[\s'\"]))(?:\\\\|//|/net/)(?P<host>[A-Za-z][\w.-]*)[\\/]", re.MULTILINE)
_LOCAL = frozenset(("localhost", "localhost.localdomain", "127.0.0.1", "0.0.0.0", "::1"))
ROOT_NAMES = {STDLIB: "<stdlib>", SITE: "<site>", PROJECT: "<project>"}


class LearnedTexts:
    """The private texts and the shown names of `runs` (baseline's first), and of who makes the report."""

    def __init__(
        self, runs: Sequence[Run], *, home: str, user: str, host: str, pseudonyms: Pseudonyms | None
    ) -> None:
        self.placeholders = Placeholders()
        self.private = PrivateTexts(self.placeholders.secret)
        #: Pseudonyms of hosts.
        self.hosts: dict[str, str] = {}
        #: Placeholders of roots, by kind and directory.
        self.prefixes: dict[tuple[str, str], str] = {}
        #: Project and working directories: private even if their names are common.
        self._places: dict[str, None] = {}
        #: Of profiled files: base names, parts of the path below the root, and parts above it.
        self.files: set[str] = set()
        self.parts: set[str] = set()
        self.lost: set[str] = set()
        for run in runs:
            self._learn_what_is_masked(run)
        for run in runs:
            self._learn_machines_and_users(run)
        self._learn_host(host)
        self._learn_user(user)
        self.home: re.Pattern[str] | None = None
        home = home.rstrip("/\\")
        if len(home.lstrip("/\\")) > 1:
            self.home = re.compile(rf"{re.escape(home)}(?![\w.-])")
            self._learn_user(base_name(home))
        for run in runs:
            self._learn_places(run)
            self._learn_files(run)
        if pseudonyms is not None:
            self.files = set(filter(pseudonyms.are_public, self.files))
            self.parts = set(filter(pseudonyms.are_public, self.parts))
        self.lost = {part for part in self.lost - self.parts if not is_known(part)}
        for run in runs:
            self._learn_secrets(run)

    def _learn_what_is_masked(self, run: Run) -> None:
        """Reserve the pseudonyms that the run has from an earlier masking."""
        texts = [word for command in commands_of(run) for word in command[:1000]]
        texts += (*paths_of(run), *users_of(run))
        masked = [text for text in texts if "<" in text or "***" in text]
        names = (*host_names(run), str(run.job.get("id") or ""))
        self.placeholders.keep("\n".join((*masked, *filter(PLACEHOLDER.fullmatch, names))))

    def _learn_machines_and_users(self, run: Run) -> None:
        for name in host_names(run):
            self._learn_host(name)
        for command in commands_of(run):
            self._learn_hosts_of(command)
            for word in command[:1000]:
                if " " in word:
                    self._learn_hosts_of(word[:10_000].split())
        for text in paths_of(run):
            for home in HOMES.finditer(text):
                self._learn_user(home["user"])
            for host in _HOST_OF_PATH.finditer(text):
                self._learn_host(host["host"])
        for user in users_of(run):
            self._learn_user(user)

    def _learn_host(self, name: str) -> None:
        name = name.strip()
        if not name or name.lower() in _LOCAL or name in self.hosts:
            return
        numeric = _IPV4.fullmatch(name)
        short = name.partition(".")[0]
        known = None if numeric else self.hosts.get(short)
        pseudonym = known or self.placeholders.pseudonym("host", name)
        self.hosts[name] = pseudonym
        self.private.add_host(name, pseudonym)
        if not numeric and short not in self.hosts:
            self.hosts[short] = pseudonym
            self.private.add_host(short, pseudonym)

    def _learn_hosts_of(self, words: Sequence[str]) -> None:
        for place, word in enumerate(words):
            if word.count(".") > 2:
                for address in _IPV4.findall(word):
                    self._learn_host(address)
            if word[:1] == "-" or "=" in word:
                option, sign, value = word.partition("=")
                if not HOST_OPTION.fullmatch(option) or not (sign or word[:1] == "-"):
                    continue
                if not sign and place + 1 < len(words):
                    value = words[place + 1]
                # Headers of a request, also given by -H, contain spaces.
                for part in () if _SPACE.search(value) else re.split("[,;]", value.rpartition("://")[2]):
                    self._learn_host_of(part)

    def _learn_host_of(self, part: str) -> None:
        """Learn a host of a list; skip numbers, paths, files and common words."""
        found = _HOST_IN_LIST.match(part)
        if found is None or part[0].isdigit() or not _BEHIND_HOST.fullmatch(part, found.end()):
            return
        common = is_said(found.group()) and not any(map(str.isdigit, found.group()))
        if not common and not suffix_of(found.group()):
            self._learn_host(found.group())

    def _learn_user(self, name: str) -> None:
        if len(name) >= 3 and name.lower() not in NOBODY and name not in (HOME, "..."):
            self.private.add_user(name)

    def _learn_places(self, run: Run) -> None:
        """Learn the user's own directories, which are hidden entirely."""
        started = [run.manifest.cwd] if run.manifest is not None else []
        for directory in (*roots_of(run).project, *started):
            place = normalise(directory).rstrip("/")
            if is_absolute(place) and place.strip("/"):
                self._places[place] = None

    def own_place(self, directory: str) -> str | None:
        """Return the user's directory that contains `directory`, or is it."""
        found = [place for place in self._places if f"{directory}/".startswith(f"{place}/")]
        return max(found, key=len, default=None)

    def _learn_files(self, run: Run) -> None:
        """Learn which parts of file and module names are shown, and which are not."""
        if run.manifest is not None:
            self.parts.update(re.sub(r"[-.]+", "_", name) for name in run.manifest.packages)
        roots = roots_of(run)
        for file in files_of(run):
            root, inside = rooted(file, roots)
            if root in ROOT_NAMES and not file.endswith(">"):
                if not is_absolute(inside):
                    self.prefix(root, normalise(file).removesuffix(inside))
                parts = normalise(file).split("/")
                shown = 1 if is_absolute(inside) else inside.count("/") + 1
                self.files.add(parts[-1])
                self.parts.update(part.partition(".")[0] for part in parts[-shown:])
                self.lost.update(parts[:-shown])

    def _learn_secrets(self, run: Run) -> None:
        lines: list[Sequence[str]] = [*commands_of(run)]
        environments = [process.environment for process in run.processes]
        if run.manifest is not None:
            environments.append(run.manifest.environment)
        lines += [[f"{name}={value}" for name, value in environment.items()] for environment in environments]
        for words in lines:
            for name, value in assigned(words):
                if holds_secret(name, value):
                    self._learn_secret(value)
            text = "\n".join(words)
            for rule in suspects((text,)):
                for found in rule.pattern.finditer(text):
                    self._learn_secret(found[rule.group])

    def _learn_secret(self, value: str) -> None:
        """Mask a secret everywhere, unless it is short or a common word, which occur by chance."""
        if len(value) >= 6 and not (is_said(value) or is_number(value) or PLACEHOLDER.fullmatch(value)):
            self.private.add_secret(value)

    def prefix(self, root: str, prefix: str) -> str:
        known = self.prefixes.get((root, prefix))
        if known is None:
            number = 1 + sum(kind == root for kind, _ in self.prefixes)
            known = ROOT_NAMES[root] if number == 1 else f"{ROOT_NAMES[root][:-1]}-{number}>"
            self.prefixes[root, prefix] = known
        return known

    def host(self, name: str) -> str:
        self._learn_host(name)
        return self.hosts.get(name.strip(), name if name.lower() in _LOCAL else "")

    def user(self, name: str) -> str:
        """Return a user's placeholder; system accounts keep their names."""
        if name.lower() in NOBODY or name == HOME or PLACEHOLDER.fullmatch(name):
            return name
        return self.placeholders.of("user", name)


def base_name(path: str) -> str:
    """Return the last part of a path of any system; also of ``a.prof and 2 more``."""
    parts = [part for part in re.split(_SEPARATOR, path) if part]
    return parts[-1] if parts else path


def is_absolute(path: str) -> bool:
    """Return whether a path, masked or not, begins at a file system root or a home."""
    return path.startswith(("/", "\\", f"{HOME}/")) or path[1:2] == ":"
