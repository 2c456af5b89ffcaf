"""Data-parallel training under MPI: each rank learns from its own shard, Allreduce averages the gradients.

A residual network of dense layers in NumPy; batches, forward, backward, communication and optimiser steps
are NVTX ranges where the ``nvtx`` package is installed::

    mpirun -n 2 python mpi_train.py
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

try:
    import nvtx
except ImportError:
    nvtx = None

Array = npt.NDArray[np.float32]


class Tape(NamedTuple):
    """What the forward pass keeps for the backward pass: the input of every layer, and the prediction."""

    inputs: list[Array]
    output: Array


@contextlib.contextmanager
def phase(name: str, colour: str) -> Iterator[None]:
    """Mark a phase of a step for profilers that understand NVTX."""
    if nvtx is None:
        yield
        return
    nvtx.push_range(name, color=colour)
    try:
        yield
    finally:
        nvtx.pop_range()


class Model:
    """Dense layers with residual connections; predicts one number per row."""

    def __init__(self, width: int, depth: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        scale = 0.5 / width**0.5
        self.layers = [rng.normal(0, scale, (width, width)).astype(np.float32) for _ in range(depth)]
        self.head = rng.normal(0, 1 / width**0.5, (width, 1)).astype(np.float32)

    def parameters(self) -> list[Array]:
        """Return the arrays that are learned."""
        return [*self.layers, self.head]


def forward(model: Model, x: Array) -> Tape:
    """Run the network."""
    inputs = [x]
    for layer in model.layers:
        inputs.append(inputs[-1] + np.tanh(inputs[-1] @ layer))
    return Tape(inputs, inputs[-1] @ model.head)


def backward(model: Model, tape: Tape, y: Array) -> list[Array]:
    """Return the gradients of the mean squared error, in the order of the parameters."""
    error = 2 * (tape.output - y) / np.float32(len(y))
    gradients = [tape.inputs[-1].T @ error]
    flowing = error @ model.head.T
    for layer, x, result in zip(
        reversed(model.layers), reversed(tape.inputs[:-1]), reversed(tape.inputs[1:]), strict=True
    ):
        activation = result - x
        inner = flowing * (1 - activation**2)
        gradients.append(x.T @ inner)
        flowing = flowing + inner @ layer.T
    return gradients[::-1]


def flatten(arrays: list[Array]) -> Array:
    """Put all gradients in one buffer, so that one message carries them."""
    return np.concatenate([array.ravel() for array in arrays])


def unflatten(buffer: Array, shapes: list[tuple[int, ...]]) -> list[Array]:
    """Cut the buffer back into arrays."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(buffer, ends[:-1]), shapes, strict=True)]


def average_gradients(gradients: list[Array], world: MPI.Comm) -> list[Array]:
    """Average over all ranks."""
    buffer = flatten(gradients)
    world.Allreduce(MPI.IN_PLACE, buffer, op=MPI.SUM)
    buffer /= np.float32(world.Get_size())
    return unflatten(buffer, [gradient.shape for gradient in gradients])


class Momentum:
    """Gradient descent with momentum and decoupled weight decay."""

    def __init__(self, parameters: list[Array], rate: float) -> None:
        self.velocity = [np.zeros_like(p) for p in parameters]
        self.rate = np.float32(rate)

    def step(self, parameters: list[Array], gradients: list[Array]) -> None:
        """Move all parameters."""
        for p, g, v in zip(parameters, gradients, self.velocity, strict=True):
            v *= np.float32(0.9)
            v += g
            p *= np.float32(1 - 1e-5)
            p -= self.rate * v


class Shard:
    """The rows that belong to one rank."""

    def __init__(self, rows: int, width: int, rank: int) -> None:
        truth = np.random.default_rng(5).normal(0, 1, (width, 1)).astype(np.float32)
        self.rng = np.random.default_rng(100 + rank)
        self.x = self.rng.normal(0, 1, (rows, width)).astype(np.float32)
        self.y = np.sin(self.x @ truth / np.float32(width**0.5)).astype(np.float32)

    def batch(self, size: int) -> tuple[Array, Array]:
        """Draw a batch and disturb it."""
        rows = self.rng.integers(0, len(self.x), size)
        x = self.x[rows]
        x += self.rng.normal(0, 0.01, x.shape).astype(np.float32)
        return x, self.y[rows]


def train(options: argparse.Namespace, world: MPI.Comm) -> float:
    """Train; return the last loss, averaged over the ranks."""
    model = Model(options.width, options.depth, seed=1)
    parameters = model.parameters()
    optimiser = Momentum(parameters, 2e-3)
    shard = Shard(4096, options.width, world.Get_rank())
    loss = np.zeros(1)
    for _ in range(options.steps):
        with phase("load", "yellow"):
            x, y = shard.batch(options.batch)
        with phase("forward", "green"):
            tape = forward(model, x)
        with phase("backward", "red"):
            gradients = backward(model, tape, y)
        with phase("allreduce", "purple"):
            gradients = average_gradients(gradients, world)
        with phase("optimiser", "blue"):
            optimiser.step(parameters, gradients)
        loss[0] = float(((tape.output - y) ** 2).mean())
    world.Allreduce(MPI.IN_PLACE, loss)
    return float(loss[0]) / world.Get_size()


def main() -> None:
    """Train on all ranks; the first one reports."""
    parser = argparse.ArgumentParser(description="Data-parallel training with MPI.")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--depth", type=int, default=4)
    world = MPI.COMM_WORLD
    loss = train(parser.parse_args(), world)
    if world.Get_rank() == 0:
        print(f"{world.Get_size()} ranks, loss {loss:.4f}")


if __name__ == "__main__":
    main()
