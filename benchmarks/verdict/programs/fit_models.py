"""Fit a boosted ensemble, k-means and a scaler on tables: scikit-learn, OpenMP."""

import json
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import StandardScaler

SETTINGS = json.loads(Path("settings.json").read_text())


def make_table(rows, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 12))
    return x, (x[:, 0] * x[:, 1] + x[:, 2] > 0.2).astype(int)


def interactions(x):
    return np.concatenate([x, x[:, :4] * x[:, 4:8]], axis=1)


def boost(x, y):
    model = HistGradientBoostingClassifier(
        max_iter=8, max_leaf_nodes=15, early_stopping=False, random_state=0
    )
    return model.fit(x, y).score(x, y)


def group(x):
    return KMeans(8, n_init=1, max_iter=15, random_state=0, algorithm="lloyd").fit(x).labels_


def describe(x, labels):
    return {int(label): x[labels == label].mean(axis=0).round(3).tolist() for label in np.unique(labels)}


def main():
    rows = int(6000 * SETTINGS["size"])
    for part in range(SETTINGS["work"]):
        x, y = make_table(rows, part)
        x = interactions(StandardScaler().fit_transform(x))
        boost(x, y)
        describe(x, group(x))


main()
