"""Checking a ledger's records against the game: evaluate a random sample of them again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fgsv.checks import as_number, whole_number
from fgsv.coalitions import unpack
from fgsv.evaluation.batch import attempt
from fgsv.game import as_game
from fgsv.ledger import Batch, Ledger
from fgsv.signals import one_thread
from fgsv.valuation.differences import Difference, Differences
from fgsv.verification.replay import recorded_game

SAMPLE = 60
"""Batches evaluated again by default: if 5% are forged, at least one of them is found with 95% probability."""


def odds_of_missing(sample: int, forged: float = 0.05) -> float:
    """Return the probability that a random sample of batches has none of a fraction that was forged.

    >>> round(odds_of_missing(60), 3)
    0.046
    """
    if not 0 <= as_number(forged) <= 1:
        raise ValueError(f"forged must be a fraction, from 0 to 1; got {forged!r:.200}")
    return float((1 - forged) ** whole_number("sample", sample, least=0))


def verify_records(
    ledger: str | Path, game: Any, *, sample: int = SAMPLE, seed: int | None = None, tolerance: float = 0.0
) -> Differences:
    """Evaluate a random sample of a game's recorded batches again; return where the values differ.

    Values differ if they were tampered with, or if a library changed its arithmetic.

    Args:
        ledger: The ledger, which is not changed.
        game: Game as package.module:object or file.py:object, to evaluate a sample again. In Python the game.
        sample: Number of batches to evaluate again, drawn at random.
        seed: Random seed, to repeat a sample. Default: the system's entropy, so that nobody can know it in advance.
        tolerance: Largest allowed difference from a recorded value: above 0 for another type of machine, or a GPU.

    Returns:
        The differences, and how many batches were evaluated.

    Raises:
        ValueError, TypeError: An argument is wrong, or the ledger has no record of this game.

    """
    sample = whole_number("sample", sample, least=1)
    if not as_number(tolerance) >= 0:
        raise ValueError(f"tolerance must be a number, 0 or more; got {tolerance!r:.200}")
    seed = None if seed is None else whole_number("seed", seed, least=0)
    with Ledger(ledger, read_only=True) as opened:
        number, recorded = recorded_game(opened, getattr(game, "fingerprint", None))
        # a batch that hung or killed its worker could do the same here
        whole = (batch for batch in opened.batches(number) if not batch.outcome.failures)
        records = _sampled(whole, sample, np.random.default_rng(seed))
    game = as_game(game, recorded.n_players)
    with one_thread():
        answers = [attempt(game, unpack(game.n_players, record.coalitions)) for record in records]
    found = Differences()
    found.n_evaluated = len(records)
    for record, answer in zip(records, answers, strict=True):
        if answer.failures or answer.values.shape != record.outcome.values.shape:
            words = ", ".join(answer.failures) or f"{answer.values.shape[1]} outputs"
            found.append(Difference(f"batch {record.id}", f"{record.outcome.values.shape[1]} outputs", words))
            continue
        far = np.abs(answer.values - record.outcome.values) > tolerance
        for row, output in np.argwhere(far)[:3]:
            where = f"batch {record.id}, coalition {row}, output {output}"
            found.append(Difference(where, record.outcome.values[row, output], answer.values[row, output]))
    return found


def _sampled(records: Iterator[Batch], count: int, rng: np.random.Generator) -> list[Batch]:
    """Return a uniform sample of a stream, keeping only the sample in memory."""
    kept: list[Batch] = []
    for seen, record in enumerate(records):
        place = int(rng.integers(0, seen + 1))
        if len(kept) < count:
            kept.append(record)
        elif place < count:
            kept[place] = record
    return kept
