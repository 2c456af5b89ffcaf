"""Learn byte-pair merges from a generated corpus and encode it: the pure-Python part of many pipelines.

Regular expressions, counters, dictionaries, JSON, gzip and SQLite; one thread, no NumPy. The corpus is drawn
from a fixed seed, so every run does the same work.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import itertools
import json
import random
import re
import sqlite3
import tempfile
from collections.abc import Iterable
from pathlib import Path

WORD = re.compile(r"[a-z]+|[0-9]+|[^\sa-z0-9]")

Word = tuple[str, ...]
Pair = tuple[str, str]


def generate_text(documents: int, seed: int) -> list[str]:
    """Write documents in an invented language whose words follow Zipf's law."""
    rng = random.Random(seed)
    syllables = [a + b + c for a in "bdfklmnprst" for b in "aeiou" for c in ("", "n", "r", "s")]
    lexicon = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(4000)]
    weights = [1 / rank for rank in range(1, len(lexicon) + 1)]
    texts = []
    for number in range(documents):
        words = rng.choices(lexicon, weights, k=120)
        texts.append(f"Document {number}: {' '.join(words).capitalize()}, {rng.randint(0, 9999)}.")
    return texts


def write_corpus(path: Path, texts: Iterable[str]) -> None:
    """Store one JSON object per line, compressed."""
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=4) as stream:
        for number, text in enumerate(texts):
            stream.write(json.dumps({"id": number, "text": text}) + "\n")


def read_corpus(path: Path) -> Iterable[str]:
    """Yield the texts of a corpus."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)["text"]


def split_words(text: str) -> list[str]:
    """Lower the text and cut it into words, numbers and marks."""
    return WORD.findall(text.lower())


def count_words(texts: Iterable[str]) -> collections.Counter[Word]:
    """Count the words of all texts, each as a tuple of its characters."""
    counts: collections.Counter[str] = collections.Counter()
    for text in texts:
        counts.update(split_words(text))
    return collections.Counter({tuple(word): count for word, count in counts.items()})


def count_pairs(words: dict[Word, int]) -> collections.Counter[Pair]:
    """Count the neighbouring symbols in all words."""
    pairs: collections.Counter[Pair] = collections.Counter()
    for word, count in words.items():
        for pair in itertools.pairwise(word):
            pairs[pair] += count
    return pairs


def merge_word(word: Word, pair: Pair) -> Word:
    """Join every occurrence of the pair in one word."""
    first, second = pair
    merged = []
    position = 0
    while position < len(word):
        if word[position] == first and word[position + 1 : position + 2] == (second,):
            merged.append(first + second)
            position += 2
        else:
            merged.append(word[position])
            position += 1
    return tuple(merged)


def apply_merge(words: dict[Word, int], pair: Pair) -> dict[Word, int]:
    """Join the pair in every word that has it."""
    first, second = pair
    return {
        (merge_word(word, pair) if first in word and second in word else word): count
        for word, count in words.items()
    }


def learn_merges(words: dict[Word, int], merges: int) -> list[Pair]:
    """Join the most frequent pair, again and again."""
    learned = []
    for _ in range(merges):
        pairs = count_pairs(words)
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        words = apply_merge(words, best)
        learned.append(best)
    return learned


class Encoder:
    """Turns words into symbols with learned merges; remembers what it has seen."""

    def __init__(self, merges: list[Pair]) -> None:
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.cache: dict[str, Word] = {}

    def encode_word(self, word: str) -> Word:
        """Apply the merges to one word in the order they were learned."""
        symbols: Word = tuple(word)
        while len(symbols) > 1:
            pairs = itertools.pairwise(symbols)
            best = min(pairs, key=lambda pair: self.ranks.get(pair, len(self.ranks)))
            if best not in self.ranks:
                break
            symbols = merge_word(symbols, best)
        return symbols

    def encode(self, text: str) -> list[str]:
        """Encode one text."""
        encoded: list[str] = []
        for word in split_words(text):
            if word not in self.cache:
                self.cache[word] = self.encode_word(word)
            encoded.extend(self.cache[word])
        return encoded


def store_frequencies(path: Path, encoder: Encoder, texts: Iterable[str]) -> int:
    """Count the symbols of all texts in a database; return how many symbols there are."""
    database = sqlite3.connect(path)
    with database:
        database.execute("CREATE TABLE symbol (name TEXT PRIMARY KEY, count INTEGER)")
        for text in texts:
            counts = collections.Counter(encoder.encode(text))
            database.executemany(
                "INSERT INTO symbol VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET count = count + excluded.count",
                sorted(counts.items()),
            )
        total: int = database.execute("SELECT SUM(count) FROM symbol").fetchone()[0]
    database.close()
    return total


def main() -> None:
    """Generate, learn, encode and count."""
    parser = argparse.ArgumentParser(description="Learn byte-pair merges from a generated corpus.")
    parser.add_argument("--documents", type=int, default=1500)
    parser.add_argument("--merges", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus.jsonl.gz"
        write_corpus(corpus, generate_text(options.documents, seed=1))
        merges = learn_merges(dict(count_words(read_corpus(corpus))), options.merges)
        total = store_frequencies(Path(folder) / "symbols.sqlite", Encoder(merges), read_corpus(corpus))
    print(f"{total} symbols, {len(merges)} merges, the last one {''.join(merges[-1])!r}")


if __name__ == "__main__":
    main()
