"""Starts its ranks as Lightning does: the program itself is rank 0, and starts the others of its node."""

import os
import subprocess
import sys

SIZE = 3


def train():
    return sum(i for i in range(200000))


others = []
if "LOCAL_RANK" not in os.environ:
    os.environ.update(NODE_RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(SIZE))
    others = [
        subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "LOCAL_RANK": str(rank)})
        for rank in range(1, SIZE)
    ]
train()
del os.environ["WORLD_SIZE"]
sys.exit(max((other.wait() for other in others), default=0))
