"""A training step as people annotate it for GPUs, on whatever device there is; prints what the calls returned."""

import threading

import torch
from torch.cuda import nvtx
from torch.cuda.nvtx import range_pop, range_push


def step(model, x):
    range_push("forward")
    loss = model(x).square().mean()
    range_pop()
    with nvtx.range("backward {}", 1):
        loss.backward()


@nvtx.range("decorated")
def decorated():
    nvtx.mark("inside")


model, x = torch.nn.Linear(8, 2), torch.randn(4, 8)
for number in range(3):
    depth = torch.cuda.nvtx.range_push(f"step {number}")
    step(model, x)
    assert (depth, torch.cuda.nvtx.range_pop()) == (0, 0)
decorated()
started = nvtx.range_start("handed over")
thread = threading.Thread(target=nvtx.range_end, args=(started,))
thread.start()
thread.join()
with torch.autograd.profiler.emit_nvtx():
    model(x)
print("done", range_pop())
