"""Train a convolutional network on a GPU, fed by `DataLoader` workers that augment images in NumPy.

The phases of a step are NVTX ranges, as people annotate them for Nsight Systems; every epoch prints its throughput::

    python gpu_train.py --workers 4
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.cuda import nvtx
from torch.utils.data import DataLoader, Dataset

SIDE = 64

Image = npt.NDArray[np.float32]


class Augmented(Dataset[tuple[torch.Tensor, int]]):
    """Random images, shape (3, SIDE, SIDE) float32, shifted and whitened with a matrix."""

    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(0)
        self.images = rng.integers(0, 256, (count, 3, SIDE, SIDE), dtype=np.uint8)
        self.labels = rng.integers(0, 10, count)
        self.basis = np.linalg.qr(rng.normal(size=(SIDE * SIDE, 256)))[0].astype(np.float32)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = self.images[index].astype(np.float32) / 255
        return torch.from_numpy(whiten(shift(image, index), self.basis)), int(self.labels[index])


def shift(image: Image, by: int) -> Image:
    """Move an image by some pixels, around its edges."""
    return np.roll(image, (by % 7, by % 5), axis=(1, 2))


def whiten(image: Image, basis: Image) -> Image:
    """Damp what a basis spans of an image."""
    flat = image.reshape(3, SIDE * SIDE)
    return (flat - 0.9 * (flat @ basis) @ basis.T).reshape(3, SIDE, SIDE)


def network(width: int) -> nn.Module:
    """Convolutions and a linear layer."""
    layers: list[nn.Module] = []
    channels = 3
    for stage in range(4):
        following = width << stage
        layers += [
            nn.Conv2d(channels, following, 3, stride=2, padding=1),
            nn.BatchNorm2d(following),
            nn.ReLU(),
        ]
        layers += [nn.Conv2d(following, following, 3, padding=1), nn.BatchNorm2d(following), nn.ReLU()]
        channels = following
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def train_step(
    model: nn.Module, optimiser: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Learn from a batch; return its loss."""
    with nvtx.range("copy"):
        images = images.cuda(non_blocking=True)
        labels = labels.cuda(non_blocking=True)
    optimiser.zero_grad()
    with nvtx.range("forward"):
        loss = nn.functional.cross_entropy(model(images), labels)
    with nvtx.range("backward"):
        loss.backward()
    with nvtx.range("optimiser"):
        optimiser.step()
    return loss.detach()


def main() -> None:
    """Train, and print the throughput of each epoch."""
    parser = argparse.ArgumentParser(description="Training on a GPU with a DataLoader.")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(
        Augmented(options.images),
        options.batch_size,
        shuffle=True,
        num_workers=options.workers,
        persistent_workers=True,
        pin_memory=True,
    )
    model = network(options.width).cuda()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    with nvtx.range("training"):
        for epoch in range(options.epochs):
            begin = time.perf_counter()
            with nvtx.range("epoch"):
                for images, labels in loader:
                    loss = train_step(model, optimiser, images, labels)
                last = loss.item()
            seconds = time.perf_counter() - begin
            print(f"epoch {epoch}: loss {last:.3f}, {options.images / seconds:.0f} images/s", flush=True)


if __name__ == "__main__":
    main()
