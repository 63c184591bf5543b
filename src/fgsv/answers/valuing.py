"""What each publisher's pieces were worth to one answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fgsv.answers.answer import Answer
from fgsv.answers.game import Judged, Likelihood, NothingToShare, Prompt, game_of
from fgsv.answers.pieces import Pieces
from fgsv.answers.scorers import Judge, Scorer
from fgsv.evaluation.evaluator import Evaluator
from fgsv.ledger import Ledger
from fgsv.methods.gp.gp import gains_by_singles
from fgsv.running import run
from fgsv.valuation import Valuation
from fgsv.verification.replay import Records


def value(
    answer: Answer | Pieces,
    scorer: Scorer | Judge,
    budget: int = 64,
    unbiased: bool = False,
    *,
    cut: str | int = "sentences",
    duplicates: str = "share",
    target: str = "log-likelihood",
    prompt: Prompt | None = None,
    least: float | None = None,
    fingerprint: str | None = None,
    ledger: str | Path | Ledger | None = None,
    records: Records | None = None,
    n_jobs: int | None = None,
    on_error: str | float = "raise",
    **options: Any,
) -> Valuation:
    """Return what each publisher's pieces were worth to an answer: the sum of their Shapley values.

    Up to 64 pieces, each alone comes first, if there are evaluations for all. With a budget of 2^n or more the values
    are exact; otherwise they are predictions, or with `unbiased` corrected ones, which are for those who add up many
    answers.

    Args:
        answer: The answer, or its `Pieces`, cut before.
        scorer: A `Scorer`, or a judge: a function from query, answer and the texts of a coalition to a number.
        budget: Evaluations in total, each a prompt of the model.
        unbiased: Whether to state values without bias, rather than those that are closest.
        cut: How passages are cut; see `Pieces.of`.
        duplicates: Whose a piece is that several publishers have; see `Pieces.of`.
        target: What a coalition is worth: "log-likelihood", "probability" or "logit" of the answer.
        prompt: What stands around the pieces.
        least: What U(N) - U(0) must exceed by contract, to be shared. Default: 0. It must always exceed the engine's
            rounding.
        fingerprint: What identifies a judge in a ledger.
        ledger: File that records every evaluation, and answers those that it has.
        records: Where every evaluation is added, in draw order after U(0) and U(N).
        n_jobs: Workers, as for `fgsv.value`.
        on_error: As for `fgsv.value`.
        options: Other arguments of `fgsv.value`: seed, precision, and so on.

    Returns:
        The valuation: groups are publishers, and players are named by their text.

    Raises:
        NothingToShare: The sources hardly help; two evaluations were made.
        ValueError, TypeError: An argument is wrong; nothing was evaluated.

    Examples:
        >>> from fgsv.answers import Answer, Passage, value
        >>> north = Passage("It rained on Monday. It was cold.", "North")
        >>> passages = [north, Passage("On Monday it poured.", "South")]
        >>> answer = Answer("When did it rain?", "On Monday.", passages)
        >>> result = value(answer, lambda query, answer, pieces: float("Monday" in " ".join(pieces)))
        >>> result.names, result.values.tolist()
        (('North', 'South'), [0.5, 0.5])

    """
    game = game_of(
        answer, scorer, cut=cut, duplicates=duplicates, target=target, prompt=prompt, fingerprint=fingerprint
    )
    function = game.function
    assert isinstance(function, Likelihood | Judged)
    if unbiased:
        options["unbiased"] = True
    elif "method" not in options and gains_by_singles(game.n_players, budget):
        options["singles_first"] = True
    with Evaluator(game, ledger=ledger, n_jobs=n_jobs, on_error=on_error) as evaluator:
        access = evaluator if records is None else records.watch(evaluator)
        ends = access.ends()
        rise = float(ends[1, 0] - ends[0, 0])
        if not rise > (threshold := 0.0 if least is None else least):
            raise NothingToShare(rise, f"is not above the threshold of {threshold:.3g}")
        if isinstance(function, Likelihood) and function.is_rounding(ends[:, 0]):
            raise NothingToShare(rise, "may be due to rounding by the engine; float32 rounds least")
        return run.value(access, function.pieces.partition, budget=budget, **options)
