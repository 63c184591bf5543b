"""Royalties: what a month's fees pay to publishers, from a sample of its answers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse

from fgsv.answers.answer import Answer
from fgsv.answers.game import NothingToShare
from fgsv.answers.month import Draws, Month, Royalties, estimated
from fgsv.answers.pieces import Pieces
from fgsv.answers.scorers import Judge, Scorer, as_scorer
from fgsv.answers.statement import texts, with_account
from fgsv.answers.valuing import value
from fgsv.checks import as_list, check_type, whole_number
from fgsv.files import as_path
from fgsv.game import GameError
from fgsv.ledger import Ledger
from fgsv.methods import Task
from fgsv.methods.gp import GP
from fgsv.methods.gp.fitting import fitted_together
from fgsv.methods.gp.kernel import COMMON
from fgsv.methods.gp.values import root
from fgsv.partition import Partition
from fgsv.payout import Money, Terms
from fgsv.payout.money import in_whole_units
from fgsv.pipeline.folder import folder_of_run
from fgsv.pipeline.pipeline import written
from fgsv.results.result import Result, check_result
from fgsv.running import run
from fgsv.signals import one_thread
from fgsv.types import Floats, Ints, Masks
from fgsv.valuation import End, Estimate, Reason, Valuation, check_confidence
from fgsv.verification.replay import Records, from_values
from fgsv.words import counted, now

OF_MEAN = 200
"""Answers whose pieces tell how many evaluations an answer takes."""
FITTED = 100
"""Answers of a half to which parameters are fitted."""
AT_PRIOR = (0.0,) * COMMON
OPTIONS: dict[str, Any] = {"unbiased": True, "progress": False}


def royalties(
    answers: Sequence[Answer],
    scorer: Scorer | Judge,
    *,
    seed_from: str,
    sample: int = 2000,
    budget: int | None = None,
    stratum: str | None = None,
    currency: str = "EUR",
    clip: bool = False,
    floor: Money | None = None,
    cap: Money | None = None,
    pay_anyway: bool = False,
    confidence: float = 0.95,
    ledger: str | Path | None = None,
    n_jobs: int | None = 1,
    before: Result | None = None,
    out: str | Path | None = None,
    force: bool = False,
    command: str | None = None,
    **how: Any,
) -> Result:
    """Pay a month's fees to the publishers of the passages that its answers were made from.

        royalty(k) = sum over all answers of fee * share of k in the answer

    Answers are drawn in proportion to their fees, each is valued without bias, and the tokens that were ingested for
    all others make the sum more precise. An answer that its sources hardly help has nothing to share: its fee is not
    paid. Run it again with its ledger to continue it; the bits do not depend on workers.

    Args:
        answers: All answers of the month, each with its fee, such as those of `read_answers`.
        scorer: A `Scorer`, or a judge with a `fingerprint`.
        seed_from: A text from which all that is drawn follows, such as a number that became public after the month.
        sample: Answers to draw.
        budget: Evaluations in total, in place of `sample`: the first half of them for as many answers as possible,
            the second for more evaluations of each, as far as the variances of the first say that this helps.
        stratum: Name of a column of the answers, such as their market: each gets its part of the sample.
        currency: Of the fees; three letters.
        clip: Pay nothing for negative values, rather than charge for them; not faithful.
        floor: Smallest payment to each publisher; not faithful.
        cap: Largest payment to each publisher; not faithful.
        pay_anyway: Pay even if payments are uncertain or absurd.
        confidence: Level of all intervals.
        ledger: File that records every evaluation, and answers those that it has.
        n_jobs: Answers that are valued at a time, in threads: scorers wait for devices or servers.
        before: The result of the month before, for a settlement.
        out: Folder for the result: report.html, valuation.json, a table for each publisher, telemetry.
        force: Whether to replace a finished result in that folder.
        command: The command line, for the report.
        how: What the contract says of an answer, as for `fgsv.answers.value`: cut, duplicates, target, prompt, least;
            and the fingerprint of a judge.

    Returns:
        The result: its valuation has the royalties of the publishers, in the currency; its payout, what is paid.

    Raises:
        ValueError, TypeError: An argument is wrong, or there is nothing to pay; nothing was evaluated.
        GameError: An answer could not be evaluated; the ledger has those before.

    Examples:
        >>> from fgsv.answers import Answer, Passage
        >>> passages = [Passage("It rained on Monday.", "North"), Passage("Tuesday was dry.", "South")]
        >>> asked = [Answer("When did it rain?", "On Monday.", passages, fee="0.50") for _ in range(4)]
        >>> judge = lambda query, answer, pieces: float("Monday" in " ".join(pieces))
        >>> paid = royalties(asked, judge, seed_from="2026-11-30 1.0854").payout
        >>> dict(zip(paid.names, map(str, paid.payments)))
        {'North': '2.00', 'South': '0.00'}

    """
    check_type(seed_from, str, "a text as seed_from")
    check_confidence(confidence)
    budget = None if budget is None else whole_number("budget", budget, 64)
    if before is not None:
        check_result(before)
    work = Work.of(as_list(answers, "answers must be a list of fgsv.answers.Answer"), stratum, scorer, seed_from, how)
    fees = sum((answer.fee for answer in work.answers), Decimal(0))
    terms = Terms(0, currency, clip, floor, cap, pay_anyway)
    terms = replace(terms, amount=in_whole_units(fees, terms.unit, ROUND_HALF_EVEN))
    terms.check(len(work.publishers))
    folder = None if out is None else as_path(out, "out")
    with (
        folder_of_run(folder, force=force),
        one_thread(),
        nullcontext() if ledger is None else Ledger(ledger) as recorded,
    ):
        total, valued = work.done(whole_number("sample", sample, 4), budget, recorded, n_jobs)
        amount = in_whole_units(float(total.values.sum()), terms.unit, ROUND_HALF_EVEN)
        if amount <= 0:
            raise ValueError(f"none of the {total.n_draws:,} answers drawn has anything to share")
        valuation = work.valuation(total, valued)
        result = Result(valuation, confidence=confidence, made=now(), command=command, before=before)
        result = with_account(
            result.paid_by(replace(terms, amount=amount)), total, valued, f"{fees:f} {currency}", seed_from
        )
        return result if folder is None else written(result, folder, texts=texts(valued, confidence))


@dataclass(frozen=True, eq=False)
class Valued:
    """A drawn answer, and what its evaluations say."""

    answer: Answer
    pieces: Pieces
    stands_for: float
    """The fees that its draws stand for."""
    run: tuple[Masks, Floats]
    """(m, n) coalitions, the empty and the full one first, and their (m,) utilities."""
    valuation: Valuation | None = None
    """None if it has nothing to share."""


@dataclass(frozen=True, eq=False)
class Work:
    """What is to be done for a month."""

    answers: list[Answer]
    publishers: dict[str, int]
    """The publishers, numbered in order of first appearance."""
    month: Month
    scorer: Scorer | Judge
    seed_from: str
    how: dict[str, Any]

    @classmethod
    def of(cls, answers: list[Answer], stratum: str | None, *others: Any) -> Work:
        """Look at all answers with a fee. Tokens are those that were reported, or else words."""
        publishers: dict[str, int] = {}
        found = []
        for answer in answers:
            check_type(answer, Answer, "a list of fgsv.answers.Answer", "fgsv.answers.read_answers reads a file")
        answers = [answer for answer in answers if answer.fee]
        for row, answer in enumerate(answers):
            if stratum is not None and stratum not in answer.columns:
                raise ValueError(f"answer {answer.id!r:.100} has no column {stratum!r:.100}")
            are_reported = all(passage.tokens for passage in answer.passages)
            for passage in answer.passages:
                read = passage.tokens if are_reported else len(passage.text.split())
                found.append((row, publishers.setdefault(passage.publisher, len(publishers)), read))
        if len(answers) < 2:
            raise ValueError(f"a month needs two answers with a fee, got {len(answers)}")
        rows, columns, tokens = np.array(found, dtype=float).T
        month = Month(
            np.array([float(answer.fee) for answer in answers]),
            sparse.csr_matrix((tokens, (rows, columns)), (len(answers), len(publishers))),
            _numbered([answer.columns[stratum] if stratum else "" for answer in answers]),
            _numbered([answer.query for answer in answers]),
        )
        return cls(answers, publishers, month, *others)

    def done(
        self, sample: int, budget: int | None, ledger: Ledger | None, n_jobs: int | None
    ) -> tuple[Royalties, list[Valued]]:
        """Draw, value, learn and sum up.

        What is drawn of an answer does not depend on what is learned; parameters are learned from the other half.
        """
        month = self.month
        rng = np.random.default_rng(list(hashlib.sha256(self.seed_from.encode()).digest()))
        half_of = rng.permutation(len(month.fees)) % 2
        at_once = Parallel(n_jobs=n_jobs, prefer="threads")
        some = [] if budget is None else np.unique(np.linspace(0, len(half_of) - 1, OF_MEAN).astype(int)).tolist()
        mean = sum(_least(self._pieces(row)) for row in some) / max(1, len(some))
        spent = 0
        draws: list[Draws] = []
        found: list[list[Valued]] = []
        for half in (0, 1):
            rows = np.flatnonzero(half_of == half)
            part = month.fees[rows].sum() / month.fees.sum() if sample < len(half_of) else 1.0
            times = worthwhile(*self._arrays(draws[0], found[0])) if half and budget else 1.0
            count = sample * part if budget is None else (budget - spent) / (2 - half) / (times * mean)
            draws.append(month.draw(rows, max(2, round(count)), rng))
            fees = np.bincount(draws[half].answers, draws[half].steps)
            drawn = np.flatnonzero(fees).tolist()
            found.append(at_once(delayed(self._valued)(row, fees[row], times, ledger) for row in drawn))
            spent += sum(len(each.run[1]) for each in found[half])
        learnt = [
            fitted_together([each.run for each in half if each.valuation is not None][:FITTED]) for half in found
        ]
        found = [at_once(delayed(_restated)(each, learnt[1 - half]) for each in found[half]) for half in (0, 1)]
        shares, errors = zip(*map(self._arrays, draws, found), strict=True)
        return estimated(month, half_of, draws, shares, errors), found[0] + found[1]

    def _pieces(self, row: int) -> Pieces:
        cut = {name: self.how[name] for name in ("cut", "duplicates") if name in self.how}
        return Pieces.of(self.answers[row], scorer=as_scorer(self.scorer), **cut)

    def _valued(self, row: int, stands_for: float, times: float, ledger: Ledger | None) -> Valued:
        """Evaluate an answer, and value it at the prior."""
        answer = self.answers[row]
        pieces = self._pieces(row)
        records = Records()
        valuation = None
        seed = int.from_bytes(hashlib.sha256(f"{self.seed_from}\0{row}".encode()).digest()[:4], "big")
        options = OPTIONS | {"records": records, "ledger": ledger, "n_jobs": 1, "seed": seed, "parameters": AT_PRIOR}
        try:
            with suppress(NothingToShare):
                valuation = value(pieces, self.scorer, round(times * _least(pieces)), **options, **self.how)
        except (GameError, ValueError) as error:  # a prompt that is too long, among others
            named = f"answer {answer.id!r:.100}: {error}"
            raise (GameError(named) if isinstance(error, GameError) else ValueError(named)) from error
        return Valued(answer, pieces, stands_for, (records.masks(pieces.n_players), records.values[:, 0]), valuation)

    def _arrays(self, draws: Draws, found: Sequence[Valued]) -> tuple[Floats, list[tuple[list[int], Floats]]]:
        """Return (n, K) shares in the draws; and of each its publishers, and the covariance of their shares."""
        rows = np.unique(draws.answers)
        shares = np.zeros((len(rows), len(self.publishers)))
        errors = []
        for row, each in enumerate(found):
            places = [self.publishers[name] for name in each.answer.publishers]
            apart = np.zeros((1, len(places)))
            if each.valuation is not None:
                shares[row, places] = each.valuation.shares()
                if (deviations := each.valuation.group_deviations) is not None:
                    apart = deviations[..., 0] / each.valuation.total
            errors.append((places, apart.T @ apart))
        place = np.searchsorted(rows, draws.answers)
        return shares[place], [errors[k] for k in place]

    def valuation(self, total: Royalties, valued: Sequence[Valued]) -> Valuation:
        """Return the royalties as a valuation, whose players are the publishers in the drawn answers."""
        owners = [self.publishers[name] for each in valued for name in each.answer.publishers]
        partition = Partition(tuple(self.publishers), np.array(owners))
        estimate = Estimate(
            total.values[:, None],
            root(total.covariance)[:, :, None],
            stderr=total.stderr[:, None],
            degrees_of_freedom=total.freedom,
            efficient=True,
            of_groups=True,
            method="answers",
            errors="the choice of answers, and of their evaluations",
        )
        return Valuation(
            estimate.kept(partition),
            partition,
            np.array([0.0, total.values.sum()]),
            sum(len(each.run[1]) for each in valued),
            End(Reason.BUDGET, f"{total.n_draws:,} of {counted(total.n_answers, 'answer')} were drawn"),
        )


def worthwhile(shares: Floats, errors: Sequence[tuple[Sequence[int], Floats]]) -> float:
    """Return how many times the fewest evaluations an answer is worth, at equal cost in all.

    With m evaluations each, the variance is (V + W(m)) / n with n = budget / m: V between answers, and W within them,
    which falls with the square of m or faster. Then m is in proportion to the root of W / V: mostly it is the
    fewest, and here at most four times as many.
    """
    within = float(np.mean([np.trace(error) for _, error in errors]))
    between = max(float(shares.var(axis=0, ddof=1).sum()) - within, 1e-300)
    return float(np.clip(np.sqrt(within / between), 1.0, 4.0))


def _restated(each: Valued, learnt: tuple[float, ...]) -> Valued:
    """Return an answer with parameters learned from others, from the same evaluations."""
    if each.valuation is None or each.valuation.settings is None or each.valuation.exact:
        return each
    settings = each.valuation.settings
    access = from_values(each.run[1][:, None], each.pieces.n_players, None, settings)
    options = OPTIONS | {"budget": settings.budget, "seed": settings.seed, "parameters": learnt}
    return replace(each, valuation=run.value(access, each.pieces.partition, **options))


def _least(pieces: Pieces) -> int:
    """Return the fewest evaluations of unbiased values."""
    return GP(unbiased=True).least(Task(pieces.n_players, pieces.partition))


def _numbered(texts: list[str]) -> Ints:
    return np.unique(np.array(texts, dtype=object), return_inverse=True)[1]
