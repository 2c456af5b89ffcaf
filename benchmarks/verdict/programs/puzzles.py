"""Solve sudokus and count placements of queens: pure Python, deep recursion, one thread."""

import json
import random
from pathlib import Path

SETTINGS = json.loads(Path("settings.json").read_text())
ROWS = [[r * 9 + c for c in range(9)] for r in range(9)]
COLUMNS = [[r * 9 + c for r in range(9)] for c in range(9)]
BOXES = [[(b // 3 * 3 + i // 3) * 9 + b % 3 * 3 + i % 3 for i in range(9)] for b in range(9)]
UNITS = [[u for u in (*ROWS, *COLUMNS, *BOXES) if cell in u] for cell in range(81)]
PEERS = [frozenset(c for u in UNITS[cell] for c in u) - {cell} for cell in range(81)]


def make_puzzle(rng, empty):
    base = list(range(1, 10))
    rng.shuffle(base)
    grid = [base[(3 * (r % 3) + r // 3 + c) % 9] for r in range(9) for c in range(9)]
    for cell in rng.sample(range(81), empty):
        grid[cell] = 0
    return grid


def candidates(grid, cell):
    return {1, 2, 3, 4, 5, 6, 7, 8, 9} - {grid[peer] for peer in PEERS[cell]}


def hardest(grid):
    best, choice = None, None
    for cell in range(81):
        if not grid[cell]:
            options = candidates(grid, cell)
            if choice is None or len(options) < len(choice):
                best, choice = cell, options
    return best, choice


def solve(grid):
    cell, options = hardest(grid)
    if cell is None:
        return True
    for value in sorted(options):
        grid[cell] = value
        if solve(grid):
            return True
    grid[cell] = 0
    return False


def queens(size, row=0, columns=0, left=0, right=0):
    if row == size:
        return 1
    count, free = 0, ~(columns | left | right) & ((1 << size) - 1)
    while free:
        bit = free & -free
        free ^= bit
        count += queens(size, row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1)
    return count


def checksum(grid):
    total = 0
    for position, value in enumerate(grid):
        total = (total * 11 + position * value) % 1000003
    return total


def main():
    rng = random.Random(4)
    for _ in range(SETTINGS["work"]):
        grid = make_puzzle(rng, 50)
        solve(grid)
        sum(checksum(grid) for _ in range(int(12 * SETTINGS["size"])))
        queens(6)


main()
