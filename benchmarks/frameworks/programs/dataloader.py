"""Trains a small PyTorch network on images that two loader processes make."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    """Made-up pictures, each with some noise of its own."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        noise = torch.Generator().manual_seed(index)
        picture = torch.randn(1, 28, 28, generator=noise)
        label = index % 10
        picture[0, label * 2 : label * 2 + 4] += 2
        return (picture - picture.mean()) / picture.std(), label


def main() -> None:
    torch.manual_seed(5)
    torch.set_num_threads(1)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 13 * 13, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):
        for pictures, labels in DataLoader(Shapes(3000), batch_size=32, num_workers=2, shuffle=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(pictures), labels)
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
