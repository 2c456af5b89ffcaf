"""Functions that wait by design, for ranks or for a GPU, that read, and that only compute, known by name."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Callable

from profkit.identity.readable_names import readable_name
from profkit.model import STDLIB


def is_native(name: str) -> bool:
    """Return whether a name is a native function's; module bodies and lambdas have such names too."""
    return name.startswith("<")


def _native(pattern: str) -> Callable[[str], bool]:
    """Return a predicate of names: whether a function is native, and its name has a pattern."""
    search = re.compile(pattern).search
    return lambda name: is_native(name) and search(name) is not None


#: Whether a native function waits by design; its time and calls follow the speed of everything else. The pattern
#: names types, since other types compute in methods of the same name (``str.join``, ``dict.get``).
_waits = _native(
    r"[.' ](?:acquire|poll|epoll_wait|kqueue|select|sleep|nanosleep|recv\w*|_?accept|connect|fsync|fdatasync|flock|"
    r"wait\w*|sigtimedwait|posix\.p?readv?|nt\.read|WaitFor\w+|GetOverlappedResult)[' >]"
    r"|'(?:get|put)' of '_queue\.|'__enter__' of '_(?:multiprocessing|thread)\."
    r"|'read\w*' of '_io\.|'join' of '_thread|'(?:read|do_handshake)' of '_ssl\."
)
#: Whether a native function that may wait reads a file, a pipe or a socket.
reads_files = _native(
    r"'read\w*' of '_io\.|[. ](?:posix\.p?readv?|nt\.read|numpy\.fromfile)>|'recv\w*' of|'read' of '_ssl\."
    r"|'get_record\w*' of 'torch\._C\.PyTorchFileReader'"
)
#: Whether a native function waits until files are in storage; the kernel computes meanwhile.
_syncs_files = _native(r"[. ]posix\.f(?:data)?sync>|'commit' of '_?sqlite3\.")
#: Whether a native function waits for a peer, storage or a file's lock, whatever threads the program started: for
#: what no thread or process of most programs ends.
waits_outside = _native(r"' of '_?(?:socket\.|ssl\.)|[. ](?:f(?:data)?sync|flock)>")
#: Whether a native function waits for other ranks: MPI calls, which spin or sleep depending on the library.
waits_for_ranks = _native(
    r"(?:mpi4py\.|'mpi4py)|\bMPI\.|torch\._C\._distributed_c10d|'(?:allreduce|allgather|broadcast|barrier|reduce_scatter)'"
    r" of 'torch"
)
#: Whether a native function waits for a GPU, in a program that uses one: it returns when the GPU has done the work
#: that others started; the driver polls.
waits_for_gpu = _native(
    r"'(?:item|cpu|tolist|nonzero|__bool__|is_nonzero)' of 'torch\._C\.\w*Tensor\w*'|[. ]_cuda_synchronize>"
    r"|'synchronize' of 'torch\._C\._Cuda(?:Stream|Event)"
)

#: Python functions that only wait; those of a pool's threads loop over blocking calls of native iterators,
#: which no profile shows.
_WAITS = frozenset(
    (
        *("wait", "_wait", "_wait_for_tstate_lock", "sleep", "_handle_workers", "_handle_tasks"),
        *("_handle_results", "SemLock.__enter__", "Condition.__enter__"),
    )
)
#: Native modules of the standard library that compute in the calling thread, and wait for nothing.
_COMPUTE = re.compile(
    r"_?(?:bisect|blake2|bz2|collections|csv|datetime|decimal|elementtree|hashlib|heapq|json|lzma|md5|pickle|random)"
    r"|_sha\d+|_sre|_struct|array|binascii|c?math|functools|itertools|marshal|pyexpat|re|unicodedata|zlib"
)
#: Built-in functions that may do anything.
_NOT_ALONE = frozenset(("__import__", "breakpoint", "compile", "eval", "exec", "input", "open", "print"))


def is_wait(name: str, root: str) -> bool:
    """Return whether a function waits by design; only native and standard library functions count."""
    if is_native(name):
        return _waits(name)
    return root == STDLIB and (name in _WAITS or name.rpartition(".")[2] in _WAITS)


def only_waits(name: str, root: str, *, measured: bool) -> bool:
    """Return whether a function waits by design; to read or write takes CPU time too, where that is `measured`."""
    return is_wait(name, root) and not (measured and also_computes(name))


def also_computes(name: str) -> bool:
    """Return whether a native function that may wait takes CPU time too: it reads, or writes to storage."""
    return reads_files(name) or _syncs_files(name)


def of_interpreter(name: str) -> bool:
    """Return whether a function is native, and Python's own: it has no threads besides the one that calls it."""
    first, _, rest = readable_name(name).partition(".")
    return is_native(name) and bool(rest) and (first in sys.stdlib_module_names or hasattr(builtins, first))


def only_computes(name: str) -> bool:
    """Return whether a native function of Python computes in the calling thread, and waits for nothing."""
    first, _, rest = readable_name(name).partition(".")
    if first == "builtins":
        return rest not in _NOT_ALONE
    return bool(rest) and (_COMPUTE.fullmatch(first) is not None or hasattr(builtins, first))
