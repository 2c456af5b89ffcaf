"""Run a small transformer forward over batches of tokens: PyTorch, its OpenMP threads."""

import json
from pathlib import Path

import torch
from torch import nn

SETTINGS = json.loads(Path("settings.json").read_text())
WIDTH, HEADS = 128, 4


def attention(q, k, v):
    scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
    return torch.softmax(scores, -1) @ v


def split_heads(x):
    return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        q, k, v = (split_heads(part) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def sample_tokens(logits):
    probabilities = torch.softmax(logits / 0.8, -1)
    return torch.multinomial(probabilities, 1).tolist()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(SETTINGS["threads"])
    embed, head = nn.Embedding(400, WIDTH), nn.Linear(WIDTH, 400)
    blocks = nn.ModuleList(Block() for _ in range(3))
    with torch.inference_mode():
        for _ in range(SETTINGS["work"]):
            x = embed(torch.randint(0, 400, (8, int(96 * SETTINGS["size"]))))
            for block in blocks:
                x = block(x)
            sample_tokens(head(x[:, -1]))


main()
