"""Train a small convolutional network on made-up images in one process: PyTorch and its threads."""

import json
from pathlib import Path

import torch
from torch import nn

SETTINGS = json.loads(Path("settings.json").read_text())
torch.set_num_threads(SETTINGS["threads"])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.head = nn.Linear(32 * 8 * 8, 10)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = torch.max_pool2d(x, 2)
        x = torch.max_pool2d(torch.relu(self.second(x)), 2)
        return self.head(x.flatten(1))


def make_batch(count, seed):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(count, 3, 32, 32, generator=generator)
    return images, torch.randint(0, 10, (count,), generator=generator)


def augment(images):
    flipped = images.flip(3)
    return torch.where(torch.rand(len(images), 1, 1, 1) < 0.5, flipped, images)


def smoothed_loss(output, wanted):
    loss = nn.functional.cross_entropy(output, wanted, label_smoothing=0.1)
    return loss + 1e-4 * output.pow(2).mean()


def step(net, optimizer, images, wanted):
    optimizer.zero_grad()
    loss = smoothed_loss(net(augment(images)), wanted)
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    for part in range(SETTINGS["work"]):
        images, wanted = make_batch(int(32 * SETTINGS["size"]), part)
        step(net, optimizer, images, wanted)


main()
