"""Trains a small network on made-up digits with NumPy alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Layer:
    """A linear layer with its momentum."""

    def __init__(self, rng: np.random.Generator, inputs: int, outputs: int) -> None:
        self.weights = rng.normal(0, inputs**-0.5, (inputs, outputs))
        self.bias = np.zeros(outputs)
        self.speed = np.zeros_like(self.weights)

    def forward(self, inputs: Array) -> Array:
        self.inputs = inputs
        return inputs @ self.weights + self.bias

    def backward(self, gradient: Array, rate: float) -> Array:
        handed_down = gradient @ self.weights.T
        self.speed = 0.9 * self.speed - rate * self.inputs.T @ gradient
        self.weights += self.speed
        self.bias -= rate * gradient.sum(axis=0)
        return handed_down


def softmax(scores: Array) -> Array:
    """Return the probabilities of each row."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def batches(rng: np.random.Generator, inputs: Array, labels: Array, size: int) -> list[tuple[Array, Array]]:
    """Return one epoch in random order."""
    order = rng.permutation(len(inputs))
    return [(inputs[order[i : i + size]], labels[order[i : i + size]]) for i in range(0, len(order), size)]


def main() -> None:
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(4000, 196))
    labels = np.eye(10)[(inputs @ rng.normal(size=(196, 10))).argmax(axis=1)]
    layers = [Layer(rng, 196, 128), Layer(rng, 128, 10)]
    for _ in range(60):
        losses = []
        for some, wanted in batches(rng, inputs, labels, 50):
            hidden = np.tanh(layers[0].forward(some))
            found = softmax(layers[1].forward(hidden))
            losses.append(-np.log((found * wanted).sum(axis=1) + 1e-9).mean())
            gradient = layers[1].backward((found - wanted) / len(some), 0.05)
            layers[0].backward(gradient * (1 - hidden**2), 0.05)
    print(f"loss {np.mean(losses):.4f}")


if __name__ == "__main__":
    main()
