"""Generators and recursion: texts of arithmetic read, evaluated and searched: ``expressions.py WORK``.

``evaluate`` is made slower by the variable SLOWER.
"""

import os
import random
import sys

CHECKS = round(20 * float(os.environ.get("SLOWER", "1")))


def text_of(rng, depth):
    if depth == 0 or rng.random() < 0.1:
        return str(rng.randrange(1, 99))
    return f"({text_of(rng, depth - 1)}{rng.choice('+-*')}{text_of(rng, depth - 1)})"


def tokens(text):
    digits = ""
    for c in text:
        if c.isdigit():
            digits += c
            continue
        if digits:
            yield digits
            digits = ""
        yield c
    if digits:
        yield digits


def ahead(items):
    items = iter(items)
    last = next(items)
    for item in items:
        yield last, item
        last = item
    yield last, ""


def parse(stream):
    token, _ = next(stream)
    if token != "(":
        return int(token)
    left = parse(stream)
    sign, _ = next(stream)
    right = parse(stream)
    next(stream)
    return sign, left, right


def evaluate(tree):
    if isinstance(tree, int):
        return tree
    sign, left, right = tree
    one, other = evaluate(left), evaluate(right)
    for i in range(CHECKS):
        one = (one ^ i) % 1000003
    return one + other if sign == "+" else one - other if sign == "-" else one * other % 1000003


def leaves(tree):
    if isinstance(tree, int):
        yield tree
        return
    yield from leaves(tree[1])
    yield from leaves(tree[2])


def depth(tree):
    return 0 if isinstance(tree, int) else 1 + max(depth(tree[1]), depth(tree[2]))


def swapped(tree):
    if isinstance(tree, int):
        return tree
    sign, left, right = tree
    return (sign, swapped(right), swapped(left)) if sign != "-" else (sign, swapped(left), swapped(right))


def shown(tree):
    return str(tree) if isinstance(tree, int) else "(" + shown(tree[1]) + tree[0] + shown(tree[2]) + ")"


def queens(n, row=0, columns=0, up=0, down=0):
    if row == n:
        yield columns
        return
    for column in range(n):
        if free(column, row, n, columns, up, down):
            yield from queens(
                n, row + 1, columns | 1 << column, up | 1 << (row + column), down | 1 << (row - column + n)
            )


def free(column, row, n, columns, up, down):
    return not (columns >> column & 1 or up >> (row + column) & 1 or down >> (row - column + n) & 1)


def subsets(items):
    if not items:
        yield ()
        return
    for rest in subsets(items[1:]):
        yield rest
        yield (items[0], *rest)


def runs(values):
    length, last = 0, None
    for value in values:
        if last is not None and value < last:
            yield length
            length = 0
        length, last = length + 1, value
    yield length


def main():
    rng = random.Random(2)
    texts = [text_of(rng, 6) for _ in range(60)]
    found = 0
    for _ in range(80 * int(sys.argv[1])):
        for text in texts:
            tree = parse(ahead(tokens(text)))
            found += evaluate(tree) + depth(tree) + sum(leaves(swapped(tree))) + max(runs(leaves(tree)))
            found += evaluate(parse(ahead(tokens(shown(tree)))))
        found += sum(queens(5)) + sum(len(subset) for subset in subsets(range(9)))
    print(found)


main()
