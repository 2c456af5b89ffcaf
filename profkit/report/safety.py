"""What may leave the machine: results and runs without homes, users, host names and secrets.

The one boundary before every renderer: a command hands its `Diff` or `Run` through a `Masker` and only what
comes out of it is laid out, so that no renderer has to remember. Every string of every field is masked by what
`declared` says that it holds; one of which nothing is said is shown by its type and length. Paths become what a
`FunctionKey` says of them (``<project>/model/blocks.py``), so that a masked run is still compared as before. Commands
are masked in `command_mask`; what a secret looks like is in `secrets`. Reads no environment.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from profkit.capture.agent.settings import THREAD_VARIABLES
from profkit.identity.paths import normalise, rooted
from profkit.measure.settings import Setting
from profkit.measure.tables import DiffTable
from profkit.model import GENERATED, PROJECT, SITE, STDLIB, FunctionKey, Notice, Profile, Ranges, Roots, Run
from profkit.model.notices import CODES, WHERE
from profkit.model.range_calls import RangeCalls
from profkit.report.command_mask import HOST_OPTION, CommandMask, is_number, kind_of
from profkit.report.declared import FORMS, Kind, declared
from profkit.report.known_words import is_known, is_said, suffix_of
from profkit.report.placeholders import PLACEHOLDER, Placeholders, letters
from profkit.report.private_texts import HOME, PrivateTexts
from profkit.report.secrets import SecretRule, holds_secret, masked_by_rules, suspects
from profkit.verdict.types import Advice, Checked, Diff, Evidence

__all__ = ["HOME", "Masker", "Owner"]

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
_HOST_IN_LIST = re.compile(r"[A-Za-z0-9][\w-]*(?:\.[\w-]+)*")
_SPACE = re.compile(r"\s")
_BEHIND_HOST = re.compile(r"(?::\d{1,5})?(?:/.*)?", re.DOTALL)
_IPV4 = re.compile(r"(?<![\w.])(?!127\.|0\.0\.0\.0)\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)")
#: A host in front of a path, as Windows and automounters have it.
_HOST_OF_PATH = re.compile(r"(?:^|(?<=[\s'\"]))(?:\\\\|//|/net/)(?P<host>[A-Za-z][\w.-]*)[\\/]", re.MULTILINE)
_LOCAL = frozenset(("localhost", "localhost.localdomain", "127.0.0.1", "0.0.0.0", "::1"))
_HOST_PSEUDONYM = re.compile(r"host-[a-z]{1,4}")
_JOB_PSEUDONYM = re.compile(r"job-[a-z]{1,4}")
_PLACEHOLDERS = {STDLIB: "<stdlib>", SITE: "<site>", PROJECT: "<project>"}
#: A path of a machine in a name: of a directory that systems have, or of a Windows drive.
_PATH_IN_NAME = re.compile(
    r"(?<![\w.~<>/-])(?:/(?:home|users|scratch|data|mnt|nfs|net|var|tmp|opt|usr|root|etc|srv|gpfs|lustre|beegfs|work"
    r"|projects?|proj|storage|cluster|afs|export|private|volumes|media|workspaces?|run|dev|proc|sys|app)"
    r"|[A-Za-z]:|\\\\[\w.-]+)[\\/][^\s'\":;,<>|*?“”()]*",
    re.IGNORECASE,
)
#: What remains of the file of a generated function: from where its form begins.
_GENERATED_FILE = re.compile(
    r"(?P<kernel>ipykernel_\d+/[^/]+)$|torchinductor_[^/]+/(?P<inductor>.+)$"
    r"|(?P<autograph>__autograph_generated_file[^/]*\.py)$|(?P<temporary>(?:tmp|temp|T)/tmp[^/]*)$",
    re.IGNORECASE,
)
#: Notices whose subject is a file.
_FILE_SUBJECTS = frozenset(
    ("record-unreadable", "nvtx-file-unreadable", "nvtx-names-damaged", "file-skipped")
)
#: Advice whose words are profkit's own.
_OWN_ADVICE = frozenset(("list-processes", "look-at-quota", "lscpu", "show-workers", "show-waiting"))
#: Characters of a message that are shown, and of a name.
_MOST_MESSAGE = 4096
_VERSION = re.compile(r"v?\d{1,9}(?:[.!-]?(?:\d{1,9}|a|b|rc|post|dev|alpha|beta|pre|r)){0,12}", re.IGNORECASE)
_LOCAL_VERSION = re.compile(r"(?:cu|cpu|rocm|cxx|git|g|xpu|ubuntu|mkl|nv|abi)?[0-9a-f.]{0,16}", re.IGNORECASE)
_POOL_SIZE = re.compile(r"(?P<size>\d+|\?)(?: \((?P<why>[^)]*)\))?")
_REVISION = re.compile(r"[0-9a-f]{7,64}(?: \+)?")
#: A word of a message between the signs around it.
_MESSAGE_WORD = re.compile(
    r"(?P<open>[\"'“”‘’`({\[]*)(?P<core>.*?)(?P<close>[\"'“”‘’`)}\]]*[.,:;!?…]*[\"'“”‘’`)}\]]*)", re.DOTALL
)
#: Words and what is between them; a placeholder may hold a space.
_MESSAGE_WORDS = re.compile(rf"(?:{PLACEHOLDER.pattern}|\S)+|\s+")
_PLAIN_NAME = re.compile(r"-{0,2}[A-Za-z][\w-]{0,60}")
_ASSIGNED = re.compile(r"(?P<name>-{0,2}[A-Za-z_][\w.-]{0,60})(?P<sign>[=:])(?P<value>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose machine the report is made on; empty where it is not known."""

    home: str = ""
    user: str = ""
    host: str = ""


class Masker:
    """Takes out of results what identifies people and machines.

    One masker serves one report: the same machine has the same pseudonym everywhere in it (``host-a``,
    ``host-b`` in the order of the runs), and two machines have two. The same holds for every text that is masked.

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
        self._placeholders = Placeholders()
        self._private = PrivateTexts(self._placeholders.secret)
        self._hosts: dict[str, str] = {}
        self._host_count = 0
        self._jobs: dict[str, str] = {}
        self._homes: list[str] = []
        self._prefixes: dict[tuple[str, str], str] = {}
        #: Masked words of commands, and whole commands by the text that joins their words.
        self._words: dict[str, str] = {}
        self._joined: dict[str, str] = {}
        self._names: dict[tuple[str, bool], str] = {}
        self._messages: dict[str, str] = {}
        #: Base names of profiled files, parts of what they are relative to their root, and what was in front of that.
        self._files: set[str] = set()
        self._parts: set[str] = set()
        self._lost: set[str] = set()
        gathered = list(runs)
        for run in gathered:
            self._learn_what_is_masked(run)
        for run in gathered:
            self._learn_machines_and_users(run)
        self._learn_host(owner.host)
        self._learn_user(owner.user)
        if len(owner.home.strip("/\\")) > 1:
            self._homes.append(owner.home.rstrip("/\\"))
            self._learn_user(re.split(_SEPARATOR, owner.home.rstrip("/\\"))[-1])
        self._compile_homes()
        for run in gathered:
            self._learn_files(run)
        self._lost -= self._parts
        self._lost = {part for part in self._lost if not is_known(part)}
        for run in gathered:
            self._learn_secrets(run)
        self._commands = CommandMask(
            self._placeholders,
            self._hosts,
            self._files,
            self._parts,
            self._place,
            lambda text: self._private.replaced(text) != text,
        )
        for command in dict.fromkeys(command for run in gathered for command in _commands(run)):
            masked = self.words(command)
            for word, shown in zip(command, masked, strict=False):
                if word not in self._words or shown != word:
                    self._words[word] = shown
            for join in (shlex.join, " ".join):
                self._joined.setdefault(join(command), join(masked))

    # What the runs say -----------------------------------------------------------------------------------

    def _learn_what_is_masked(self, run: Run) -> None:
        """Give away no pseudonym that a run has already, which was masked before."""
        texts = [word for command in _commands(run) for word in command[:1000]]
        texts += _paths(run)
        self._placeholders.keep("\n".join(text for text in texts if "<" in text or "***" in text))
        for name in _host_names(run):
            if _HOST_PSEUDONYM.fullmatch(name):
                self._hosts[name] = name
                self._host_count = max(self._host_count, _place_of(name) + 1)
        job = run.manifest.job if run.manifest is not None else None
        identity = str((job or {}).get("id") or "")
        if _JOB_PSEUDONYM.fullmatch(identity):
            self._jobs[identity] = identity

    def _learn_machines_and_users(self, run: Run) -> None:
        for name in _host_names(run):
            self._learn_host(name)
        for command in _commands(run):
            self._learn_hosts_of(command)
            for word in command[:1000]:
                if " " in word:
                    self._learn_hosts_of(word[:10_000].split())
        for text in _paths(run):
            for home in _HOMES.finditer(text):
                self._learn_user(home["user"])
            for host in _HOST_OF_PATH.finditer(text):
                self._learn_host(host["host"])

    def _learn_host(self, name: str) -> None:
        name = name.strip()
        if not name or name.lower() in _LOCAL or name in self._hosts:
            return
        numeric = _IPV4.fullmatch(name)
        short = name.partition(".")[0]
        pseudonym = None if numeric else self._hosts.get(short)
        if pseudonym is None:
            pseudonym = f"host-{letters(self._host_count)}"
            self._host_count += 1
        self._hosts[name] = pseudonym
        self._private.add_host(name, pseudonym)
        if not numeric and short not in self._hosts:
            self._hosts[short] = pseudonym
            self._private.add_host(short, pseudonym)

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
                # A header of a request, which follows -H too, has spaces.
                for part in () if _SPACE.search(value) else re.split("[,;]", value.rpartition("://")[2]):
                    self._learn_host_of(part)

    def _learn_host_of(self, part: str) -> None:
        """Learn a machine of a list; a number, a path, a file or a word of another meaning is none."""
        found = _HOST_IN_LIST.match(part)
        if found is None or part[0].isdigit() or not _BEHIND_HOST.fullmatch(part, found.end()):
            return
        if not is_said(found.group()) and not suffix_of(found.group()):
            self._learn_host(found.group())

    def _learn_user(self, name: str) -> None:
        if len(name) >= 3 and name.lower() not in _NOBODY and name not in (HOME, "..."):
            self._private.add_user(name)

    def _compile_homes(self) -> None:
        homes = sorted(self._homes, key=len, reverse=True)
        self._home = (
            re.compile("|".join(rf"{re.escape(home)}(?![\w.-])" for home in homes)) if homes else None
        )

    def _learn_files(self, run: Run) -> None:
        """Find which names of files and modules are shown with the functions, and what of their paths is not."""
        if run.manifest is not None:
            self._parts.update(re.sub(r"[-.]+", "_", name) for name in run.manifest.packages)
        profiles = [thread.profile for process in run.processes for thread in process.threads]
        roots = _roots_of(run)
        for file in _files(profiles):
            root, inside = rooted(file, roots)
            if root in _PLACEHOLDERS and not file.endswith(">"):
                if not _is_absolute(inside):
                    self._prefix(root, normalise(file).removesuffix(inside))
                parts = normalise(file).split("/")
                shown = 1 if _is_absolute(inside) else inside.count("/") + 1
                self._files.add(parts[-1])
                self._parts.update(part.partition(".")[0] for part in parts[-shown:])
                self._lost.update(parts[:-shown])

    def _learn_secrets(self, run: Run) -> None:
        """Find the secrets of commands and environments, to look for them elsewhere."""
        lines: list[Sequence[str]] = [*_commands(run)]
        environments = [process.environment for process in run.processes]
        if run.manifest is not None:
            environments.append(run.manifest.environment)
        lines += [[f"{name}={value}" for name, value in environment.items()] for environment in environments]
        for words in lines:
            for name, value in _assigned(words):
                if holds_secret(name, value):
                    self._learn_secret(value)
            text = "\n".join(words)
            for rule in suspects((text,)):
                for found in rule.pattern.finditer(text):
                    self._learn_secret(
                        found["secret"] if "secret" in rule.pattern.groupindex else found.group()
                    )

    def _learn_secret(self, value: str) -> None:
        """Look for a secret everywhere: not for a short one or for a word, which occur by chance."""
        if (
            len(value) >= 6
            and not is_said(value)
            and not is_number(value)
            and not PLACEHOLDER.fullmatch(value)
        ):
            self._private.add_secret(value)

    # Strings ---------------------------------------------------------------------------------------------

    def words(self, words: Sequence[str]) -> tuple[str, ...]:
        """Mask a command line word by word."""
        return self._commands.words(words)

    def name(self, text: str, *, users: bool = True, among: Sequence[SecretRule] | None = None) -> str:
        """Mask a name from a program, which is shown but for what is private in it.

        Parameters
        ----------
        text
            Name of a range, a thread, a function.
        users
            Whether users' names are private: functions may be called like one.
        among
            The forms of secrets that can be in it, all by default.
        """
        if not text:
            return text
        known = self._names.get((text, users))
        if known is None:
            # Forms first: what is private in them, such as a host, is a part of what makes them known.
            known = masked_by_rules(text, self._placeholders.secret, among)
            known = self._private.replaced(known, users=users)
            if "/" in known or "\\" in known:
                known = self._without_homes(known)
                known = _PATH_IN_NAME.sub(lambda found: self.outside(found.group()), known)
            self._names[text, users] = known
        return known

    def _without_homes(self, text: str) -> str:
        if self._home is not None:
            text = self._home.sub(HOME, text)
        return _ROOT_HOME.sub(HOME, _HOMES.sub(HOME, text))

    def message(self, text: str) -> str:
        """Mask a sentence of another program by the words that messages have."""
        known = self._joined.get(text) or self._messages.get(text)
        if known is None:
            known = self._messages[text] = self._message(text)
        return known

    def _message(self, text: str) -> str:
        cut = text[:_MOST_MESSAGE]
        cut = self._private.replaced(masked_by_rules(cut, self._placeholders.secret))
        if "/" in cut or "\\" in cut:
            cut = self._without_homes(cut)
        shown = []
        option = ""
        for word in _MESSAGE_WORDS.findall(cut):
            if word.isspace():
                shown.append(word)
                continue
            shown.append(self._message_word(word, option))
            name = word.strip("\"'“”:=,")
            named = name[:1] == "-" or (word[-1] in ":=" and _PLAIN_NAME.fullmatch(name) is not None)
            option = name if named else ""
        if len(text) > _MOST_MESSAGE:
            rest = text[_MOST_MESSAGE:]
            shown.append(f"… {self._placeholders.of('text', rest, len(rest))}")
        return "".join(shown)

    def _message_word(self, word: str, option: str) -> str:
        """Mask one word of a message behind `option`, the word that may say what it is."""
        around = _MESSAGE_WORD.fullmatch(word)
        assert around is not None
        core = around["core"]
        if not core or PLACEHOLDER.fullmatch(core):
            return word
        if option and holds_secret(option, core):
            masked = self._placeholders.secret(core)
        elif is_said(core) or is_number(core) or (core.startswith("-") and self.words(("", core))[1] == core):
            return word
        elif (assigned := _ASSIGNED.fullmatch(core)) and "://" not in core and core[1:3] not in (":\\", ":/"):
            name = assigned["name"]
            kept = is_said(name) or name.startswith("-") or re.fullmatch(r"[A-Z][A-Z_]{2,40}", name)
            said = name if kept else self._commands.shown(name)
            masked = f"{said}{assigned['sign']}{self._message_word(assigned['value'], name)}"
        else:
            masked = self._commands.shown(core)
        return f"{around['open']}{masked}{around['close']}"

    def file(self, file: str, roots: Roots) -> str:
        """Name a source file by its root: ``<site>/numpy/linalg/_linalg.py``.

        A second directory of the same kind is ``<site-2>``, so that two copies of a module stay two.
        """
        root, inside = rooted(file, roots)
        if root == GENERATED and not file.endswith(">"):
            return self._generated(file)
        placeholder = _PLACEHOLDERS.get(root)
        if placeholder is None or file.endswith(">"):
            return self.name(file)
        if _is_absolute(inside):
            return self.outside(file)
        return f"{self._prefix(root, normalise(file).removesuffix(inside))}/{self.name(inside)}"

    def _prefix(self, root: str, prefix: str) -> str:
        """Return what stands for a directory of a kind."""
        known = self._prefixes.get((root, prefix))
        if known is None:
            number = 1 + sum(kind == root for kind, _ in self._prefixes)
            known = _PLACEHOLDERS[root] if number == 1 else f"{_PLACEHOLDERS[root][:-1]}-{number}>"
            self._prefixes[root, prefix] = known
        return known

    def module(self, text: str) -> str:
        """Name a module without what its file's path does not show."""
        text = masked_by_rules(text, self._placeholders.secret)
        if "/" in text or "\\" in text:
            return self.outside(text)
        parts = [
            self._placeholders.of("name", part) if part in self._lost else part for part in text.split(".")
        ]
        return self.name(".".join(parts))

    def _generated(self, file: str) -> str:
        """Name the file of a generated function by what makes it one: the directories before are somebody's."""
        found = _GENERATED_FILE.search(normalise(file))
        if found is None:
            return self.outside(file)
        kept = found[found.lastgroup or 0]
        return self.name(f"torchinductor_{HOME}/{kept}" if found.lastgroup == "inductor" else kept)

    def outside(self, path: str) -> str:
        """Mask a path below no known root: every directory by itself, so that what two paths share stays shared."""
        parts = normalise(self._without_homes(self._private.replaced(path))).split("/")
        shown = [self._part(part) for part in parts[:-1]]
        return "/".join((*shown, self.name(parts[-1])))

    def _part(self, part: str) -> str:
        if part in ("", ".", "..", HOME) or is_known(part) or PLACEHOLDER.fullmatch(part) or part[1:] == ":":
            return part
        return self._placeholders.of("dir", part)

    def _place(self, directory: str) -> str:
        """Return a directory in a command or of a manifest: by the root that it is, if it is one."""
        directory = directory.rstrip("/")
        for (root, prefix), known in self._prefixes.items():
            if root == PROJECT and prefix and f"{directory}/".startswith(prefix):
                inside = directory[len(prefix) :].split("/") if len(directory) > len(prefix) else []
                return "/".join((known, *map(self._part, inside)))
        # An absolute path remains one: what a machine puts in front of a file is not compared.
        return ("/" if directory.startswith("/") else "") + self._placeholders.of("dir", directory)

    def key_path(self, path: str) -> str:
        """Mask the path of a `FunctionKey`."""
        return self.outside(path) if _is_absolute(path) else self.name(path)

    def user_file(self, path: str) -> str:
        """Mask the path of a file that the user named: its base name."""
        return self.name(_base(path))

    def host(self, name: str) -> str:
        """Return the pseudonym of a machine."""
        self._learn_host(name)
        return self._hosts.get(name.strip(), name if name.lower() in _LOCAL else "")

    def version(self, text: str) -> str:
        """Mask where a distribution was installed from, and what only its builder knows of its version."""
        number, _, origin = text.partition(" @ ")
        public, sign, local = number.partition("+")
        shown = public if _VERSION.fullmatch(public) else self.hidden(public)
        if sign:
            parts = [
                part if _LOCAL_VERSION.fullmatch(part) or is_known(part) else self.hidden(part)
                for part in re.split(r"[._-]", local)
            ]
            shown += "+" + ".".join(parts)
        return f"{shown} @ {self.hidden(origin)}" if origin else shown

    def hidden(self, text: str) -> str:
        """Return what is shown of a text of which nothing is known: its type and its length."""
        if not text or PLACEHOLDER.fullmatch(text):
            return text
        return self._placeholders.of(kind_of(text), text, len(text))

    def variable(self, name: str, value: str) -> str:
        """Mask the value of an environment variable."""
        if name not in THREAD_VARIABLES:
            return self._placeholders.secret(value) if value and not PLACEHOLDER.fullmatch(value) else value
        if " " in value:
            words = [word for word in _MESSAGE_WORDS.findall(value) if not word.isspace()]
            return " ".join(self.words(("env", *words))[1:])
        return self._commands.value(value, name)

    def _job(self, identity: str) -> str:
        """Schedulers put hosts and users into it; ranks of one job need only to have the same."""
        known = self._jobs.get(identity)
        if known is None:
            taken = set(self._jobs.values())
            known = next(
                name for number in range(len(taken) + 1) if (name := f"job-{letters(number)}") not in taken
            )
            self._jobs[identity] = known
        return known

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
        profiles = [thread.profile for process in run.processes for thread in process.threads]
        tables = _Tables(self, profiles, _roots_of(run))

        def convert(value: object, owner: str, field: str) -> object:
            if isinstance(value, Profile):
                return tables.masked(value)
            if isinstance(value, Roots):
                return placeholders
            return self._plain(value, owner, field, convert)

        found: dict[str, list[str]] = {STDLIB: [], SITE: [], PROJECT: []}
        for (root, _), name in self._prefixes.items():
            found[root].append(name)
        placeholders = Roots(tuple(found[STDLIB]), tuple(found[SITE]), tuple(found[PROJECT]))
        return cast(Run, convert(run, "", ""))

    def value(self, value: T) -> T:
        """Return any result with its strings masked."""
        return cast(T, self._result(value, "", ""))

    def _result(self, value: Any, owner: str, field: str) -> Any:
        if isinstance(value, DiffTable):
            return self._table(value)
        return self._plain(value, owner, field, self._result)

    def _plain(self, value: Any, owner: str, field: str, convert: Callable[[Any, str, str], Any]) -> Any:
        """Rebuild a value from its converted parts; itself where nothing changes."""
        if isinstance(value, str):
            return self._string(value, owner, field)
        if value is None or isinstance(value, bool | int | float | np.ndarray | np.generic):
            return value
        special = self._SPECIAL.get(type(value))
        if special is not None:
            return special(self, value)
        if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
            if declared(owner, field) is Kind.COMMAND:
                return self.words(value)
            parts = [convert(item, owner, field) for item in value]
            if all(new is old for new, old in zip(parts, value, strict=True)):
                return value
            return type(value)(parts)
        if isinstance(value, Mapping):
            return self._mapping(value, owner, field, convert)
        return self._record(value, convert) if is_dataclass(value) and not isinstance(value, type) else value

    def _record(self, value: Any, convert: Callable[[Any, str, str], Any], but: Sequence[str] = ()) -> Any:
        """Rebuild a dataclass from its converted fields, those named in `but` as they are."""
        changed = {}
        for part in fields(value):
            old = getattr(value, part.name)
            new = old if part.name in but else convert(old, type(value).__name__, part.name)
            if new is not old:
                changed[part.name] = new
        return replace(value, **changed) if changed else value

    def _string(self, text: str, owner: str, field: str) -> str:
        kind = declared(owner, field)
        if not text or kind is Kind.OWN:
            return text
        if kind is Kind.FORM:
            return text if FORMS[f"{owner}.{field}"].fullmatch(text) else self.hidden(text)
        if kind is Kind.ENVIRONMENT:
            name, sign, value = text.partition("=")
            return f"{self._variable_name(name)}{sign}{self.variable(name, value)}"
        return self._AS.get(kind, Masker.hidden)(self, text)

    def _variable_name(self, name: str) -> str:
        return name if name in THREAD_VARIABLES else self.hidden(name)

    def _mapping(
        self, value: Mapping[str, Any], owner: str, field: str, convert: Callable[[Any, str, str], Any]
    ) -> dict[str, Any]:
        kind = declared(owner, field)
        if kind is Kind.ENVIRONMENT:
            return {
                name: self.variable(name, text) for name, text in value.items() if name in THREAD_VARIABLES
            }
        if kind is Kind.VERSION:
            return {self.name(name): self.version(text) for name, text in value.items()}
        if kind is Kind.HOST:
            return {self.host(name): convert(item, owner, field) for name, item in value.items()}
        found = {}
        for key, item in value.items():
            # Keys of results are identifiers of readings.
            name = key if kind is Kind.NAME else self._string(str(key), owner, field)
            if (field, key) == ("job", "id") and isinstance(item, str):
                found[name] = self._job(item)
            elif (field, key) == ("git", "revision") and isinstance(item, str):
                found[name] = item if FORMS["git.revision"].fullmatch(item) else self.hidden(item)
            elif (owner, key) == ("Evidence", "variable") and isinstance(item, str):
                found[name] = self._string(item, "Pool", "variable")
            else:
                # What a mapping of a file holds is not declared by its key's form.
                found[name] = convert(item, owner, field if kind is Kind.NAME else f"{field}[]")
        return found

    def _key(self, key: FunctionKey) -> FunctionKey:
        return key._replace(path=self.key_path(key.path), qualname=self.name(key.qualname, users=False))

    def _notice(self, notice: Notice) -> Notice:
        """Mask the texts of a notice; of those that this version does not know, code and names of numbers too."""
        known = notice.code in CODES
        names = {*CODES[notice.code].numbers, *WHERE} if known else set()
        subject = notice.subject
        if notice.code in _FILE_SUBJECTS:
            subject = self.user_file(subject)
        elif notice.code == "nvtx-other-tool":
            subject = self._commands.path(subject) if subject else subject
        else:
            subject = self.message(subject)
        numbers = {
            name if name in names else self._number_name(name): self._number(notice.code, name, value)
            for name, value in notice.numbers.items()
        }
        if known or all(is_said(part) for part in notice.code.split("-")):
            return Notice(notice.code, subject, numbers)
        return Notice("text", f"{self.hidden(notice.code)}: {subject}", numbers)

    def _number_name(self, name: str) -> str:
        return name if all(is_said(part) for part in name.split("_")) else self.hidden(name)

    def _number(self, code: str, name: str, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self._number(code, name, item) for item in value)
        if not isinstance(value, str):
            return value
        if name == "file":
            return self.user_file(value)
        if code == "host-differs":
            return self.host(value)
        if code in ("python-differs", "threads-in-one-stack"):
            return self._string(value, "Process", "python")
        return self.name(value) if code == "cpu-model-differs" else self.message(value)

    def _setting(self, setting: Setting) -> Setting:
        def masked(value: str) -> str:
            if not value:
                return value
            if setting.kind == "variable":
                return self.variable(setting.name, value)
            if setting.kind == "package":
                return self.version(value)
            if setting.kind == "pool":
                return ", ".join(map(self._pool_size, value.split(", ")))
            if setting.kind == "machine":
                return self.host(value) if setting.name == "host" else self.name(value)
            form = _REVISION if setting.kind == "source" else FORMS["Process.python"]
            return value if form.fullmatch(value) else self.hidden(value)

        return Setting(
            setting.kind, self.name(setting.name), masked(setting.baseline), masked(setting.candidate)
        )

    def _pool_size(self, text: str) -> str:
        found = _POOL_SIZE.fullmatch(text)
        if found is None:
            return self.hidden(text)
        why = found["why"]
        if not why:
            return text
        shown = self._string(why, "Pool", "variable" if "=" in why else "origin")
        return f"{found['size']} ({shown})"

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
        return cast(Evidence, replace(self._record(evidence, self._result, tuple(sides)), **sides))

    def _advice(self, advice: Advice) -> Advice:
        argv = advice.argv if advice.kind in _OWN_ADVICE else self.words(advice.argv)
        if advice.kind == "git-log":
            argv = (*advice.argv[:-1], self.key_path(advice.argv[-1]))
        return cast(Advice, replace(self._record(advice, self._result, ("argv",)), argv=argv))

    def _checked(self, checked: Checked) -> Checked:
        return replace(checked, value=self.name(checked.value)) if isinstance(checked.value, str) else checked

    def _strings_of(self, table: Ranges | RangeCalls) -> Ranges | RangeCalls:
        """Mask the names of ranges; a text that no row names is left out."""
        used = np.zeros(len(table.strings), np.bool_)
        for column in ("name", "domain", "category"):
            rows = getattr(table, column, None)
            if rows is not None:
                used[rows] = True
        among = suspects(table.strings)
        strings = [
            self.name(text, among=among) if kept else ""
            for text, kept in zip(table.strings, used.tolist(), strict=True)
        ]
        return replace(table, strings=tuple(strings))

    def _table(self, table: DiffTable) -> DiffTable:
        paths = {path: self.key_path(path) for path in {key.path for key in table.keys}}
        names = {
            name: self.name(name, users=False) for name in {*table.name, *(k.qualname for k in table.keys)}
        }
        keys = table.keys
        if any(shown != path for path, shown in (*paths.items(), *names.items())):
            keys = tuple(FunctionKey(k.root, paths[k.path], names[k.qualname]) for k in keys)
        rooted_as = {
            (root, path): f"{placeholder}/{path}"
            for path in paths.values()
            if path and not _is_absolute(path)
            for root, placeholder in _PLACEHOLDERS.items()
        }
        nowhere = Roots()
        files = tuple(
            rooted_as.get(key[:2]) or self.file(file, nowhere)
            for key, file in zip(keys, table.file, strict=True)
        )
        return replace(table, keys=keys, name=tuple(names[name] for name in table.name), file=files)

    def _labels(self, baseline: str, candidate: str) -> tuple[str, str]:
        """Base names of what the user typed, with a directory more where those are the same."""
        if baseline == candidate:
            return (self.user_file(baseline),) * 2
        sides = [self.outside(label.rstrip("/\\")).split("/") for label in (baseline, candidate)]
        for parts in range(1, max(map(len, sides)) + 1):
            tails = ["/".join(side[-parts:]) for side in sides]
            if tails[0] != tails[1]:
                return tails[0], tails[1]
        return self.user_file(baseline), self.user_file(candidate)

    #: How the strings of a kind are masked.
    _AS: Mapping[Kind, Callable[[Masker, str], str]] = {
        Kind.NAME: name,
        Kind.FILE: user_file,
        Kind.PLACE: lambda self, text: self._working_directory(text),
        Kind.HOST: host,
        Kind.MESSAGE: message,
        Kind.VERSION: version,
    }
    _SPECIAL: Mapping[type, Callable[[Masker, Any], Any]] = {
        FunctionKey: _key,
        Notice: _notice,
        Setting: _setting,
        Evidence: _evidence,
        Advice: _advice,
        Checked: _checked,
        Ranges: _strings_of,
        RangeCalls: _strings_of,
    }

    def _working_directory(self, text: str) -> str:
        return self._commands.directory(normalise(text).rstrip("/"))


class _Tables:
    """The string tables of a run's profiles, masked by what the columns say that a string is.

    Threads share theirs, and so they do afterwards. A string that no column names is left out. One that is of two
    kinds, such as a function and a module of one name, becomes two where it is masked differently.
    """

    def __init__(self, masker: Masker, profiles: Sequence[Profile], roots: Roots) -> None:
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
        ways: Mapping[tuple[str, ...], Callable[[str], str]] = {
            ("file",): lambda text: masker.file(text, roots),
            ("name", "qualname"): lambda text: masker.name(text, users=False, among=among),
            ("module",): masker.module,
            ("source_hash",): lambda text: masker._string(text, "Profile", "source_hash"),
        }
        texts = [""] * len(strings)
        owned = np.zeros(len(strings), np.bool_)
        owned[0] = True
        moved: dict[str, npt.NDArray[np.int32]] = {}
        for columns, mask in ways.items():
            used = np.zeros(len(strings), np.bool_)
            for profile in profiles:
                for column in columns:
                    used[getattr(profile, column)] = True
            places = np.arange(len(strings), dtype=np.int32)
            for at in np.flatnonzero(used).tolist():
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


def _place_of(pseudonym: str) -> int:
    """Return the number of a pseudonym such as ``host-b``: the inverse of `letters`."""
    place = 0
    for letter in pseudonym.rpartition("-")[2]:
        place = place * 26 + ord(letter) - ord("a") + 1
    return place - 1


def _base(path: str) -> str:
    """Last part of a path of any system; of ``a.prof and 2 more`` too."""
    parts = [part for part in re.split(_SEPARATOR, path) if part]
    return parts[-1] if parts else path


def _is_absolute(path: str) -> bool:
    return path.startswith(("/", "\\", f"{HOME}/")) or path[1:2] == ":"


def _commands(run: Run) -> list[tuple[str, ...]]:
    commands = [run.manifest.command] if run.manifest is not None else []
    return list(
        dict.fromkeys(tuple(c) for c in (*commands, *(process.command for process in run.processes)) if c)
    )


def _assigned(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every name and value that a command line assigns; what is behind an option may be its value."""
    option = ""
    for word in words:
        if option and not word.startswith("--"):
            yield option, word
        name, sign, value = word.partition("=")
        if sign and len(name) <= 100:
            yield name, value
        option = word if word[:1] == "-" and not sign and len(word) <= 100 else ""
        if not word.startswith("--") and len(word) > 2 and word[:1] == "-":
            yield word[:2], word[2:]
            if word[:2] == "-u":
                yield "password", word[2:].partition(":")[2]


def _host_names(run: Run) -> Iterator[str]:
    if run.manifest is not None:
        yield run.manifest.host.name
    for process in run.processes:
        if process.host is not None:
            yield process.host.name
    yield from run.machines


def _files(profiles: Sequence[Profile]) -> list[str]:
    """The files of some profiles' functions, each once, in the order of their tables."""
    files: dict[str, None] = {}
    for profile in profiles:
        files.update(dict.fromkeys(profile.strings[at] for at in np.unique(profile.file).tolist()))
    return list(files)


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
    # One text, in which a search is quicker than in each; what is behind a line break begins a word.
    texts += [
        "\n".join(word for word in command if "/" in word or "\\" in word) for command in _commands(run)
    ]
    files = _files([thread.profile for process in run.processes for thread in process.threads])
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


def _roots_of(run: Run) -> Roots:
    """The directories of all processes of a run; its project's are inferred where it recorded none."""
    from profkit.identity.keys import infer_roots

    known = [process.roots for process in run.processes]
    project = [directory for roots in known for directory in roots.project]
    if not project:
        profiles = [thread.profile for process in run.processes for thread in process.threads]
        project = [directory for profile in profiles for directory in infer_roots(profile).project]
    return Roots(
        tuple(dict.fromkeys(directory for roots in known for directory in roots.stdlib)),
        tuple(dict.fromkeys(directory for roots in known for directory in roots.site)),
        tuple(dict.fromkeys(project)),
    )
