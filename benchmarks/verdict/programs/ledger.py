"""Book transactions into SQLite, keep compressed JSON of each batch, and check sums: the standard library."""

import json
import random
import sqlite3
import zlib
from pathlib import Path

SETTINGS = json.loads(Path("settings.json").read_text())


def open_book(path):
    book = sqlite3.connect(path, timeout=60, isolation_level=None)
    book.execute("pragma synchronous=off")
    book.execute(
        "create table if not exists entry (id integer primary key, account int, amount int, note text)"
    )
    book.execute("create index if not exists by_account on entry (account)")
    return book


def make_batch(rng, count):
    return [
        {"account": rng.randrange(300), "amount": rng.randrange(-500, 500), "note": f"order {rng.random()}"}
        for _ in range(count)
    ]


def checksum(batch):
    value = 0
    for entry in batch:
        for character in entry["note"]:
            value = (value * 33 + ord(character) + entry["amount"]) & 0xFFFFFFFF
    return value


def book_batch(book, batch):
    book.execute("begin immediate")
    book.executemany("insert into entry (account, amount, note) values (:account, :amount, :note)", batch)
    book.execute("commit")


def archive(batch):
    return zlib.compress(json.dumps(batch).encode(), 6)


def restore(data):
    return json.loads(zlib.decompress(data))


def balances(book):
    return book.execute(
        "select account, sum(amount), count(*) from entry group by account order by 2 desc"
    ).fetchall()


def main():
    Path("book.db").unlink(missing_ok=True)
    book, rng = open_book("book.db"), random.Random(0)
    for _ in range(SETTINGS["work"]):
        batch = make_batch(rng, int(600 * SETTINGS["size"]))
        book_batch(book, batch)
        assert checksum(restore(archive(batch))) == checksum(batch)
        balances(book)
    book.close()


main()
