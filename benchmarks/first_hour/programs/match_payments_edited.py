"""Match payments to invoices by what people wrote into the reference, and report what is open, for each client."""

import random
import re
import sys
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal

NUMBER = re.compile(r"(?:inv|invoice|rg)[\s.:-]*(\d{6})", re.IGNORECASE)


@dataclass
class Invoice:
    number: str
    amount: Decimal
    paid: Decimal = Decimal(0)


@dataclass
class Payment:
    reference: str
    amount: Decimal


def make_books(seed, invoices):
    """What one client issued, and payments of most of it."""
    chance = random.Random(seed)
    words = ["INV {}", "invoice: {} thanks", "rg-{}", "payment for Inv. {} and others", "order of {}"]
    issued = [Invoice(f"{n:06}", Decimal(chance.randrange(100, 99_999)) / 100) for n in range(invoices)]
    payments = []
    for invoice in chance.sample(issued, k=invoices * 9 // 10):
        text = chance.choice(words).format(invoice.number)
        payments.append(Payment(text, invoice.amount if chance.random() > 0.1 else invoice.amount / 2))
    return issued, payments


def read_reference(text):
    """The number of the invoice in a reference, if one is there."""
    found = NUMBER.search(text)
    return found.group(1) if found else None


def match_payments(invoices, payments):
    """Book each payment on its invoice; return those without one."""
    unmatched = []
    for payment in payments:
        number = read_reference(payment.reference)
        # The same number was issued twice in March: the oldest that is not yet paid gets the money.
        for invoice in invoices:
            if invoice.number == number and invoice.paid < invoice.amount:
                invoice.paid += payment.amount
                break
        else:
            unmatched.append(payment)
    return unmatched


def age(invoices):
    """How many are paid, part paid and open."""
    kinds = Counter()
    for invoice in invoices:
        rest = invoice.amount - invoice.paid
        kinds["paid" if rest <= 0 else "open" if rest == invoice.amount else "part"] += 1
    return kinds


def render(client, kinds, unmatched):
    """One line of the report."""
    lost = sum((payment.amount for payment in unmatched), Decimal(0))
    return f"{client:>4}: {kinds['paid']} paid, {kinds['part']} in part, {kinds['open']} open, {lost} lost"


def main():
    clients, invoices = int(sys.argv[1]), int(sys.argv[2])
    for client in range(clients):
        issued, payments = make_books(client, invoices)
        unmatched = match_payments(issued, payments)
        print(render(client, age(issued), unmatched))


if __name__ == "__main__":
    main()
