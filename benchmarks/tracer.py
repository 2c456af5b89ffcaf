"""What tracing adds to a program, against what cProfile adds: ``python -m benchmarks.tracer [VERSION…]``.

Whole processes: one without a profiler, one under cProfile's collector and one under ours run in turn, and the
figure is the median of (ours − plain) / (cProfile's − plain). Reading cProfile's result at the end is part of it;
ours is in a mapped file by then. The run-queue wait is measured, too. The training step needs NumPy:
``PROFKIT_TEST_PYTHONS`` names interpreters that have it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path

from benchmarks.__main__ import CALL_HEAVY
from benchmarks.measuring import seconds
from tests import shared
from tests.integration.tracing import binary_for
from tests.interpreters import find, having

#: Most that ours may add, as a part of what cProfile adds.
BAR = 1.0

DEEP_RECURSION = """
import sys
sys.setrecursionlimit(20000)

def down(n):
    return 0 if n == 0 else 1 + down(n - 1)

for _ in range(700):
    down(2000)
"""

BUILT_INS = """
def fill(n):
    items = []
    for i in range(n):
        items.append(i)
        len(items)
        isinstance(i, int)

fill(400_000)
"""

TRAINING = """
import numpy as np

random = np.random.default_rng(0)

class Linear:
    def __init__(self, n, m):
        self.w, self.b = random.normal(size=(n, m)) * 0.1, np.zeros(m)

    def forward(self, x):
        self.x = x
        return x @ self.w + self.b

    def backward(self, g):
        self.gw, self.gb = self.x.T @ g, g.sum(axis=0)
        return g @ self.w.T

    def step(self, rate):
        self.w -= rate * self.gw
        self.b -= rate * self.gb

def relu(x):
    return np.maximum(x, 0.0)

def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)

def train_step(layers, x, y):
    active, h = [], x
    for layer in layers[:-1]:
        h = relu(layer.forward(h))
        active.append(h)
    p = softmax(layers[-1].forward(h))
    g = p.copy()
    g[np.arange(len(y)), y] -= 1
    g = layers[-1].backward(g / len(y))
    for layer, a in zip(reversed(layers[:-1]), reversed(active)):
        g = layer.backward(g * (a > 0))
    for layer in layers:
        layer.step(0.1)
    return -np.log(p[np.arange(len(y)), y].clip(1e-9)).mean()

layers = [Linear(16, 32), Linear(32, 32), Linear(32, 4)]
x, y = random.normal(size=(32, 16)), random.integers(0, 4, size=32)
for _ in range(6000):
    train_step(layers, x, y)
"""

PROGRAMS = {
    "calls and nothing else": CALL_HEAVY,
    "a deep recursion": DEEP_RECURSION,
    "built-in functions": BUILT_INS,
    "training steps with NumPy": TRAINING,
}

#: ``DRIVER HOW BINARY PROGRAM``, in the target's interpreter.
DRIVER = """
import importlib.util, sys
how, binary, program = sys.argv[1:]
code = compile(open(program).read(), program, "exec")
collector = None
if how == "cprofile":
    import _lsprof
    collector = _lsprof.Profiler(subcalls=True, builtins=True)
elif how == "ours":
    name = binary.rpartition("/")[2].partition(".")[0]
    spec = importlib.util.spec_from_file_location(name, binary)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tables = program + ".tables"
    open(tables, "wb").close()
    assert module.map_tables(tables, "/nowhere/", -1)
    collector = module.Collector()
if collector:
    collector.enable()
exec(code, {"__name__": "__main__"})
if collector:
    collector.disable()
    if how == "cprofile":
        collector.getstats()
"""


def measure(version: str, python: str, name: str, work: Path, repeats: int) -> str:
    """Run one program in all three ways, `repeats` times; return its row."""
    (work / "driver.py").write_text(DRIVER)
    (work / "program.py").write_text(PROGRAMS[name])
    binary = str(binary_for(version))
    commands = [[python, "driver.py", how, binary, "program.py"] for how in ("plain", "cprofile", "ours")]
    for command in commands:
        seconds(command, work)
    rows = [[seconds(command, work) for command in commands] for _ in range(repeats)]
    plain, theirs, ours = (statistics.median(column) * 1e3 for column in zip(*rows, strict=True))
    ratios = sorted((c - a) / (b - a) for a, b, c in rows)
    ratio = statistics.median(ratios)
    met = "met" if ratio <= BAR else "MISSED"
    return (
        f"{version:<5} {name:<28} {plain:8.1f} {theirs - plain:9.1f} {ours - plain:9.1f} "
        f"{ratio:6.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})  ≤ {BAR:g} {met}"
    )


def main() -> None:
    """Measure the versions that were asked for, or those of the bar."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tracer", description=__doc__)
    parser.add_argument("versions", nargs="*", default=["3.11", "3.12", "3.13"], help="such as 3.12")
    parser.add_argument("--repeats", type=int, default=7, help="rounds a figure (default: %(default)s)")
    options = parser.parse_args()
    print(f"{'':<5} {'':<28} {'plain/ms':>8} {'cProfile+':>9} {'ours+':>9}  ratio of what is added")
    with tempfile.TemporaryDirectory() as directory:
        os.environ[shared.VARIABLE] = directory  # for the tracers that are compiled
        for version in options.versions:
            if find(version) is None:
                print(f"{version:<5} no such interpreter on this machine")
                continue
            for name in PROGRAMS:
                with_numpy = having("numpy", version)
                python = with_numpy or str(find(version))
                if name.endswith("NumPy") and with_numpy is None:
                    print(f"{version:<5} {name:<28} no NumPy there")
                    continue
                print(measure(version, python, name, Path(directory), options.repeats), flush=True)


if __name__ == "__main__":
    main()
