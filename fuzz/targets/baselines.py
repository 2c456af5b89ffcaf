"""The list of a baseline's runs: it is read, or one sentence says why not, and saving makes it whole again."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fuzz.mutate import Mutation
from fuzz.oracles import check_text
from fuzz.scratch import emptied
from fuzz.target import Target, Wrong
from profkit.errors import FormatError, UsageError
from profkit.formats.baselines import Store, store_of
from profkit.report.text import clean

#: A run that a list may name; the store does not look into it.
_RUN = b"a run"
_DIGEST = hashlib.sha256(_RUN).hexdigest()


def _store(data: bytes) -> Store:
    directory = emptied("baselines")
    (directory / "runs").mkdir()
    (directory / "runs" / f"{_DIGEST}.prof").write_bytes(_RUN)
    (directory / "list.json").write_bytes(data)
    (directory / "used").write_bytes(data[:20])
    return store_of(str(directory))


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    store = _store(data)
    run = Path(store.directory, "run.prof")
    run.write_bytes(_RUN)
    kept = None
    for name in ("list", "", "no such", "other"):
        try:
            kept = store.read(name)
            check_text(clean(" ".join((kept.name, kept.saved, *kept.sources))))
        except (FormatError, UsageError) as error:
            check_text(clean(str(error)))
    if kept is not None and store.use("list").files != kept.files:
        raise Wrong("the baseline in use has other runs")
    saved = store.save("list", [run])
    if [Path(file).read_bytes() for file in saved.files] != [_RUN] or "list" not in store.names():
        raise Wrong("what was saved is not there")
    store.remove("list")
    if "list" in store.names():
        raise Wrong("what was removed is there")


def mutate(data: bytes, mutation: Mutation) -> bytes:
    """Change the JSON, or nest it deeper than any reader goes."""
    if mutation.random.random() < 0.01:
        return b"[" * 5000
    return mutation.json_bytes(data)


TARGET = Target(check, mutate, 6000, (b"schema", b"runs", b"sha256", b"source"), quick=500)
