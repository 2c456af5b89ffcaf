"""Train a small convolutional net on images that loader workers fetch from a store: PyTorch and DataLoader."""

import json
import socket
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SETTINGS = json.loads(Path("settings.json").read_text())
SIDE = int(32 * SETTINGS["size"])


def read_object(key, size):
    with socket.create_connection(("127.0.0.1", SETTINGS["port"])) as connection:
        connection.sendall(f"{key} {size}\n".encode())
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
        return b"".join(parts)


def decode(data):
    return np.frombuffer(data, np.uint8).reshape(3, SIDE, SIDE).astype(np.float32) / 255


def flip(image, key):
    return image[:, :, ::-1].copy() if key % 2 else image


class Images(Dataset):
    def __len__(self):
        return 16 * SETTINGS["work"]

    def __getitem__(self, key):
        return flip(decode(read_object(key, 3 * SIDE * SIDE)), key), key % 10


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 24, 3, padding=1), nn.Conv2d(24, 32, 3, padding=1)
        self.head = nn.Linear(32 * 16, 10)

    def forward(self, images):
        x = torch.relu(self.first(images))
        x = torch.max_pool2d(torch.relu(self.second(x)), 2)
        return self.head(torch.nn.functional.adaptive_avg_pool2d(x, 4).flatten(1))


def penalty(net):
    return sum((p**2).sum() for p in net.parameters()) * 1e-5


def train_step(net, optimizer, images, labels):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(images), labels) + penalty(net)
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def main():
    torch.manual_seed(0)
    torch.set_num_threads(SETTINGS["threads"])
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    loader = DataLoader(Images(), batch_size=16, num_workers=SETTINGS["workers"])
    for images, labels in loader:
        train_step(net, optimizer, images, labels)


main()
