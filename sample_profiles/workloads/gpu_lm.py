"""Train a small language model on a GPU, whose work is started long before the program waits for it::

python gpu_lm.py --batch-size 16
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
import torch
from torch import nn
from torch.cuda import nvtx
from torch.utils.data import DataLoader, Dataset

WORDS, LENGTH, WIDTH, DEPTH = 8192, 512, 1024, 12

Pair = tuple[torch.Tensor, torch.Tensor]


class Text(Dataset[Pair]):
    """Pieces of a random text; each is given with the words that follow."""

    def __init__(self, pieces: int) -> None:
        self.words = np.random.default_rng(0).integers(0, WORDS, LENGTH * pieces + 1)
        self.pieces = pieces

    def __len__(self) -> int:
        return self.pieces

    def __getitem__(self, index: int) -> Pair:
        piece = torch.from_numpy(self.words[index * LENGTH : (index + 1) * LENGTH + 1])
        return piece[:-1], piece[1:]


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Attend to earlier words; shapes (batch, heads, words, width of a head)."""
    return nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)


class Block(nn.Module):
    """Attention and a perceptron, each with a way around it."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.inputs, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.perceptron = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        parts = self.inputs(self.before(words)).chunk(3, 2)
        query, key, value = (part.unflatten(2, (16, -1)).transpose(1, 2) for part in parts)
        words = words + self.output(attend(query, key, value).transpose(1, 2).flatten(2))
        return words + self.perceptron(self.between(words))


def train_step(
    model: nn.Module, optimiser: torch.optim.Optimizer, words: torch.Tensor, following: torch.Tensor
) -> float:
    """Learn from a batch; return its loss, for which the program waits."""
    with nvtx.range("forward"), torch.autocast("cuda", torch.bfloat16):
        loss = nn.functional.cross_entropy(model(words).flatten(0, 1), following.flatten())
    optimiser.zero_grad()
    with nvtx.range("backward"):
        loss.backward()
    with nvtx.range("optimiser"):
        optimiser.step()
    return loss.item()


def main() -> None:
    """Train, and print the loss and the throughput."""
    parser = argparse.ArgumentParser(description="Training of a language model on a GPU.")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(
        Text(options.steps * options.batch_size), options.batch_size, num_workers=2, pin_memory=True
    )
    blocks = [Block() for _ in range(DEPTH)]
    model = nn.Sequential(nn.Embedding(WORDS, WIDTH), *blocks, nn.Linear(WIDTH, WORDS)).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    losses, begin = [], math.nan
    with nvtx.range("training"):
        for words, following in loader:
            begin = time.perf_counter() if not losses else begin
            with nvtx.range("step"):
                losses.append(train_step(model, optimiser, words.cuda(), following.cuda()))
    rate = (len(losses) - 1) / (time.perf_counter() - begin)
    print(f"loss {losses[-1]:.3f}, {rate:.1f} steps/s")


if __name__ == "__main__":
    main()
