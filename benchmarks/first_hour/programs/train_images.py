"""Train a small convolutional network on PNG files that a DataLoader's workers read and decode."""

import argparse
import io
import time

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIZE, CLASSES = 48, 8


class Share:
    """A network share: each read takes its latency before the first byte comes."""

    def __init__(self, files, latency):
        rng = np.random.default_rng(5)
        self.latency = latency
        self.files = []
        for _ in range(files):
            pixels = rng.integers(0, 255, (96, 96, 3), dtype=np.uint8)
            file = io.BytesIO()
            Image.fromarray(pixels).save(file, "PNG")
            self.files.append(file.getvalue())

    def read(self, number):
        time.sleep(self.latency)
        return self.files[number % len(self.files)]


class Images(Dataset):
    """Decoded, resized and normalised images with a class."""

    def __init__(self, share, images):
        self.share, self.images = share, images

    def __len__(self):
        return self.images

    def decode(self, data):
        image = Image.open(io.BytesIO(data)).convert("RGB").resize((SIZE, SIZE), Image.BILINEAR)
        return torch.from_numpy(np.asarray(image, dtype=np.float32).transpose(2, 0, 1) / 255 - 0.5)

    def __getitem__(self, number):
        return self.decode(self.share.read(number)), number % CLASSES


def make_model():
    return nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(24, 48, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(48 * 16, CLASSES),
    )


def train_epoch(model, loader, optimiser):
    """One pass over the images; the mean loss."""
    losses = []
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--share-latency", type=float, default=0.5, help="milliseconds for one file")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--images", type=int, default=768)
    options = parser.parse_args()
    torch.manual_seed(0)
    images = Images(Share(256, options.share_latency / 1e3), options.images)
    loader = DataLoader(images, batch_size=16, num_workers=2, shuffle=True)
    model = make_model()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(options.epochs):
        print(f"epoch {epoch}: loss {train_epoch(model, loader, optimiser):.3f}")


if __name__ == "__main__":
    main()
