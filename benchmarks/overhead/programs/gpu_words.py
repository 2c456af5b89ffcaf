"""Train a small language model on a GPU in steps that are many short kernels: ``python gpu_words.py ROUNDS``.

Most of such a step is the CPU's work, which starts the kernels.
"""

from __future__ import annotations

import sys

import torch
from torch import nn
from torch.cuda import nvtx

WORDS, WIDTH, LENGTH, BATCH = 512, 256, 128, 16
#: Steps of a round, about a second on an H100.
STEPS = 90


class Layer(nn.Module):
    """Attention and two linear layers, each behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.mix, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.grow, self.shrink = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what follows a layer, shape (batch, length, width)."""
        query, key, value = (
            part.view(x.shape[0], x.shape[1], 4, -1).transpose(1, 2)
            for part in self.mix(self.norms[0](x)).chunk(3, dim=-1)
        )
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
        return x + self.shrink(nn.functional.gelu(self.grow(self.norms[1](x))))


def main() -> None:
    """Train, and print the loss."""
    rounds = int(sys.argv[1])
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(WORDS, WIDTH), *(Layer() for _ in range(8)), nn.Linear(WIDTH, WORDS))
    model = model.cuda()
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-4)
    text = torch.randint(0, WORDS, (1 << 16,))
    for _ in range(rounds):
        total = 0.0
        for _ in range(STEPS):
            with nvtx.range("step"):
                begin = torch.randint(0, len(text) - LENGTH - 1, (BATCH,)).tolist()
                batch = torch.stack([text[at : at + LENGTH + 1] for at in begin]).cuda()
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    logits = model(batch[:, :-1])
                    loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
                total += loss.item()
        print(f"loss {total / STEPS:.3f}", flush=True)


if __name__ == "__main__":
    main()
