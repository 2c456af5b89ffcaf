"""Topics of short texts: TF-IDF, a truncated SVD, and k-means."""

import argparse
import random

from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import normalize

TOPICS = 12


def make_texts(number):
    """Texts of a topic's words and of common ones."""
    chance = random.Random(8)
    common = [f"word{n}" for n in range(4000)]
    own = [[f"topic{topic}x{n}" for n in range(150)] for topic in range(TOPICS)]
    topics = [chance.randrange(TOPICS) for _ in range(number)]
    texts = [" ".join(chance.choices(common, k=50) + chance.choices(own[topic], k=8)) for topic in topics]
    return texts, topics


def embed(texts):
    """Short dense vectors of the texts."""
    weights = TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 1)).fit_transform(texts)
    return normalize(TruncatedSVD(60, random_state=0).fit_transform(weights))


def cluster(vectors):
    return KMeans(TOPICS, n_init=4, random_state=0).fit_predict(vectors)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=42_000)
    options = parser.parse_args()
    texts, topics = make_texts(options.texts)
    found = cluster(embed(texts))
    print(f"agreement with the topics: {adjusted_rand_score(topics, found):.2f}")


if __name__ == "__main__":
    main()
