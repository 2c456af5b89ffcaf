"""Uses every way that the nvtx package has to name what a program does."""

import threading
import time

import nvtx


@nvtx.annotate("decorated", color="green", category="work", payload=7)
def decorated():
    time.sleep(0.002)


def module_functions():
    for step in range(5):
        with nvtx.annotate(f"step {step}", color="blue"):
            with nvtx.annotate("forward"):
                decorated()
            nvtx.push_range("backward", payload=step / 2)
            time.sleep(0.001)
            nvtx.pop_range()
    nvtx.mark("finished", color="red", category="work")


def across_threads():
    started = nvtx.start_range("handed over", color="yellow")

    def other():
        time.sleep(0.002)
        nvtx.end_range(started)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()


def domain_api():
    domain = nvtx.get_domain("my library")
    attributes = domain.get_event_attributes("store", color="cyan", category="disk", payload=3)
    domain.push_range(attributes)
    domain.pop_range()
    domain.end_range(domain.start_range(attributes))
    domain.mark(attributes)
    with nvtx.annotate("in a domain", domain="my library"):
        pass


def unbalanced():
    nvtx.pop_range()
    nvtx.push_range("leaked")


module_functions()
across_threads()
domain_api()
unbalanced()
