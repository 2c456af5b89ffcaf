"""Fits a small network with JAX: compiled steps, and an optimiser in Python over a tree of parameters."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def network(parameters: list[dict[str, jax.Array]], inputs: jax.Array) -> jax.Array:
    """Return what the network makes of a batch."""
    for layer in parameters[:-1]:
        inputs = jnp.tanh(inputs @ layer["w"] + layer["b"])
    return inputs @ parameters[-1]["w"] + parameters[-1]["b"]


def loss(parameters: list[dict[str, jax.Array]], inputs: jax.Array, wanted: jax.Array) -> jax.Array:
    """Return the mean square error."""
    return jnp.mean((network(parameters, inputs) - wanted) ** 2)


def main() -> None:
    keys = jax.random.split(jax.random.key(2), 6)
    sizes = [16, 64, 64, 1]
    parameters = [
        {"w": jax.random.normal(key, (a, b)) * a**-0.5, "b": jnp.zeros(b)}
        for key, a, b in zip(keys, sizes, sizes[1:], strict=False)
    ]
    inputs = jax.random.normal(keys[-2], (2048, 16))
    wanted = jnp.sin(inputs).sum(axis=1, keepdims=True)
    step = jax.jit(jax.value_and_grad(loss))
    for _ in range(25):
        for begin in range(0, 2048, 64):
            error, gradient = step(parameters, inputs[begin : begin + 64], wanted[begin : begin + 64])
            parameters = jax.tree.map(lambda value, slope: value - 0.05 * slope, parameters, gradient)
    print(f"loss {float(error):.3f}")


if __name__ == "__main__":
    main()
