"""Ranks of processes that Lightning started, found from all records together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from profkit.capture.agent.settings import is_number
from profkit.capture.record_types import Record


def with_lightning_ranks(found: Sequence[Record]) -> list[Record]:
    """Give a rank to processes that Lightning started, and their children; `found` is in order of begin."""
    by_pid = {(record.kernel, record.pid): record for record in found}
    #: By first process of a node (local rank 0, which starts the others): node, processes on it, ranks in
    #: all.
    groups: dict[tuple[str, int], tuple[int, int, int]] = {}
    for record in found:
        told, first = _told(record), (record.kernel, record.ppid)
        if told is not None and first in by_pid and _told(by_pid[first]) is None:
            local, node, size = told
            groups[first] = node, max(groups.get(first, (0, 1, 0))[1], local + 1), size

    def placed(record: Record) -> Record:
        """Return a record with the rank of its nearest ancestor that has one."""
        local, at, seen = 0, (record.kernel, record.pid), set()
        while record.rank is None and at in by_pid and at not in seen:
            if at in groups:
                node, here, size = groups[at]
                return replace(record, rank=node * here + local, world_size=size, local_rank=local, node=node)
            seen.add(at)
            above = (record.kernel, by_pid[at].ppid)
            told = _told(by_pid[at])
            if above in groups and told is not None:
                local = told[0]
            at = above
        return record

    return list(map(placed, found))


def _told(record: Record) -> tuple[int, int, int] | None:
    """Return local rank, node and number of ranks at start: Lightning removes ``WORLD_SIZE`` at the end."""
    if record.rank is not None:
        return None
    given = [record.environment_at_start.get(name, "") for name in ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE")]
    if not all(map(is_number, given)):
        return None
    local, node, size = map(int, given)
    return local, node, size
