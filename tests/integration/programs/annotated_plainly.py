"""Uses what every version of the nvtx package has; payloads and the Domain API came later."""

import contextlib
import pickle
import threading

import nvtx


@nvtx.annotate("decorated", color="green", category="work")
def decorated():
    pass


@nvtx.annotate()
def unnamed():
    pass


@nvtx.annotate(domain="library", category=3)
def in_domain():
    raise KeyError("as some functions do")


for step in range(3):
    with nvtx.annotate(f"step {step}"):
        decorated()
        unnamed()
with contextlib.suppress(KeyError):
    in_domain()
with pickle.loads(pickle.dumps(nvtx.annotate("pickled", color="red", domain="library", category="disk"))):
    pass
nvtx.push_range("pushed", domain="library")
nvtx.pop_range(domain="library")
nvtx.pop_range()
nvtx.mark("here", category="work")
nvtx.mark()
started = nvtx.start_range("started")
thread = threading.Thread(target=nvtx.end_range, args=(started,))
thread.start()
thread.join()
nvtx.push_range("leaked", color=0x123456)
