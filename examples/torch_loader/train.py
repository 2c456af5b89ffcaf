"""Train a small convolutional network in PyTorch on images that `DataLoader` workers augment.

Every epoch prints its throughput in images/s. The augmentation multiplies matrices in NumPy, whose BLAS starts as
many threads as CPUs in each worker, beside the threads of PyTorch in the main process.
"""

import argparse
import time

import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE = 64


class Whitened(Dataset):
    """Random images, shape (3, SIDE, SIDE) float32, decorrelated with a matrix as ZCA whitening does."""

    def __init__(self, count: int) -> None:
        random = numpy.random.default_rng(0)
        self.images = random.integers(0, 256, (count, 3, SIDE, SIDE), dtype=numpy.uint8)
        self.labels = random.integers(0, 10, count)
        self.rotation = random.normal(size=(SIDE * SIDE, 256)).astype(numpy.float32)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = self.images[index].astype(numpy.float32) / 255
        return torch.from_numpy(self.whiten(image - image.mean())), int(self.labels[index])

    def whiten(self, image: numpy.ndarray) -> numpy.ndarray:
        """Take the part of the image that the matrix spans out of it, and add a little of it again."""
        flat = image.reshape(3, SIDE * SIDE)
        part = (flat @ self.rotation) @ self.rotation.T
        return (flat - 1e-4 * part).reshape(3, SIDE, SIDE)


def network() -> nn.Module:
    """Three convolutions and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def main() -> None:
    """Train, and print the throughput of each epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--images", type=int, default=768)
    parser.add_argument("--epochs", type=int, default=2)
    given = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(
        Whitened(given.images),
        batch_size=given.batch_size,
        shuffle=True,
        num_workers=given.workers,
        persistent_workers=given.workers > 0,
    )
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of = nn.CrossEntropyLoss()
    for epoch in range(given.epochs):
        begin = time.perf_counter()
        for images, labels in loader:
            optimizer.zero_grad()
            loss = loss_of(model(images), labels)
            loss.backward()
            optimizer.step()
        seconds = time.perf_counter() - begin
        print(f"epoch {epoch}: loss {loss.item():.3f}, {given.images / seconds:.1f} images/s", flush=True)


if __name__ == "__main__":
    main()
