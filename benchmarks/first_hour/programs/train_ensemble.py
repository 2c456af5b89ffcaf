"""An ensemble: each member is trained in a process of its own."""

import argparse

import torch
import torch.multiprocessing as mp
from torch import nn

FEATURES, CLASSES, BATCH = 256, 10, 64


def make_data(seed, batches):
    """Noisy points around one centre per class."""
    source = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(0, CLASSES, (batches, BATCH), generator=source)
    points = centres[labels] + 3 * torch.randn(batches, BATCH, FEATURES, generator=source)
    return points, labels


def make_model():
    return nn.Sequential(
        nn.Linear(FEATURES, 512),
        nn.BatchNorm1d(512),
        nn.ReLU(),
        nn.Linear(512, 512),
        nn.ReLU(),
        nn.Linear(512, CLASSES),
    )


def train(model, points, labels, epochs):
    """Return the loss of the last batch."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for batch, expected in zip(points, labels, strict=True):
            loss = nn.functional.cross_entropy(model(batch), expected)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return loss.item()


def run_member(seed, threads, epochs, results):
    """What one process does."""
    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(seed)
    points, labels = make_data(seed, 80)
    results.put((seed, train(make_model(), points, labels, epochs)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0, help="of each member; 0: PyTorch's default")
    parser.add_argument("--epochs", type=int, default=4)
    options = parser.parse_args()
    results = mp.SimpleQueue()
    members = [
        mp.Process(target=run_member, args=(seed, options.threads, options.epochs, results))
        for seed in range(options.members)
    ]
    for member in members:
        member.start()
    for member in members:
        member.join()
    for _ in members:
        seed, loss = results.get()
        print(f"member {seed}: loss {loss:.3f}")


if __name__ == "__main__":
    main()
