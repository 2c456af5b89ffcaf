"""Steps that PyTorch compiles, in the main thread and in two others; one function breaks its graph.

``torch_compiled.py BACKEND…`` prints for each the results and what the compiler counted, as a JSON object.
"""

import _thread
import json
import sys
import threading

import torch
from torch._dynamo.utils import counters


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x):
        return scaled(self.two(torch.relu(self.one(x)))) + x


def scaled(x):
    return x * 2 + 1


def breaks(x):
    y = x.sin()
    print("", end="")
    return y.cos()


def by_hand():
    pass


def by_thread():
    pass


def training_step(compiled, optimizer, x):
    optimizer.zero_grad()
    loss = (compiled(x) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def compiled_by(backend):
    torch.manual_seed(3)
    model = Block()
    compiled = torch.compile(model, backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(4, 8)
    results = [training_step(compiled, optimizer, x) for _ in range(5)]
    broken = torch.compile(breaks, backend=backend)
    results += [broken(torch.ones(size)).sum().item() for size in (3, 4, 5)]
    done = _thread.allocate_lock()
    done.acquire()

    def alone(function):
        for _ in range(100):
            function()
        results.append(compiled(x).sum().item())

    def started_by_hand():
        alone(by_hand)
        done.release()

    _thread.start_new_thread(started_by_hand, ())
    done.acquire()
    thread = threading.Thread(target=alone, args=(by_thread,))
    thread.start()
    thread.join()
    names = ("frames", "graph_break", "stats", "recompiles")
    print(json.dumps({"results": results, "counted": {name: dict(counters[name]) for name in names}}))


torch.set_num_threads(1)
for backend in sys.argv[1:]:
    compiled_by(backend)
    torch._dynamo.reset()
    counters.clear()
