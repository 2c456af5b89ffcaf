"""Masking of any text: a planted home, user, host, address or secret never comes out of it."""

from __future__ import annotations

import time
import zlib

from fuzz.mutate import Mutation
from fuzz.target import Target, Wrong
from fuzz.targets.texts import text_of
from profkit.model import Manifest, Process, Roots, Run
from profkit.model.run import Host
from profkit.report.safety import Masker, Owner

_OWNER = Owner("/home/zeldaquist", "zeldaquist", "gpu-node17.corp.example")
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
_ROOTS = Roots(
    ("/usr/lib/python3.11",), ("/usr/lib/python3.11/site-packages",), ("/home/zeldaquist/project",)
)

#: Characters of the text that is repeated to see whether time grows faster than length, and seconds that it may take.
_LONG, _MOST_SECONDS = 50_000, 5.0


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    if not data:
        return
    text = text_of(data[2:])
    at = data[0] * len(text) // 255
    planted, secret = _PLANTED[data[-1] % len(_PLANTED)]
    before, after = text[:at], text[at:]
    words = tuple(text.split(" "))
    run = Run("/home/zeldaquist/run.prof", (Process(command=words),), _MANIFEST)
    masker = Masker((run,), _OWNER)
    # Apart from what stands around it: a word in the middle of another one is no word.
    said = masker.text(f"{before} {planted} {after}")
    if secret in said and secret not in text:
        raise Wrong(
            f"a planted secret comes out of the mask: {planted!r} in {before[-60:]!r} … {after[:60]!r}"
        )
    shown = masker.words((*words, planted, "--token", "t0psecretvalue"))
    if ("t0psecretvalue" in shown[-1] and "t0psecretvalue" not in text) or (
        secret in " ".join(shown[len(words) :]) and secret not in text
    ):
        raise Wrong(f"a planted secret comes out of a masked command: {planted!r} behind {words[-3:]!r}")
    masker.path(text)
    if (
        "zeldaquist" in masker.file("/home/zeldaquist/project/" + text.strip("/"), _ROOTS)
        and "zeldaquist" not in text
    ):
        raise Wrong("a user comes out of a masked path")
    if thorough or zlib.crc32(data) % 64 == 0:
        _check_time(text)


def _check_time(text: str) -> None:
    """A text of some length is masked at once: programs put whole files into their command lines."""
    if not text:
        return
    began = time.process_time()
    long = text * (_LONG // len(text))
    Masker((Run("x", (Process(command=("python", long)),), _MANIFEST),), _OWNER).text(long)
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
)
