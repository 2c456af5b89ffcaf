"""Calls whose numbers are known: what a profile of this file must say exactly."""

import json
import re


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def squares(n):
    for i in range(n):
        yield i * i


def fails(i):
    raise ValueError(i)


def main():
    total = sum(fib(n) for n in range(15))
    total += sum(squares(100))
    for i in range(50):
        try:
            fails(i)
        except ValueError:
            total += 1
    text = json.dumps({str(i): list(range(i)) for i in range(50)})
    total += len(re.findall(r"\d+", text)) + len(json.loads(text))
    two = [lambda: 1, lambda: 2]
    total += sum(f() for f in two)
    print(total)


if __name__ == "__main__":
    main()
