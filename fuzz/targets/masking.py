"""Masking of any text: a planted home, user, host, address or secret never comes out of it."""

from __future__ import annotations

import time
import zlib
from dataclasses import replace

from fuzz.mutate import Mutation
from fuzz.target import Target, Wrong
from fuzz.targets.texts import text_of
from profkit.model import Host, Manifest, Notice, Process, Run
from profkit.report.safety import Masker

_OWNER = {"home": "/home/zeldaquist", "user": "zeldaquist", "host": "gpu-node17.corp.example"}
#: What is put into the text, behind a space or a quote, and the part of it that must not come out.
_PLANTED = (
    ("/home/zeldaquist/project/train.py", "zeldaquist"),
    ("/Users/zeldaquist/x", "zeldaquist"),
    ("zeldaquist@gpu-node17.corp.example:/data", "node17"),
    ("gpu-node17.corp.example", "node17"),
    ("--password=sw0rdfish", "sw0rdfish"),
    ("https://ann:sw0rdfish@h.example/", "sw0rdfish"),
    ("AWS_SECRET_ACCESS_KEY=sw0rdfish", "sw0rdfish"),
    ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "16C7e42F292c6912E7710c838347Ae178B4a"),
)
_MANIFEST = Manifest(
    schema="profkit.run/2",
    profkit="1",
    command=("python", "train.py"),
    cwd="/home/zeldaquist/project",
    exit_status=0,
    started="2026-01-01T00:00:00+00:00",
    wall_s=1.0,
    host=Host(name="gpu-node17.corp.example"),
)

#: Characters of the text that is repeated to see whether time grows faster than length, and seconds that it may take.
_LONG, _MOST_SECONDS = 50_000, 5.0


def _run(words: tuple[str, ...], text: str) -> Run:
    """Return a run that has a command and a text wherever people and programs bring them in."""
    process = Process(command=words, environment={"OMP_NUM_THREADS": text})
    notice = Notice("record-unreadable", text, {"problem": text})
    return Run("/home/zeldaquist/run.prof", (process,), replace(_MANIFEST, command=words), warnings=(notice,))


def _masked(run: Run) -> str:
    masked = Masker((run,), **_OWNER).run(run)
    return f"{masked.path} {masked.manifest} {masked.processes} {masked.warnings}"


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    if not data:
        return
    text = text_of(data[2:])
    at = data[0] * len(text) // 255
    planted, secret = _PLANTED[data[-1] % len(_PLANTED)]
    # Apart from what stands around it: a word in the middle of another one is no word.
    before, after = text[:at], text[at:]
    words = (*before.split(" "), planted, "--token", "t0psecretvalue", *after.split(" "))
    said = _masked(_run(words, f"{before} {planted} {after}"))
    for word in (secret, "t0psecretvalue"):
        if word in said and word not in text:
            found = said.index(word)
            raise Wrong(
                f"a planted secret comes out of the mask: {planted!r} in {said[max(0, found - 200) : found + 60]!r}"
            )
    if text and (thorough or zlib.crc32(data) % 64 == 0):
        _check_time(text)


def _check_time(text: str) -> None:
    """A text of some length is masked at once: programs put whole files into their command lines."""
    long = text * (_LONG // len(text))
    began = time.process_time()
    _masked(_run(("python", long), long))
    took = time.process_time() - began
    if took > _MOST_SECONDS:
        raise Wrong(f"masking is slow: {took:.1f} s for {len(long)} characters of {text[:80]!r}")


def mutate(data: bytes, mutation: Mutation) -> bytes:
    """Put in a text that means something, or change bytes."""
    random = mutation.random
    if len(data) < 4 or random.random() < 0.5:
        return mutation.bytes_of(data, TARGET.most_bytes)
    text = text_of(data[2:-1])
    at = random.randint(0, len(text))
    part = random.choice(("", " ", "=", "'", '"', "/", "@", ":", ",")) + mutation.text()
    changed = (text[:at] + part + text[at:]).encode("utf-8", "surrogatepass")
    return (
        bytes(random.randrange(256) for _ in range(2))
        + changed[: TARGET.most_bytes - 3]
        + bytes([random.randrange(256)])
    )


TARGET = Target(
    check,
    mutate,
    512,
    (
        b"/home/",
        b"--token",
        b"=",
        b"@",
        b"://",
        b"-p",
        b"password",
        b"KEY",
        b"'",
        b'"',
        b"eyJ",
        b"ghp_",
        b"host",
        b"-H ",
        b"10.0.0.1",
    ),
    quick=600,
)
