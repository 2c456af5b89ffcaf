"""``model.fit`` of Keras on JAX, with a callback and validation."""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np


class Patience(keras.callbacks.Callback):
    """Notes the loss after each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self.losses.append((logs or {})["loss"])


def main() -> None:
    keras.utils.set_random_seed(4)
    rng = np.random.default_rng(4)
    inputs = rng.normal(size=(4000, 32)).astype("float32")
    labels = (inputs[:, :4].sum(axis=1) > 0).astype("int32")
    model = keras.Sequential(
        [
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(2),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    noted = Patience()
    model.fit(inputs, labels, batch_size=32, epochs=6, validation_split=0.1, verbose=0, callbacks=[noted])
    print(f"loss {noted.losses[-1]:.4f} after {len(noted.losses)} batches")


if __name__ == "__main__":
    main()
