"""Drawing coalitions and checking arguments: what several methods share."""

from __future__ import annotations

import numpy as np

from fgsv.methods.method import Problem
from fgsv.semivalue import SHAPLEY
from fgsv.types import Floats, Ints, Masks


def check_count(name: str, count: int) -> None:
    """Raise an error unless an option is a whole number from 1 on; 2.0 is none, since options stay as they are."""
    if not isinstance(count, int | np.integer) or count < 1:
        raise ValueError(f"{name} must be at least 1 and whole, got {count!r}")


def check_shapley(problem: Problem, name: str) -> None:
    """Raise an error for semivalues that the method does not estimate."""
    if problem.semivalue != SHAPLEY:
        raise ValueError(f"method {name!r} estimates only Shapley values: use the default method for others")


def equal_shares(problem: Problem) -> Floats:
    """Return [U(N) - U(0)] / n for each player, as (n, q): the estimate while nothing is known."""
    n = problem.n_players
    return np.tile((problem.ends[1] - problem.ends[0]) / n, (n, 1))


def draw_sizes(weights: Floats, count: int, rng: np.random.Generator) -> Ints:
    """Draw sizes 1, 2, ..., independently, with probabilities proportional to `weights`.

    Args:
        weights: The weight of each size.
        count: How many sizes to draw.
        rng: The source of randomness.

    Returns:
        (count,) sizes.

    """
    cumulative = np.cumsum(weights)
    return 1 + np.searchsorted(cumulative[:-1], rng.random(count) * cumulative[-1], side="right")


def draw_masks(n_players: int, sizes: Ints, rng: np.random.Generator) -> Masks:
    """Draw one uniform coalition of each size, independently of the others: (m, n).

    Args:
        n_players: n.
        sizes: (m,): the size of each coalition.
        rng: The source of randomness.

    Returns:
        (m, n) booleans, uniform given the sizes.

    """
    return rng.permuted(np.arange(n_players) < sizes[:, None], axis=1)


def kernel_weights(n_players: int) -> Floats:
    """Return 1 / (s (n - s)) for s = 1..n-1: how much the sizes count in the regression of KernelSHAP."""
    sizes = np.arange(1, n_players)
    return 1 / (sizes * (n_players - sizes))
