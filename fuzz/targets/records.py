"""Records of agents and of the sampler, and the launcher's facts: what is read of them, or one sentence."""

from __future__ import annotations

from typing import Any

from fuzz.mutate import Mutation
from fuzz.oracles import check_text
from fuzz.scratch import emptied
from fuzz.target import Target
from profkit.capture.agent import record_file
from profkit.capture.records import decode_launch, decode_record, decode_samples
from profkit.capture.spool import left_behind
from profkit.formats.codec import MemberError
from profkit.formats.plain_data import PlainDataError, read_plain
from profkit.model import ProfileError
from profkit.report.text import clean

_MAGICS = (record_file.MAGIC, record_file.SAMPLES_MAGIC)


def check(data: bytes, thorough: bool) -> None:
    """See `fuzz.target.Target`."""
    decode = decode_launch
    if data.startswith(record_file.MAGIC):
        decode = decode_record
    elif data.startswith(record_file.SAMPLES_MAGIC):
        decode = decode_samples
    else:
        spool = emptied("left") / ".run.prof.spool-fuzz"
        spool.mkdir()
        (spool / "launch.json").write_bytes(data)
        left_behind(spool.parent)
    try:
        decode(data)
    except (MemberError, PlainDataError, ProfileError) as error:
        check_text(clean(str(error)))
        return


def tree_of(data: bytes) -> Any:
    """Return what stands behind a record's header; raise `ValueError` if it is no plain data."""
    return read_plain(data[record_file.HEADER_BYTES :])


def bytes_of(magic: bytes, tree: Any, version: int = 2) -> bytes:
    """Return a record with a right header."""
    return b"".join(record_file.encode(magic, version, tree))


#: What agents write seldom, of which no seed has all.
NOTES: dict[str, Any] = {
    "agent_failed": "KeyError('x')",
    "not_cpython": "pypy",
    "write_failed": "OSError(28)",
    "own_profiler": [[1.0, 2.5], [3.0, None]],
    "own_profiler_more": 3,
    **dict.fromkeys(("free_threaded", "displaced", "no_samples", "no_tracer"), True),
    **dict.fromkeys(("tables_full", "torch_nvtx", "emit_nvtx", "windows_missed", "not_traced"), True),
}


def _noted(tree: Any, mutation: Mutation) -> Any:
    """Change a record, or add to its notes and its state what agents write seldom."""
    random = mutation.random
    if not isinstance(tree, dict) or not isinstance(tree.get("notes"), dict) or random.random() < 0.7:
        return mutation.tree(tree)
    for name in random.sample(list(NOTES), random.choice((1, 2, 4))):
        tree["notes"][name] = NOTES[name]
    tree["state"] = random.choice(("snapshot", "exited", "replaced", "detached"))
    return tree


def mutate(data: bytes, mutation: Mutation) -> bytes:
    """Change the data behind the header, and make the header right again; seldom any byte."""
    if not data.startswith(_MAGICS):
        return mutation.json_bytes(data)
    random = mutation.random
    if random.random() < 0.03:
        return mutation.bytes_of(data, TARGET.most_bytes)
    if random.random() < 0.15:  # plain data that is none
        body = mutation.bytes_of(data[record_file.HEADER_BYTES :], len(data) + 64)
        numbers = (2).to_bytes(4, "little") + record_file.checksum(body).to_bytes(4, "little")
        return data[:8] + numbers + len(body).to_bytes(8, "little") + body
    try:
        return bytes_of(data[:8], _noted(tree_of(data), mutation))
    except (PlainDataError, ValueError):  # its data is none already, or a text cannot be written
        return mutation.bytes_of(data, TARGET.most_bytes)


TARGET = Target(
    check,
    mutate,
    32 << 10,
    (b"PFKRECRD", b"PFKSAMPL", b"[\x01\x00\x00\x00", b"i\xff\xff\xff\x7f", b"g\x00"),
    quick=2000,
)
