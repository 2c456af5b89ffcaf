"""Clean an export of orders: parse the lines, mend the fields, drop what occurs twice, sum up by country."""

import argparse
import csv
import io
import random
import re
from collections import defaultdict
from datetime import datetime

COUNTRIES = {
    "germany": "DE",
    "deutschland": "DE",
    "de": "DE",
    "france": "FR",
    "fr": "FR",
    "italia": "IT",
    "it": "IT",
}
BLANKS = re.compile(r"\s+")


def make_export(lines):
    """An export as the shop writes it: some orders twice, and names as people type them."""
    chance = random.Random(3)
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["order", "customer", "country", "amount", "day"])
    names = list(COUNTRIES)
    for number in range(lines):
        order = number if number < 10 or chance.random() > 0.3 else chance.randrange(number)
        customer = f" Customer  {order % 997} "
        amount = f"{chance.randrange(100, 90_000) / 100:,.2f} EUR"
        day = f"{order % 28 + 1:02}.{order % 12 + 1:02}.2026"
        writer.writerow([f"A-{order:08}", customer, chance.choice(names).title(), amount, day])
    return file.getvalue()


def parse(text):
    """Rows as dictionaries."""
    return list(csv.DictReader(io.StringIO(text)))


def mend_amount(text):
    return round(float(text.removesuffix(" EUR").replace(",", "")), 2)


def mend_name(text):
    return BLANKS.sub(" ", text).strip().lower()


def mend(row):
    """One row with its fields in one form."""
    return {
        "order": row["order"],
        "customer": mend_name(row["customer"]),
        "country": COUNTRIES[mend_name(row["country"])],
        "amount": mend_amount(row["amount"]),
        "day": datetime.strptime(row["day"], "%d.%m.%Y").date(),
    }


def drop_duplicates(rows, keep):
    """Rows whose order has not been seen; a list keeps the orders as they came, a set does not."""
    seen = [] if keep == "list" else set()
    note = seen.append if keep == "list" else seen.add
    kept = []
    for row in rows:
        if row["order"] not in seen:
            note(row["order"])
            kept.append(row)
    return kept


def totals(rows):
    """Amounts by country and month."""
    sums = defaultdict(float)
    for row in rows:
        sums[row["country"], row["day"].month] += row["amount"]
    return sums


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dedup", choices=["set", "list"], default="set")
    parser.add_argument("--lines", type=int, default=3500)
    parser.add_argument("--exports", type=int, default=130)
    options = parser.parse_args()
    text = make_export(options.lines)
    kept = 0
    for _ in range(options.exports):
        rows = [mend(row) for row in parse(text)]
        rows = drop_duplicates(rows, options.dedup)
        kept += len(rows)
        sums = totals(rows)
    print(f"{kept} orders, {sum(sums.values()):.2f} EUR")


if __name__ == "__main__":
    main()
