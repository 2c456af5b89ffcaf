"""Mask one text by its kind: names, messages, paths, hosts, versions; reads no environment."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence

from profkit.capture.agent.settings import RECORDED_VARIABLES
from profkit.identity.rooted_paths import normalise, rooted
from profkit.model import GENERATED, Roots, Run
from profkit.report.command_mask import CommandMask, kind_of
from profkit.report.known_words import is_known, is_number, is_said, is_standard_module
from profkit.report.learned_texts import HOMES, ROOT_NAMES, LearnedTexts, base_name, is_absolute
from profkit.report.placeholders import HOME, PLACEHOLDER, Pseudonyms
from profkit.report.recorded_texts import commands_of
from profkit.report.secrets import (
    SecretRule,
    holds_secret,
    masked_by_rules,
    masked_parts,
    may_hold_parts,
    suspects,
)

_ROOT_HOME = re.compile(r"(?<![\w.~-])/(?:var/)?root(?=[/\s'\":;,]|$)")
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


class TextMask(LearnedTexts):
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
        gathered = list(runs)
        super().__init__(gathered, home=home, user=user, host=host, pseudonyms=pseudonyms)
        self._posted = posted
        self._pseudonyms = pseudonyms
        self._commands = CommandMask(self)
        self.words = self._commands.words
        #: Masked words of commands, and masked commands by their joined text.
        self._words: dict[str, str] = {}
        self._joined: dict[str, str] = {}
        self._names: dict[tuple[str, bool], str] = {}
        self._messages: dict[str, str] = {}
        self._paths: dict[str, str] = {}
        for command in dict.fromkeys(command for run in gathered for command in commands_of(run)):
            masked = self.words(command)
            for word, shown in zip(command, masked, strict=False):
                if word not in self._words or shown != word:
                    self._words[word] = shown
            for join in (shlex.join, " ".join):
                self._joined.setdefault(join(command), join(masked))

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
            known = masked_by_rules(text, self.placeholders.secret, among)
            known = self.private.replaced(known, users=users)
            if may_hold_parts(known):
                known = masked_parts(known, self.placeholders, self._is_module)
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
        quiet = not among and not self.private.may_be_in(texts)
        paths = "\n".join(text for text in texts if "/" in text or "\\" in text)
        patterns = (HOMES, _ROOT_HOME, _PATH_IN_NAME, *([self.home] if self.home is not None else []))
        places = quiet and any(pattern.search(paths) for pattern in patterns)

        def masked(text: str) -> str:
            if quiet and not (places and ("/" in text or "\\" in text)) and not may_hold_parts(text):
                return text
            return self.name(text, users=users, among=among)

        return masked

    def _is_module(self, dotted: str) -> bool:
        top = dotted.partition(".")[0]
        return top in self.parts or is_standard_module(top)

    def _without_homes(self, text: str) -> str:
        if self.home is not None:
            text = self.home.sub(HOME, text)
        return _ROOT_HOME.sub(HOME, HOMES.sub(HOME, text))

    def message(self, text: str) -> str:
        """Mask another program's sentence by the allow-list for messages."""
        known = self._joined.get(text) or self._messages.get(text)
        if known is None:
            known = self._messages[text] = self._message(text)
        return known

    def _message(self, text: str) -> str:
        cut = text[:_MOST_MESSAGE]
        cut = self.private.replaced(masked_by_rules(cut, self.placeholders.secret))
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
            shown.append(f"… {self.placeholders.of('text', rest, len(rest))}")
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
            masked = self.placeholders.secret(core)
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
        return f"{self.prefix(root, normalise(file).removesuffix(inside))}/{self.name(inside, among=among)}"

    def module(self, text: str, among: Sequence[SecretRule] | None = None) -> str:
        """Mask the parts of a module's name that its file's path hides; an empty name stays empty."""
        if not text:
            return text
        text = masked_by_rules(text, self.placeholders.secret, among)
        if may_hold_parts(text):
            text = masked_parts(text, self.placeholders, self._is_module)
        if "/" in text or "\\" in text:
            return self.outside(text)
        parts = [
            self.placeholders.of("name", part) if part in self.lost else part for part in text.split(".")
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
        known = self._paths.get(path)
        if known is None:
            known = self._paths[path] = self._outside(path)
        return known

    def _outside(self, path: str) -> str:
        directory, _, name = normalise(path).rpartition("/")
        if self.own_place(directory) is not None:
            return f"{self._commands.place(directory)}/{self.name(name)}"
        parts = normalise(self._without_homes(self.private.replaced(path))).split("/")
        shown = [self._commands.part(part) for part in parts[:-1]]
        return "/".join((*shown, self.name(parts[-1])))

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

    def program(self, name: str) -> str:
        """Return another program's name; posted reports show only common ones."""
        if not self._posted or is_known(name) or PLACEHOLDER.fullmatch(name):
            return self.label(name)
        return self.placeholders.of("name", name, len(name)) if name else name

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
        return self.placeholders.of(kind_of(text), text, len(text))

    def formed(self, text: str, form: re.Pattern[str]) -> str:
        """Hide a text that does not match its form."""
        return text if form.fullmatch(text) else self.hidden(text)

    def variable(self, name: str, value: str) -> str:
        if name not in RECORDED_VARIABLES:
            return self.placeholders.secret(value) if value and not PLACEHOLDER.fullmatch(value) else value
        if " " in value:
            words = [word for word in _MESSAGE_WORDS.findall(value) if not word.isspace()]
            return " ".join(self.words(("env", *words))[1:])
        return self._commands.value(value, name)

    def job(self, identity: str) -> str:
        """Return a pseudonym of a job's id, which may contain hosts and users; ranks of a job share it."""
        return self.placeholders.pseudonym("job", identity)
