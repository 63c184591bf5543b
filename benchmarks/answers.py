"""Errors of the shares of one answer with few evaluations, beside what other tools do with as many.

Coverage games: facts stand in sentences, each mention is worth less than the one before, and a few facts hold most of
the worth. Players are eight documents, or 10 to 60 sentences of them. Beside them are answers of the small model of
`python -m experiments answers`, which is trained first, with exact values by all coalitions. `--attacks` prints what
publishers can try, `--gpu` measures answers a second. `--pooled` and `--months` are about answers that are added up.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import joblib
import numpy as np
import pandas as pd

import fgsv
from fgsv.methods.gp.gp import gains_by_singles
from fgsv.types import Floats, Ints, Masks

BUDGETS = (9, 16, 25, 47, 64, 128)
SIZES = (8, 10, 20, 40, 60)
FACTS = 12
KEPT = 0.3
"""A fact's worth that is left after each mention."""


class Game(Protocol):
    """A game whose exact values are known: U of nobody is zero, and of all players one."""

    @property
    def owner(self) -> Ints:
        """(n,) the publisher of each player."""

    @property
    def n_players(self) -> int:
        """How many players there are."""

    def __call__(self, masks: Masks) -> Floats:
        """Return (m,)."""

    def shapley(self) -> Floats:
        """Return (n,) the exact values."""


@dataclass(frozen=True, eq=False)
class Coverage:
    """U(S) = sum over facts of w (1 - 0.3^(mentions in S)), for (m, n) booleans."""

    mentions: Ints
    """(n, facts)"""
    worth: Floats
    """(facts,), which sum to one."""
    owner: Ints
    """(n,) the publisher of each player."""

    @property
    def n_players(self) -> int:
        """How many players there are."""
        return len(self.mentions)

    def __call__(self, masks: Masks) -> Floats:
        """Return (m,)."""
        return np.asarray((1 - KEPT ** (np.asarray(masks, dtype=float) @ self.mentions)) @ self.worth)

    def shapley(self) -> Floats:
        """Return the exact values: of each fact, (1 - c_i) times the integral over t of prod (1 - t (1 - c_j))."""
        points, weights = np.polynomial.legendre.leggauss(self.n_players // 2 + 1)
        gain = 1 - KEPT**self.mentions
        factors = 1 - (points[:, None, None] + 1) / 2 * gain
        others = np.stack([np.delete(factors, i, axis=1).prod(axis=1) for i in range(self.n_players)], axis=1)
        return np.asarray((gain * np.einsum("t,tif->if", weights / 2, others)) @ self.worth)


def coverage(n: int, seed: int) -> Coverage:
    """Return the game of eight documents of two to six sentences, or of so many sentences of eight documents."""
    rng = np.random.default_rng([n, seed])
    worth = rng.pareto(0.6, FACTS)
    likely = rng.dirichlet(np.full(FACTS, 0.3), size=8)  # the facts that a document is about
    if n == 8:
        counts = rng.integers(2, 7, size=8)
        mentions = np.stack([rng.multinomial(count, each) for count, each in zip(counts, likely, strict=True)])
        owner = np.arange(8)
    else:
        owner = np.sort(np.concatenate([np.arange(8), rng.integers(0, 8, n - 8)]))
        mentions = np.stack([rng.multinomial(rng.integers(0, 3), likely[k]) for k in owner])
    game = Coverage(mentions, worth, owner)
    whole = game(np.ones((1, n), dtype=bool))[0]
    return Coverage(mentions, worth / whole, owner)


Rule = Callable[[Game, int, int], Floats]
"""From a game, a budget and a seed to shares; U(N) - U(0) is one."""


def rescaled(values: Floats) -> Floats:
    """Return values that sum to one; equal ones where they have no sum to speak of."""
    total = values.sum()
    return values / total if total > 1e-9 else np.full(len(values), 1 / len(values))


def alone(game: Game, budget: int, seed: int) -> Floats:
    """Return what each is worth alone, rescaled to the whole: n evaluations and the ends, whatever the budget."""
    return rescaled(game(np.eye(game.n_players, dtype=bool)))


def left_out(game: Game, budget: int, seed: int) -> Floats:
    """Return what is lost without each player, rescaled to the whole."""
    return rescaled(1 - game(~np.eye(game.n_players, dtype=bool)))


def contextcite(game: Game, budget: int, seed: int) -> Floats:
    """Fit ContextCite's regression: a lasso on random halves of the sources, its columns standardised.

    Its utilities are logits per token of the answer; here the whole is worth one a token. Rescaled to the whole.
    """
    from sklearn.linear_model import Lasso
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    masks = np.random.default_rng(seed).random((budget - 2, game.n_players)) < 0.5
    fitted = make_pipeline(StandardScaler(), Lasso(alpha=0.01, random_state=0, max_iter=20_000)).fit(
        masks.astype(float), game(masks)
    )
    scale = fitted[0].scale_
    return rescaled(fitted[1].coef_ / scale)


def of_method(method: str, game: Game, budget: int, seed: int) -> Floats:
    """Return the values of a method of fgsv, as for an answer, or with one round of all evaluations."""
    asked: dict[str, Any] = {"singles_first": gains_by_singles(game.n_players, budget)}
    options = asked if method == "gp" else {"round_size": budget - 2}
    values = fgsv.value(game, method=method, budget=budget, seed=seed, progress=False, **options).player_values
    assert values is not None
    return values


RULES: dict[str, Rule] = {
    "fgsv": partial(of_method, "gp"),
    "alone": alone,
    "left out": left_out,
    "ContextCite": contextcite,
    "permutations": partial(of_method, "permutation"),
    "KernelSHAP": partial(of_method, "kernelshap"),
}


def errors(rule: str, games: Sequence[Game], budget: int) -> Floats:
    """Return (2,) the mean absolute errors of players' and of publishers' shares."""
    found = np.full((len(games), 2), np.nan)
    for seed, game in enumerate(games):
        try:
            gaps = RULES[rule](game, budget, seed) - game.shapley()
        except ValueError:  # too small a budget for it
            break
        found[seed] = np.abs(gaps).mean(), np.abs(np.bincount(game.owner, weights=gaps)).mean()
    return np.asarray(found.mean(axis=0))


def table(kinds: dict[str, Sequence[Game]], budgets: Sequence[int], jobs: int) -> pd.DataFrame:
    """Return the mean errors over games: a row for each kind of games, budget and rule."""
    cells = [
        (kind, games[0].n_players, budget, rule)
        for kind, games in kinds.items()
        for budget in budgets
        for rule in RULES
        if budget < 2 ** games[0].n_players
    ]
    found = joblib.Parallel(jobs)(
        joblib.delayed(errors)(rule, kinds[kind], budget) for kind, _, budget, rule in cells
    )
    frame = pd.DataFrame(cells, columns=["games", "players", "evaluations", "rule"])
    return frame.assign(of_players=np.array(found)[:, 0], of_publishers=np.array(found)[:, 1])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks answers", description=__doc__)
    parser.add_argument(
        "--players", type=int, nargs="*", default=list(SIZES), help="numbers of players of coverage games"
    )
    parser.add_argument("--games", type=int, default=40, help="games of each kind")
    parser.add_argument("--evaluations", type=int, nargs="+", default=list(BUDGETS))
    parser.add_argument("--no-model", action="store_true", help="without answers of the small model")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--attacks", action="store_true", help="what publishers can try, instead")
    parser.add_argument("--gpu", action="store_true", help="time answers a second on a GPU instead")
    parser.add_argument("--small", action="store_true", help="with --gpu: a tiny model, on a CPU")
    parser.add_argument("--answers", type=int, default=20, help="with --gpu: answers that are timed")
    parser.add_argument("--pooled", action="store_true", help="bias of shares that are added up over 1,000 answers")
    parser.add_argument("--months", action="store_true", help="intervals of the royalties of 500 months")
    read = parser.parse_args()
    if read.pooled or read.months:
        from benchmarks.answers_months import months, pooled

        print((pooled if read.pooled else months)(read.jobs).round(4).to_string(index=False))
        return
    if read.attacks:
        from benchmarks.answer_attacks import table as attacks

        print("points that an attack adds to the attacker's share, on average; and the most that it moved another's")
        print(attacks().round(2).to_string(index=False))
        return
    if read.gpu:
        from benchmarks.answer_speed import measured

        print(measured(read.small, read.answers).round(4).to_string(index=False))
        return
    kinds: dict[str, Sequence[Game]] = {}
    for n in read.players:
        name = "8 documents" if n == 8 else f"{n} sentences"
        kinds[name] = [coverage(n, seed) for seed in range(read.games)]
    if not read.no_model:
        from benchmarks.answers_model import answers_of_model

        kinds |= answers_of_model(read.games)
    frame = table(kinds, read.evaluations, read.jobs)
    for what in ("of_players", "of_publishers"):
        shown = frame.pivot(index=["games", "players", "evaluations"], columns="rule", values=what)
        shown = shown.loc[list(kinds), list(RULES)]
        ratio = shown["fgsv"] / shown.drop(columns="fgsv").min(axis=1)
        print(f"\nmean absolute error of shares {what.replace('_', ' ')}, in points")
        print((100 * shown).round(2).assign(**{"fgsv / best": ratio.round(2)}).to_string())
