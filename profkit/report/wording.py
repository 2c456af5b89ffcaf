"""Words and blocks that both reports share: the verdict, the advice, where a function is, what was cut.

Takes results, returns blocks of a document; formats nothing for a particular output.
"""

from __future__ import annotations

import re
import shlex

from profkit.verdict.types import Verdict
from profkit.identity.readable import readable_name
from profkit.model import FunctionKey
from profkit.report.document import Block, Bullets, VerdictBlock
from profkit.report.text import clean

__all__ = [
    "SMALL_SHARE",
    "WAITING_NOTE",
    "advice_blocks",
    "cut_note",
    "display_name",
    "location",
    "verdict_block",
]

#: Share of the self time (1) below which a function that did not move beyond the noise is counted instead of
#: listed: a fifth of the 0.5 % below which rankings say nothing (DETECTION §2).
SMALL_SHARE = 0.001

#: What is to be known of functions that wait.
WAITING_NOTE = (
    "They wait by design (locks, pipes, polls, pool threads): their time follows everybody else's, and is no cause "
    "by itself."
)

_HEADLINES = {
    "no-change": ("No change beyond the noise", "good"),
    "contention": ("Resource contention", "bad"),
    "slower-machine": ("A slower machine", "bad"),
    "code-change": ("A code change", "bad"),
    "workload-change": ("Different work", "bad"),
    "data-starvation": ("Starved of data", "bad"),
    "blocked": ("Blocked, not computing", "bad"),
    "faster": ("Faster", "good"),
    "inconclusive": ("Inconclusive", "unsure"),
}

_KINDS = {
    "self-oversubscription": "by the program itself",
    "external-load": "by other processes",
    "cpu-quota": "by a CPU quota",
}

#: What the analysis, which knows no files, writes for the run that is to be looked at.
_PLACEHOLDER = re.compile(r"^(profkit show )(?:RUN|CANDIDATE)\b")
#: Advice that is a sentence; all other advice is a command to paste, or a comment among such.
_SENTENCE = re.compile(r"[A-Z][a-z]* .*[.!?]")


def verdict_block(verdict: Verdict) -> VerdictBlock:
    """Say the verdict in a headline; the name of the cause stays in it, since that is what scripts match."""
    headline, tone = _HEADLINES.get(verdict.cause, (verdict.cause, "unsure"))
    if verdict.kind:
        headline += f" {_KINDS.get(verdict.kind, clean(verdict.kind))}"
    names = verdict.cause + (f", {verdict.kind}" if verdict.kind else "")
    if names != headline.lower():
        headline += f" ({names})"
    # How sure one is of not knowing tells nothing.
    confidence = None if verdict.cause == "inconclusive" else verdict.confidence
    return VerdictBlock(headline, confidence, clean(verdict.summary), tone)


def advice_blocks(advice: tuple[str, ...], file: str) -> tuple[Block, ...]:
    """Keep the order of the advice; runs of commands become lists that are never wrapped.

    The analysis says ``profkit show RUN`` or ``CANDIDATE``: `file` takes its place, so that it can be pasted.
    """
    blocks: list[Block] = []
    for line in advice:
        text = clean(_PLACEHOLDER.sub(lambda match: match[1] + shlex.quote(file), line) if file else line)
        commands = not _SENTENCE.fullmatch(text)
        last = blocks[-1] if blocks else None
        if isinstance(last, Bullets) and last.commands == commands:
            blocks[-1] = Bullets((*last.items, text), commands)
        else:
            blocks.append(Bullets((text,), commands))
    return tuple(blocks)


def display_name(name: str) -> str:
    """Name of a function as a table shows it: built-in ones without the words that cProfile puts around them.

    ``<method 'sort' of 'list' objects>`` becomes ``list.sort`` and ``<built-in method torch.conv2d>`` becomes
    ``torch.conv2d``; the column of locations says that they are built in.
    """
    return clean(readable_name(name))


def location(key: FunctionKey, file: str, line: int) -> str:
    """Where a function is, relative to its root; built-in functions are in no file."""
    path = key.path or ("" if file in ("", "~") else file)
    if not path:
        return "built-in"
    return clean(f"{path}:{line}" if line else path)


def cut_note(shown: int, total: int, what: str = "") -> str:
    """Say how many rows were left out, and how to see them; empty when none were."""
    if shown >= total:
        return ""
    of = f"{total:,} {what}".rstrip()
    return f"{shown:,} of {of} shown (--limit 0 lists all)."
