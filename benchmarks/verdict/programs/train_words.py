"""Train a small language model on texts that loader workers fetch and tokenise: PyTorch and DataLoader."""

import json
import socket
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SETTINGS = json.loads(Path("settings.json").read_text())
LENGTH, WIDTH, VOCABULARY = int(48 * SETTINGS["size"]), 64, 512


def read_object(key, size):
    with socket.create_connection(("127.0.0.1", SETTINGS["port"])) as connection:
        connection.sendall(f"{key} {size}\n".encode())
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
        return b"".join(parts)


def tokens(data):
    """Merge pairs of bytes into words of the vocabulary."""
    words, left = [], 0
    for value in data:
        if left and (left * 31 + value) % 3:
            words.append((left * 257 + value) % VOCABULARY)
            left = 0
        else:
            left = value
    return words


class Texts(Dataset):
    def __len__(self):
        return 16 * SETTINGS["work"]

    def __getitem__(self, key):
        words = tokens(read_object(key, 4 * LENGTH))
        words = (words + [0] * LENGTH)[: LENGTH + 1]
        return torch.tensor(words + [0] * (LENGTH + 1 - len(words)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, words):
        mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
        return self.head(self.layers(self.embedding(words), mask=mask, is_causal=True))


def clip(model):
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def train_step(model, optimizer, words):
    optimizer.zero_grad()
    scores = model(words[:, :-1])
    nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten()).backward()
    clip(model)
    optimizer.step()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(SETTINGS["threads"])
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for words in DataLoader(Texts(), batch_size=16, num_workers=SETTINGS["workers"]):
        train_step(model, optimizer, words)


main()
