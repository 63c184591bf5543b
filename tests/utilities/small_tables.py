"""The table that tests of utilities share."""

import numpy as np


def make_data(classes=0, n=40, n_test=20, scale=1.0, shift=0.0, seed=0):
    """Return training and test rows of three features; labels are numbers, or classes by their number or names."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + n_test, 3))
    y = X @ [1, 1, 0.5] + 0.5 * rng.normal(size=n + n_test)
    if classes:
        names = np.arange(classes) if isinstance(classes, int) else np.array(classes)
        y = names[np.searchsorted(np.quantile(y, np.arange(1, len(names)) / len(names)), y)]
    X = X * scale + shift
    return X[:n], y[:n], X[n:], y[n:]


def of_all_sizes(n, seed=0):
    """Return a random coalition of each size."""
    rng = np.random.default_rng(seed)
    return np.array([rng.permutation(n) < size for size in range(n + 1)])
