"""Search the settings of a classifier for each writer's digits, in this process or in joblib's workers."""

import argparse

import numpy as np
from joblib.externals.loky import get_reusable_executor
from skimage.filters import gaussian, sobel
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC


class EdgeFeatures(TransformerMixin, BaseEstimator):
    """Strengths of the edges beside the pixels."""

    def __init__(self, smooth=0.5):
        self.smooth = smooth

    def fit(self, images, labels=None):
        return self

    def transform(self, images):
        rows = []
        for row in images:
            image = gaussian(row.reshape(8, 8) / 16, self.smooth)
            rows.append(np.concatenate([row / 16, sobel(image).ravel()]))
        return np.array(rows)


def load(samples, writer):
    """The digits of one writer, the same each time."""
    images, labels = load_digits(return_X_y=True)
    chosen = np.random.default_rng(writer).permutation(len(images))[:samples]
    return images[chosen], labels[chosen]


def search(images, labels, jobs):
    """Cross-validate all settings."""
    pipeline = Pipeline([("edges", EdgeFeatures()), ("scale", StandardScaler()), ("svm", SVC())])
    grid = {"edges__smooth": [0.3, 0.6], "svm__C": [0.1, 1, 10], "svm__gamma": [0.003, 0.01]}
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    return GridSearchCV(pipeline, grid, cv=folds, n_jobs=jobs).fit(images, labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--samples", type=int, default=250)
    parser.add_argument("--writers", type=int, default=3)
    options = parser.parse_args()
    for writer in range(options.writers):
        found = search(*load(options.samples, writer), options.jobs)
        print(f"writer {writer}: {found.best_score_:.3f} with {found.best_params_}")
        if options.jobs != 1:
            get_reusable_executor().shutdown(wait=True)  # gives the workers' memory back


if __name__ == "__main__":
    main()
