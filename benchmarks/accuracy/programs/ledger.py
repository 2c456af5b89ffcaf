"""Bookkeeping in many small functions: ``ledger.py WORK``; ``interest`` is made slower by the variable SLOWER."""

import os
import random
import sys

DAYS = round(60 * float(os.environ.get("SLOWER", "1")))
RATES = {"EUR": 1.0, "USD": 0.9, "JPY": 0.006, "GBP": 1.15}


def entry(rng):
    currency, kind = rng.choice(list(RATES)), rng.choice("abcd")
    return f"{rng.randrange(50)};{currency};{rng.random() * 900:.2f};{kind}"


def split(line):
    return line.split(";")


def parse(line):
    account, currency, amount, kind = split(line)
    return number(account), currency, decimal(amount), kind


def number(text):
    value = 0
    for c in text:
        value = value * 10 + ord(c) - 48
    return value


def decimal(text):
    whole, _, part = text.partition(".")
    return number(whole) + number(part) / 10 ** len(part)


def convert(amount, currency):
    return amount * RATES[currency]


def fee(kind, amount):
    if kind == "a":
        return flat()
    if kind == "b":
        return share(amount, 0.01)
    return stepped(amount)


def flat():
    return 0.25


def share(amount, part):
    return amount * part


def stepped(amount):
    total, step = 0.0, 100.0
    while amount > 0:
        total += min(amount, step) * 0.002
        amount -= step
    return total


def interest(balance):
    for day in range(DAYS):
        balance += balance * 0.00001 * (1 + day % 3)
    return balance


def rounded(amount):
    return int(amount * 100 + 0.5) / 100


def digest(balances):
    value = 17
    for account in sorted(balances):
        value = mixed(value, balances[account])
    return value


def mixed(value, balance):
    value = value * 31 + int(balance)
    return value & 0xFFFFFFFF


def checked(line):
    for c in line:  # noqa: SIM110, a loop is what is wanted
        if not (c.isalnum() or c in ";."):
            return False
    return True


def book(balances, line):
    account, currency, amount, kind = parse(line)
    amount = convert(amount, currency)
    balance = balances.get(account, 0.0) + amount - fee(kind, amount)
    balances[account] = rounded(interest(balance)) % 10000


def main():
    rng = random.Random(1)
    lines = [entry(rng) for _ in range(400)]
    balances, value = {}, 0
    for _ in range(300 * int(sys.argv[1])):
        for i, line in enumerate(lines):
            if checked(line):
                book(balances, line)
            if i % 8 == 0:
                value ^= digest(balances)
    print(value)


main()
