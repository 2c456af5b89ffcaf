"""Writer of collapsed stacks: per line, frames from the outermost, separated by semicolons, and microseconds.

As in py-spy's output, processes and threads are the outermost frames. Waiting is a frame above its function.
"""

from __future__ import annotations

from collections.abc import Iterator

from profkit.errors import FormatError
from profkit.formats.export.stack_tree import contexts_of, not_held, place_of
from profkit.formats.export.timeline import Export, process_label
from profkit.model import Process, Profile, Run, Thread
from profkit.model.surrogates import spelled_out

#: Characters that end a frame or line, with their replacements.
_PLAIN = str.maketrans({";": ",", **dict.fromkeys("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", " ")})


def collapsed_stacks(run: Run) -> Export:
    """Lay out the self times of all threads; raise `FormatError` if none rounds to a microsecond."""
    lines: dict[str, float] = {}
    for process, thread in run.threads:
        for stack, seconds in _stacks(process, thread):
            lines[stack] = lines.get(stack, 0.0) + seconds * 1e6
    whole = {stack: round(weight) for stack, weight in lines.items()}
    if not any(whole.values()):
        raise FormatError(run.path, "holds no functions to write")
    left_out = list(not_held(run, stacks=True, waiting=True))
    if short := sum(not weight for weight in whole.values()):
        left_out.append(f"{short:,} stacks with less than half a microsecond")
    chunks = (f"{stack} {weight}\n".encode() for stack, weight in whole.items() if weight)
    return Export(chunks, tuple(left_out))


def _frame(profile: Profile, row: int) -> str:
    name, file, line = place_of(profile, row)
    return spelled_out(f"{name} ({file}:{line})" if file else name).translate(_PLAIN)


def _stacks(process: Process, thread: Thread) -> Iterator[tuple[str, float]]:
    who = f"process {process.pid}:{process_label(process)}" if process.pid else process_label(process)
    what = f'thread ({thread.tid}): "{thread.name}"' if thread.tid is not None else thread.name
    outer = ";".join(spelled_out(part).translate(_PLAIN) for part in (who, what) if part)
    contexts = contexts_of(thread)
    stacks: list[str] = []
    rows = zip(contexts.parent.tolist(), contexts.function.tolist(), strict=True)
    for at, (parent, row) in enumerate(rows):
        stacks.append(f"{stacks[parent] if parent >= 0 else outer};{_frame(thread.profile, row)}")
        for above, seconds in contexts.parts(at):
            yield f"{stacks[at]};{above}" if above else stacks[at], seconds
