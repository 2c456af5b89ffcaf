"""Mask one text by its kind: names, messages, paths, hosts, versions; reads no environment."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence

from profkit.capture.agent.settings import THREAD_VARIABLES
from profkit.identity.rooted_paths import normalise, rooted
from profkit.model import GENERATED, PROJECT, SITE, STDLIB, Roots, Run
from profkit.report.command_mask import HOST_OPTION, CommandMask, is_number, kind_of
from profkit.report.known_words import is_known, is_said, is_standard_module, suffix_of
from profkit.report.name_parts import masked_parts, may_hold_parts
from profkit.report.placeholders import PLACEHOLDER, Placeholders
from profkit.report.private_texts import HOME, PrivateTexts
from profkit.report.pseudonyms import Pseudonyms
from profkit.report.recorded_texts import (
    assigned,
    commands_of,
    files_of,
    host_names,
    paths_of,
    roots_of,
    users_of,
)
from profkit.report.secrets import SecretRule, holds_secret, masked_by_rules, suspects

_SEPARATOR = r"[\\/]+"
_NAME = r"[^\\/\s'\":;,<>|*?“”()]+"
#: Home directories by their form; the last part is the user's name.
_HOMES = re.compile(
    rf"(?:(?<![\w.~-])(?:[A-Za-z]:|/mnt/[a-z]|/(?:cygdrive/)?[a-z])?[\\/]{{1,8}}(?:Users|Documents and Settings)"
    rf"|(?<![\w.~-])(?:/(?:export|nfs|net|mnt|usr|var|data|gpfs|lustre|scratch|storage|cluster|remote)[\w.-]*)?/home\d*"
    rf"|(?<![\w.~-])/afs/[\w.-]+/(?:user|home)/\w)"
    rf"{_SEPARATOR}(?P<user>{_NAME})",
)
_ROOT_HOME = re.compile(r"(?<![\w.~-])/(?:var/)?root(?=[/\s'\":;,]|$)")
#: Names that may stand for a user but belong to no person.
_NOBODY = frozenset("root user users shared public default guest admin ubuntu debian runner".split())  # noqa: SIM905
_HOST_IN_LIST = re.compile(r"[A-Za-z0-9][\w-]*(?:\.[\w-]+)*")
_SPACE = re.compile(r"\s")
_BEHIND_HOST = re.compile(r"(?::\d{1,5})?(?:/.*)?", re.DOTALL)
_IPV4 = re.compile(r"(?<![\w.])(?!127\.|0\.0\.0\.0)\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)")
#: A host before a path, as on Windows or with an automounter.
_HOST_OF_PATH = re.compile(r"(?:^|(?<=[\s'\"]))(?:\\\\|//|/net/)(?P<host>[A-Za-z][\w.-]*)[\\/]", re.MULTILINE)
_LOCAL = frozenset(("localhost", "localhost.localdomain", "127.0.0.1", "0.0.0.0", "::1"))
ROOT_NAMES = {STDLIB: "<stdlib>", SITE: "<site>", PROJECT: "<project>"}
#: An absolute path in a name: below a usual system directory, or on a Windows drive.
_PATH_IN_NAME = re.compile(
    r"(?<![\w.~<>/-])(?:/(?:home|users|scratch|data|mnt|nfs|net|var|tmp|opt|usr|root|etc|srv|gpfs|lustre|beegfs|work"
    r"|projects?|proj|storage|cluster|afs|export|private|volumes|media|workspaces?|run|dev|proc|sys|app)"
    r"|[A-Za-z]:|\\\\[\w.-]+)[\\/][^\s'\":;,<>|*?“”()]*",
    re.IGNORECASE,
)
#: The part of a generated function's file that is kept.
_GENERATED_FILE = re.compile(
    r"(?P<kernel>ipykernel_\d+/[^/]+)$|torchinductor_[^/]+/(?P<inductor>.+)$"
    r"|(?P<autograph>__autograph_generated_file[^/]*\.py)$|(?P<temporary>(?:tmp|temp|T)/tmp[^/]*)$",
    re.IGNORECASE,
)
#: Most characters shown of a message.
_MOST_MESSAGE = 4096
#: Most assignments followed in one word: ``a=b=c`` has two.
_MOST_ASSIGNED = 8
#: No group of digits follows another, so a text matches in one way only, in linear time.
_VERSION = re.compile(
    r"v?\d{1,9}(?:[.!-]?(?:alpha|a|beta|b|rc|r|post|pre|dev)|[.!-]\d{1,9}|(?<=[a-z])\d{1,9}){0,16}",
    re.IGNORECASE,
)
_LOCAL_VERSION = re.compile(r"(?:cu|cpu|rocm|cxx|git|g|xpu|ubuntu|mkl|nv|abi)?[0-9a-f.]{0,16}", re.IGNORECASE)
#: Signs around a word of a message.
_OPENING, _CLOSING, _ENDING = "\"'“”‘’`({[", "\"'“”‘’`)}]", ".,:;!?…"
#: Words and the space between them; a placeholder may contain a space.
_MESSAGE_WORDS = re.compile(rf"(?:{PLACEHOLDER.pattern}|\S)+|\s+")
_PLAIN_NAME = re.compile(r"-{0,2}[A-Za-z][\w-]{0,60}")
_ASSIGNED = re.compile(r"(?P<name>-{0,2}[A-Za-z_][\w.-]{0,60})(?P<sign>[=:])(?P<value>.+)", re.DOTALL)


class TextMask:
    """Mask the texts of one report; use one per report, so that equal texts get equal pseudonyms.

    Hosts, homes and commands of `runs` (baseline's first) are masked in every text, and so are `home`, `user` and
    `host` of who makes the report. A `posted` report names no other programs of the machine; `pseudonyms` replace
    names of the program.
    """

    def __init__(
        self,
        runs: Iterable[Run] = (),
        *,
        home: str = "",
        user: str = "",
        host: str = "",
        posted: bool = False,
        pseudonyms: Pseudonyms | None = None,
    ) -> None:
        self._posted = posted
        self._pseudonyms = pseudonyms
        self._placeholders = Placeholders()
        self._private = PrivateTexts(self._placeholders.secret)
        self._hosts: dict[str, str] = {}
        self._prefixes: dict[tuple[str, str], str] = {}
        #: Project and working directories: private even if their names are common.
        self._places: dict[str, None] = {}
        #: Masked words of commands, and masked commands by their joined text.
        self._words: dict[str, str] = {}
        self._joined: dict[str, str] = {}
        self._names: dict[tuple[str, bool], str] = {}
        self._messages: dict[str, str] = {}
        #: Of profiled files: base names, parts of the path below the root, and parts above it.
        self._files: set[str] = set()
        self._parts: set[str] = set()
        self._lost: set[str] = set()
        gathered = list(runs)
        for run in gathered:
            self._learn_what_is_masked(run)
        for run in gathered:
            self._learn_machines_and_users(run)
        self._learn_host(host)
        self._learn_user(user)
        self._home: re.Pattern[str] | None = None
        home = home.rstrip("/\\")
        if len(home.lstrip("/\\")) > 1:
            self._home = re.compile(rf"{re.escape(home)}(?![\w.-])")
            self._learn_user(base_name(home))
        for run in gathered:
            self._learn_places(run)
            self._learn_files(run)
        if pseudonyms is not None:
            self._files = set(filter(pseudonyms.are_public, self._files))
            self._parts = set(filter(pseudonyms.are_public, self._parts))
        self._lost = {part for part in self._lost - self._parts if not is_known(part)}
        for run in gathered:
            self._learn_secrets(run)
        self._commands = CommandMask(
            self._placeholders,
            self._hosts,
            self._files,
            self._parts,
            self._place,
            lambda directory: self._own_place(directory) is not None,
            lambda text: self._private.replaced(text) != text,
        )
        for command in dict.fromkeys(command for run in gathered for command in commands_of(run)):
            masked = self.words(command)
            for word, shown in zip(command, masked, strict=False):
                if word not in self._words or shown != word:
                    self._words[word] = shown
            for join in (shlex.join, " ".join):
                self._joined.setdefault(join(command), join(masked))

    # What the runs say -----------------------------------------------------------------------------------

    def _learn_what_is_masked(self, run: Run) -> None:
        """Reserve the pseudonyms that the run has from an earlier masking."""
        texts = [word for command in commands_of(run) for word in command[:1000]]
        texts += (*paths_of(run), *users_of(run))
        masked = [text for text in texts if "<" in text or "***" in text]
        names = (*host_names(run), str(run.job.get("id") or ""))
        self._placeholders.keep("\n".join((*masked, *filter(PLACEHOLDER.fullmatch, names))))

    def _learn_machines_and_users(self, run: Run) -> None:
        for name in host_names(run):
            self._learn_host(name)
        for command in commands_of(run):
            self._learn_hosts_of(command)
            for word in command[:1000]:
                if " " in word:
                    self._learn_hosts_of(word[:10_000].split())
        for text in paths_of(run):
            for home in _HOMES.finditer(text):
                self._learn_user(home["user"])
            for host in _HOST_OF_PATH.finditer(text):
                self._learn_host(host["host"])
        for user in users_of(run):
            self._learn_user(user)

    def _learn_host(self, name: str) -> None:
        name = name.strip()
        if not name or name.lower() in _LOCAL or name in self._hosts:
            return
        numeric = _IPV4.fullmatch(name)
        short = name.partition(".")[0]
        known = None if numeric else self._hosts.get(short)
        pseudonym = known or self._placeholders.pseudonym("host", name)
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
                # Headers of a request, also given by -H, contain spaces.
                for part in () if _SPACE.search(value) else re.split("[,;]", value.rpartition("://")[2]):
                    self._learn_host_of(part)

    def _learn_host_of(self, part: str) -> None:
        """Learn a host of a list; skip numbers, paths, files and common words."""
        found = _HOST_IN_LIST.match(part)
        if found is None or part[0].isdigit() or not _BEHIND_HOST.fullmatch(part, found.end()):
            return
        if not is_said(found.group()) and not suffix_of(found.group()):
            self._learn_host(found.group())

    def _learn_user(self, name: str) -> None:
        if len(name) >= 3 and name.lower() not in _NOBODY and name not in (HOME, "..."):
            self._private.add_user(name)

    def _learn_places(self, run: Run) -> None:
        """Learn the user's own directories, which are hidden entirely."""
        started = [run.manifest.cwd] if run.manifest is not None else []
        for directory in (*roots_of(run).project, *started):
            place = normalise(directory).rstrip("/")
            if is_absolute(place) and place.strip("/"):
                self._places[place] = None

    def _own_place(self, directory: str) -> str | None:
        """Return the user's directory that contains `directory`, or is it."""
        found = [place for place in self._places if f"{directory}/".startswith(f"{place}/")]
        return max(found, key=len, default=None)

    def _learn_files(self, run: Run) -> None:
        """Learn which parts of file and module names are shown, and which are not."""
        if run.manifest is not None:
            self._parts.update(re.sub(r"[-.]+", "_", name) for name in run.manifest.packages)
        roots = roots_of(run)
        for file in files_of(run):
            root, inside = rooted(file, roots)
            if root in ROOT_NAMES and not file.endswith(">"):
                if not is_absolute(inside):
                    self._prefix(root, normalise(file).removesuffix(inside))
                parts = normalise(file).split("/")
                shown = 1 if is_absolute(inside) else inside.count("/") + 1
                self._files.add(parts[-1])
                self._parts.update(part.partition(".")[0] for part in parts[-shown:])
                self._lost.update(parts[:-shown])

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
        if (
            len(value) >= 6
            and not is_said(value)
            and not is_number(value)
            and not PLACEHOLDER.fullmatch(value)
        ):
            self._private.add_secret(value)

    # Strings ---------------------------------------------------------------------------------------------

    def words(self, words: Sequence[str]) -> tuple[str, ...]:
        return self._commands.words(words)

    def name(self, text: str, *, users: bool = True, among: Sequence[SecretRule] | None = None) -> str:
        """Mask a name from the program; `users` false keeps users' names, which functions may share."""
        shown = self.label(text, users=users, among=among)
        return shown if self._pseudonyms is None else self._pseudonyms.masked(shown)

    def label(self, text: str, *, users: bool = True, among: Sequence[SecretRule] | None = None) -> str:
        """Mask the name of something outside the program; parameters as for `name`."""
        if not text:
            return text
        known = self._names.get((text, users))
        if known is None:
            # Forms first: private text, such as a host, may be what identifies a form.
            known = masked_by_rules(text, self._placeholders.secret, among)
            known = self._private.replaced(known, users=users)
            if may_hold_parts(known):
                known = masked_parts(known, self._placeholders, self._is_module)
            if "/" in known or "\\" in known:
                known = self._without_homes(known)
                known = _PATH_IN_NAME.sub(lambda found: self.outside(found.group()), known)
            self._names[text, users] = known
        return known

    def name_mask(self, texts: Sequence[str], *, users: bool = True) -> Callable[[str], str]:
        """Return a function that masks names as `name` does, after one scan of all `texts`."""
        among = suspects(texts)
        if self._pseudonyms is not None:
            return lambda text: self.name(text, users=users, among=among)
        quiet = not among and not self._private.may_be_in(texts)
        places = quiet and self._may_hold_places(
            "\n".join(text for text in texts if "/" in text or "\\" in text)
        )

        def masked(text: str) -> str:
            if quiet and not (places and ("/" in text or "\\" in text)) and not may_hold_parts(text):
                return text
            return self.name(text, users=users, among=among)

        return masked

    def _is_module(self, dotted: str) -> bool:
        top = dotted.partition(".")[0]
        return top in self._parts or is_standard_module(top)

    def _may_hold_places(self, text: str) -> bool:
        """Return whether any line of a text contains a home or an absolute path."""
        patterns = (_HOMES, _ROOT_HOME, _PATH_IN_NAME, *([self._home] if self._home is not None else []))
        return any(pattern.search(text) for pattern in patterns)

    def _without_homes(self, text: str) -> str:
        if self._home is not None:
            text = self._home.sub(HOME, text)
        return _ROOT_HOME.sub(HOME, _HOMES.sub(HOME, text))

    def message(self, text: str) -> str:
        """Mask another program's sentence by the allow-list for messages."""
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

    def _message_word(self, word: str, option: str, depth: int = 0) -> str:
        """Mask one word of a message; the word before it, `option`, may say what it is."""
        inner = word.lstrip(_OPENING)
        # A regular expression would try every division of trailing signs.
        core = inner.rstrip(_CLOSING).rstrip(_ENDING).rstrip(_CLOSING)
        before, after = word[: len(word) - len(inner)], inner[len(core) :]
        if not core or PLACEHOLDER.fullmatch(core):
            return word
        if option and holds_secret(option, core):
            masked = self._placeholders.secret(core)
        elif is_said(core) or is_number(core) or (core.startswith("-") and self.words(("", core))[1] == core):
            return word
        elif (
            depth < _MOST_ASSIGNED
            and (assigned := _ASSIGNED.fullmatch(core))
            and "://" not in core
            and core[1:3] not in (":\\", ":/")
        ):
            name = assigned["name"]
            kept = is_said(name) or name.startswith("-") or re.fullmatch(r"[A-Z][A-Z_]{2,40}", name)
            said = name if kept else self._commands.shown(name)
            masked = f"{said}{assigned['sign']}{self._message_word(assigned['value'], name, depth + 1)}"
        else:
            masked = self._commands.shown(core)
        return f"{before}{masked}{after}"

    def file(self, file: str, roots: Roots, among: Sequence[SecretRule] | None = None) -> str:
        """Return a source file below its root's placeholder: ``<site>/numpy/linalg/_linalg.py``.

        A second root of a kind is ``<site-2>``, so copies of a module stay distinct.
        """
        root, inside = rooted(file, roots)
        if root == GENERATED and not file.endswith(">"):
            return self._generated(file)
        placeholder = ROOT_NAMES.get(root)
        if placeholder is None or file.endswith(">"):
            return self.name(file, among=among)
        if is_absolute(inside):
            return self.outside(file)
        return f"{self._prefix(root, normalise(file).removesuffix(inside))}/{self.name(inside, among=among)}"

    def _prefix(self, root: str, prefix: str) -> str:
        known = self._prefixes.get((root, prefix))
        if known is None:
            number = 1 + sum(kind == root for kind, _ in self._prefixes)
            known = ROOT_NAMES[root] if number == 1 else f"{ROOT_NAMES[root][:-1]}-{number}>"
            self._prefixes[root, prefix] = known
        return known

    def module(self, text: str, among: Sequence[SecretRule] | None = None) -> str:
        """Mask the parts of a module's name that its file's path hides; an empty name stays empty."""
        if not text:
            return text
        text = masked_by_rules(text, self._placeholders.secret, among)
        if may_hold_parts(text):
            text = masked_parts(text, self._placeholders, self._is_module)
        if "/" in text or "\\" in text:
            return self.outside(text)
        parts = [
            self._placeholders.of("name", part) if part in self._lost else part for part in text.split(".")
        ]
        return self.name(".".join(parts), among=among)

    def _generated(self, file: str) -> str:
        """Return the part of a generated function's file that marks it as generated."""
        found = _GENERATED_FILE.search(normalise(file))
        if found is None:
            return self.outside(file)
        kept = found[found.lastgroup or 0]
        return self.name(f"torchinductor_{HOME}/{kept}" if found.lastgroup == "inductor" else kept)

    def outside(self, path: str) -> str:
        """Mask a path below no root, part by part, so that common directories stay common."""
        directory, _, name = normalise(path).rpartition("/")
        if self._own_place(directory) is not None:
            return f"{self._place(directory)}/{self.name(name)}"
        parts = normalise(self._without_homes(self._private.replaced(path))).split("/")
        shown = [self._part(part) for part in parts[:-1]]
        return "/".join((*shown, self.name(parts[-1])))

    def _part(self, part: str) -> str:
        if part in ("", ".", "..", HOME) or is_known(part) or PLACEHOLDER.fullmatch(part) or part[1:] == ":":
            return part
        return self._placeholders.of("dir", part)

    def _place(self, directory: str) -> str:
        """Mask a directory of a command or manifest, keeping its place below a root."""
        directory = directory.rstrip("/")
        for (root, prefix), known in self._prefixes.items():
            if root == PROJECT and prefix and f"{directory}/".startswith(prefix):
                inside = directory[len(prefix) :].split("/") if len(directory) > len(prefix) else []
                return "/".join((known, *map(self._part, inside)))
        own = self._own_place(directory)
        if own is not None:
            inside = directory[len(own) + 1 :].split("/") if len(directory) > len(own) else []
            return "/".join((f"/{self._placeholders.of('dir', own)}", *map(self._part, inside)))
        # Keep an absolute path absolute.
        return ("/" if directory.startswith("/") else "") + self._placeholders.of("dir", directory)

    def place(self, directory: str) -> str:
        return self._commands.directory(normalise(directory).rstrip("/"))

    def key_path(self, path: str) -> str:
        return self.key_paths((path,))[path]

    def key_paths(self, paths: Iterable[str]) -> dict[str, str]:
        every = list(dict.fromkeys(paths))
        masked = self.name_mask([path for path in every if not is_absolute(path)])
        return {path: self.outside(path) if is_absolute(path) else masked(path) for path in every}

    def user_file(self, path: str) -> str:
        """Return the masked base name of a file that the user named."""
        return self.name(base_name(path))

    def host(self, name: str) -> str:
        self._learn_host(name)
        return self._hosts.get(name.strip(), name if name.lower() in _LOCAL else "")

    def user(self, name: str) -> str:
        """Return a user's placeholder; system accounts keep their names."""
        if name.lower() in _NOBODY or name == HOME or PLACEHOLDER.fullmatch(name):
            return name
        return self._placeholders.of("user", name)

    def program(self, name: str) -> str:
        """Return another program's name; posted reports show only common ones."""
        if not self._posted or is_known(name) or PLACEHOLDER.fullmatch(name):
            return self.label(name)
        return self._placeholders.of("name", name, len(name)) if name else name

    def version(self, text: str) -> str:
        """Mask where a distribution was installed from, and version parts that identify its builder."""
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
        """Return the type and length of a text of unknown content."""
        if not text or PLACEHOLDER.fullmatch(text):
            return text
        return self._placeholders.of(kind_of(text), text, len(text))

    def formed(self, text: str, form: re.Pattern[str]) -> str:
        """Hide a text that does not match its form."""
        return text if form.fullmatch(text) else self.hidden(text)

    def variable(self, name: str, value: str) -> str:
        if name not in THREAD_VARIABLES:
            return self._placeholders.secret(value) if value and not PLACEHOLDER.fullmatch(value) else value
        if " " in value:
            words = [word for word in _MESSAGE_WORDS.findall(value) if not word.isspace()]
            return " ".join(self.words(("env", *words))[1:])
        return self._commands.value(value, name)

    def job(self, identity: str) -> str:
        """Return a pseudonym of a job's id, which may contain hosts and users; ranks of a job share it."""
        return self._placeholders.pseudonym("job", identity)


def base_name(path: str) -> str:
    """Return the last part of a path of any system; also of ``a.prof and 2 more``."""
    parts = [part for part in re.split(_SEPARATOR, path) if part]
    return parts[-1] if parts else path


def is_absolute(path: str) -> bool:
    """Return whether a path, masked or not, begins at a file system root or a home."""
    return path.startswith(("/", "\\", f"{HOME}/")) or path[1:2] == ":"
