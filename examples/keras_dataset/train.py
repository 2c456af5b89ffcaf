"""Train a Keras 3 model on a `PyDataset` whose workers resample spectra.

``PyDataset(workers=N, use_multiprocessing=True)`` starts N processes; in each, NumPy's BLAS takes as many threads as
CPUs.
"""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy

LENGTH = 1024
CLASSES = 8


class Spectra(keras.utils.PyDataset):
    """Batches of spectra, shape (batch, LENGTH / 4) float32, made when they are asked for."""

    def __init__(self, batches: int, batch_size: int, **options: object) -> None:
        super().__init__(**options)
        self.batches, self.batch_size = batches, batch_size
        x = numpy.linspace(0, 1, LENGTH)
        distance = x[:, None] - x[None, ::4]
        self.kernel = numpy.exp(-((distance / 0.01) ** 2)).astype(numpy.float32)

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, index: int) -> tuple[numpy.ndarray, numpy.ndarray]:
        random = numpy.random.default_rng(index)
        labels = random.integers(0, CLASSES, self.batch_size)
        times = numpy.linspace(0, 1, LENGTH, dtype=numpy.float32)
        waves = numpy.sin(2 * numpy.pi * (8 + 8 * labels[:, None]) * times)
        noisy = waves + random.normal(0, 0.5, waves.shape).astype(numpy.float32)
        return self.resample(noisy), labels

    def resample(self, waves: numpy.ndarray) -> numpy.ndarray:
        """Smooth and thin out: shape (batch, LENGTH) to (batch, LENGTH / 4)."""
        for _ in range(12):
            thin = waves @ self.kernel
        return thin.astype(numpy.float32)


def main() -> None:
    """Train for some epochs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batches", type=int, default=120)
    given = parser.parse_args()
    keras.utils.set_random_seed(0)
    data = Spectra(
        given.batches, 128, workers=given.workers, use_multiprocessing=given.workers > 1, max_queue_size=16
    )
    model = keras.Sequential(
        [
            keras.layers.Input((LENGTH // 4,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(CLASSES, activation="softmax"),
        ]
    )
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(data, epochs=given.epochs, verbose=2)
    print(f"accuracy {history.history['accuracy'][-1]:.3f}")


if __name__ == "__main__":
    main()
