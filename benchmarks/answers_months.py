"""Answers that are added up: the bias of pooled shares, and intervals of a month's royalties.

python -m benchmarks answers --pooled
python -m benchmarks answers --months

An answer is a coverage game of eight documents: facts in their sentences, each mention worth less than the one
before. Twelve publishers have documents of other lengths, and some state more facts in a sentence than others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

import fgsv
from benchmarks.answers import FACTS, Coverage
from experiments.repeats import run_all
from fgsv.answers.month import Month, Royalties, estimated
from fgsv.answers.paying import AT_PRIOR
from fgsv.methods.gp.fitting import fitted_together
from fgsv.types import Floats, Masks
from fgsv.valuation import t_quantile

DOCUMENTS, PUBLISHERS = 8, 12
POOLED, BUDGETS, REPEATS = 1000, (16, 25, 47), 8
POPULATION, DRAWN, SEEDS, MONTHS = 5000, 2000, 8, 500
WORLDS = {"facts of similar worth": 0.0, "few facts matter": 0.6}
"""Worth of the facts: exponential, or Pareto with this exponent."""


@dataclass(frozen=True)
class Answer:
    """One answer of a world, by its number."""

    tail: float
    number: int

    @property
    def made(self) -> tuple[Coverage, Floats]:
        """The game of its documents, and their tokens (documents,)."""
        rng = np.random.default_rng([7, self.number])
        dense = np.random.default_rng(7).lognormal(0.0, 0.4, PUBLISHERS)
        often = 1 / np.arange(1, PUBLISHERS + 1) ** 0.7
        publishers = rng.choice(PUBLISHERS, DOCUMENTS, p=often / often.sum())
        sentences = 1 + rng.geometric(0.2, DOCUMENTS)
        said = rng.poisson(sentences * dense[publishers] / 2)
        mentions = np.stack([rng.multinomial(each, rng.dirichlet(np.full(FACTS, 0.3))) for each in said])
        worth = rng.pareto(self.tail, FACTS) if self.tail else rng.exponential(size=FACTS)
        return Coverage(mentions, worth, publishers), np.rint(20 * sentences * rng.lognormal(0.0, 0.2, DOCUMENTS))

    @property
    def tokens(self) -> Floats:
        """(K,) of the publishers."""
        game, tokens = self.made
        return np.bincount(game.owner, tokens, PUBLISHERS).astype(float)

    @property
    def truth(self) -> Floats:
        """(K,) shares of the publishers; zeros if no document states a fact."""
        values = self.made[0].shapley()
        return np.bincount(self.made[0].owner, values / max(values.sum(), 1e-300), PUBLISHERS).astype(float)

    def run(self, budget: int, seed: int, **options: Any) -> tuple[fgsv.Valuation | None, Masks, Floats]:
        """Return its valuation by publishers, and what was evaluated; no valuation if there is nothing to share."""
        game, _ = self.made
        asked: list[Masks] = []

        def utility(masks: Masks) -> Floats:
            asked.append(np.array(masks))
            return game(masks)

        if not game.mentions.any():
            return None, np.zeros((0, DOCUMENTS), dtype=bool), np.zeros(0)
        owned = fgsv.Partition(tuple(range(PUBLISHERS)), game.owner)
        found = fgsv.value(fgsv.Game(utility, DOCUMENTS), owned, budget=budget, seed=seed, progress=False, **options)
        masks = np.concatenate(asked)
        return found, masks, game(masks)


@dataclass(frozen=True)
class Task:
    """One answer, to be valued with several seeds."""

    answer: Answer
    budget: int
    seeds: int
    options: dict[str, Any]


def valued(task: Task) -> tuple[Floats, Floats]:
    """Return (seeds, K) shares of the publishers, and (seeds, K, K) covariances."""
    shares = np.zeros((task.seeds, PUBLISHERS))
    covariances = np.zeros((task.seeds, PUBLISHERS, PUBLISHERS))
    for seed in range(task.seeds):
        found, *_ = task.answer.run(task.budget, 1000 * task.answer.number + seed, **task.options)
        if found is not None:
            deviations = found.group_deviations
            assert deviations is not None
            deviations = deviations[..., 0] / found.total
            shares[seed] = found.shares()
            covariances[seed] = deviations.T @ deviations
    return shares, covariances


def unbiased(answers: list[Answer], budget: int, seeds: int, jobs: int) -> tuple[Floats, Floats]:
    """Return (N, seeds, K) shares and (N, seeds, K, K) covariances, with parameters learned from the other half.

    Answers with even numbers are one half, those with odd numbers the other.
    """
    at_prior = {"unbiased": True, "parameters": AT_PRIOR}
    own = []
    for half in (answers[1::2], answers[::2]):
        runs = [answer.run(budget, answer.number, **at_prior)[1:] for answer in half[:100]]
        own.append(fitted_together([run for run in runs if len(run[1])]))
    options = [{"unbiased": True, "parameters": parameters} for parameters in own]
    tasks = [Task(answer, budget, seeds, options[answer.number % 2]) for answer in answers]
    found = run_all(valued, tasks, jobs=jobs, label=f"{budget} evaluations each")
    return np.stack([shares for shares, _ in found]), np.stack([covariances for _, covariances in found])


def with_error(values: Floats, digits: int) -> str:
    """Return the mean of independent values, and its standard error."""
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}"


def pooled(jobs: int) -> pd.DataFrame:
    """Return the bias of the publishers' shares, pooled over answers, in their stated standard errors."""
    rows = []
    for (world, tail), budget in product(WORLDS.items(), BUDGETS):
        answers = [Answer(tail, number) for number in range(POOLED)]
        truths = np.array([answer.truth for answer in answers])
        truth = truths.mean(axis=0)
        shares, covariances = unbiased(answers, budget, REPEATS, jobs)
        stderr = np.sqrt(np.einsum("asii->i", covariances) / REPEATS) / POOLED
        tasks = [Task(answer, budget, 1, {"learn": "kernel"}) for answer in answers]
        predicted = np.array([found[0] for found, _ in run_all(valued, tasks, jobs=jobs, label="predicted")])
        best = truth.argmax()
        errors = shares.mean(axis=0) - truth
        rows.append(
            {
                "answers": world,
                "evaluations": budget,
                "stated stderr": 100 * stderr.mean(),
                "error / stderr, rms": with_error(np.sqrt(np.mean((errors / stderr) ** 2, axis=1)), 2),
                "largest |bias| / stderr": np.abs(errors.mean(axis=0) / stderr).max(),
                "best publisher's bias": with_error(100 * errors[:, best], 3),
                "the same of predictions": with_error(100 * (predicted - truths)[:, best], 3),
            }
        )
    return pd.DataFrame(rows)


def months(jobs: int) -> pd.DataFrame:
    """Return how often intervals of royalties hold, and how wide they are with and without tokens."""
    rows = []
    for world, tail in WORLDS.items():
        answers = [Answer(tail, number) for number in range(POPULATION)]
        truth = np.sum([answer.truth for answer in answers], axis=0)
        shares, covariances = unbiased(answers, BUDGETS[0], SEEDS, jobs)
        tokens = sparse.csr_matrix(np.array([answer.tokens for answer in answers]))
        month = Month(np.ones(POPULATION), tokens, np.zeros(POPULATION, dtype=int), np.arange(POPULATION))
        of_months = {"used": month, "not used": replace(month, tokens=sparse.csr_matrix(np.ones(tokens.shape)))}
        found: dict[str, list[Royalties]] = {name: [] for name in of_months}
        for number in range(MONTHS):
            rng = np.random.default_rng([11, number])
            half_of = rng.permutation(len(month.fees)) % 2
            draws = [month.draw(np.flatnonzero(half_of == half), DRAWN // 2, rng) for half in (0, 1)]
            seeds = rng.integers(SEEDS, size=POPULATION)
            of_draws = [shares[each.answers, seeds[each.answers]] for each in draws]
            errors = [
                [(range(PUBLISHERS), error) for error in covariances[each.answers, seeds[each.answers]]]
                for each in draws
            ]
            for name, known in of_months.items():
                found[name].append(estimated(known, half_of, draws, of_draws, errors))
        widths = {name: np.array([each.stderr for each in results]) for name, results in found.items()}
        for name, results in found.items():
            off = np.array([(each.values - truth) / each.stderr for each in results])
            held = np.abs(off) < t_quantile(0.95, results[0].freedom)
            of_each = held.mean(axis=0)
            within = np.array([np.mean(each.within / each.stderr**2) for each in results])
            rows.append(
                {
                    "answers": world,
                    "tokens": name,
                    "held, %": with_error(100 * held.mean(axis=1), 1),
                    "of a publisher": f"{of_each.min():.1%} to {of_each.max():.1%}",
                    "bias / stderr": with_error(off.mean(axis=1), 3),
                    "width, %": with_error(100 * (widths[name] / truth).mean(axis=1) * 2 * 1.96, 2),
                    "beside without": with_error((widths[name] / widths["not used"]).mean(axis=1), 3),
                    "from evaluations, %": with_error(100 * within, 1),
                }
            )
    return pd.DataFrame(rows)
