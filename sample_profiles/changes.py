"""The code changes of the samples: one function of each workload, as somebody could really have written it.

`make.py` applies them to a copy of the workload, so that the source of exactly one function differs.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CHANGES", "Change"]


class Change(NamedTuple):
    """One replacement in a source text.

    Attributes
    ----------
    function
        The function whose source changes.
    why
        What somebody did, in one line.
    old, new
        Lines of that function before and after; `old` occurs once in the file.
    """

    function: str
    why: str
    old: str
    new: str

    def apply(self, source: str) -> str:
        """Return the changed source; raise ``ValueError`` where `old` does not occur exactly once."""
        if source.count(self.old) != 1:
            found = source.count(self.old)
            raise ValueError(f"the lines of {self.function} that are to change occur {found} times")
        return source.replace(self.old, self.new)


CHANGES = {
    "train_mlp": Change(
        "bilinear",
        "samples one image at a time instead of the whole batch",
        """\
    n = np.arange(len(images))[:, None, None]
    top = images[n, y0, x0] * (1 - dx) + images[n, y0, x0 + 1] * dx
    bottom = images[n, y0 + 1, x0] * (1 - dx) + images[n, y0 + 1, x0 + 1] * dx
    return np.asarray(top * (1 - dy) + bottom * dy, dtype=np.float32)
""",
        """\
    sampled = np.empty_like(images)
    for n, image in enumerate(images):
        for row in range(len(image)):
            y1, x1, right = y0[n, row], x0[n, row], dx[n, row]
            top = image[y1, x1] * (1 - right) + image[y1, x1 + 1] * right
            bottom = image[y1 + 1, x1] * (1 - right) + image[y1 + 1, x1 + 1] * right
            sampled[n, row] = top * (1 - dy[n, row]) + bottom * dy[n, row]
    return sampled
""",
    ),
    "tokenize_corpus": Change(
        "count_pairs",
        "looks each pair up in a list of the pairs already seen in the word, so that it counts once",
        """\
        for pair in itertools.pairwise(word):
            pairs[pair] += count
""",
        """\
        seen: list[Pair] = []
        for position in range(len(word) - 1):
            pair = (word[position], word[position + 1])
            occurrences = sum(1 for other in itertools.pairwise(word) if other == pair)
            if pair not in seen:
                pairs[pair] += occurrences * count
                seen.append(pair)
""",
    ),
    "kmeans": Change(
        "squared_distances",
        "subtracts every centre from every point instead of expanding the square into a matrix product",
        """\
    cross = points @ centres.T
    distances: Array = (points**2).sum(axis=1)[:, None] - 2 * cross + (centres**2).sum(axis=1)
    return distances
""",
        """\
    distances: Array = ((points[:, None, :] - centres) ** 2).sum(axis=2)
    return distances
""",
    ),
    "gpu_lm": Change(
        "attend",
        "computes attention by hand, in more digits, as one does to look at the weights",
        """\
    return nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
""",
        """\
    scores = query.double() @ key.double().transpose(2, 3) / math.sqrt(query.shape[-1])
    later = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).triu(1)
    weights = scores.masked_fill(later, -math.inf).softmax(3)
    return (weights @ value.double()).to(query.dtype)
""",
    ),
    "loader_train": Change(
        "clip_outliers",
        "sorts every column in full, one after the other, to find its percentiles",
        """\
    low, high = np.percentile(features, (1, 99), axis=0)
    return np.clip(features, low.astype(np.float32), high.astype(np.float32))
""",
        """\
    clipped = features.copy()
    for column in range(features.shape[1]):
        ordered = sorted(features[:, column].tolist())
        low, high = ordered[len(ordered) // 100], ordered[-1 - len(ordered) // 100]
        clipped[:, column] = np.clip(features[:, column], low, high)
    return clipped
""",
    ),
}
