"""Royalties: what a month's fees pay to publishers, from a sample of its answers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse

from fgsv.answers.answer import Answer
from fgsv.answers.game import NothingToShare
from fgsv.answers.month import Draws, Month, Royalties, estimated
from fgsv.answers.parameters import NOTHING_LEARNED, learned
from fgsv.answers.pieces import Pieces
from fgsv.answers.scorers import Judge, Scorer
from fgsv.answers.statement import PUBLISHERS, account_of, write_statements
from fgsv.answers.valuing import opened
from fgsv.checks import as_list, check_type, whole_number
from fgsv.files import as_path
from fgsv.game import GameError
from fgsv.ledger import Ledger
from fgsv.methods import Task
from fgsv.methods.gp import GP
from fgsv.methods.gp.values import root
from fgsv.partition import Partition
from fgsv.payout import Money, Terms
from fgsv.payout.money import whole_units
from fgsv.pipeline.folder import UnwrittenError, folder_of_run, write_result
from fgsv.results import Result
from fgsv.results.result import check_result
from fgsv.running import run
from fgsv.signals import one_thread
from fgsv.types import Floats, Ints
from fgsv.valuation import End, Estimate, Reason, Valuation, check_confidence
from fgsv.verification.replay import Records, coalitions_of, from_values
from fgsv.words import counted, now, option

SAMPLE = 2000
"""Answers that are drawn by default."""
MOST_TIMES = 4.0
"""The most evaluations of an answer, in units of the fewest."""
OF_MEAN = 200
"""Answers whose pieces tell how many evaluations an answer takes."""


def royalties(
    answers: Sequence[Answer],
    scorer: Scorer | Judge,
    *,
    seed_from: str,
    sample: int | None = None,
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
        sample: Answers to draw. Default: 2,000, or as many as the budget pays for.
        budget: Evaluations in total, in place of `sample`: half of them for as many answers as possible, the others
            for more of each, as far as the first say that this helps.
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
        how: What the contract says of an answer, for `fgsv.answers.value`: cut, duplicates, target, prompt, least,
            fingerprint.

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
    if sample is not None and budget is not None:
        raise ValueError(f"give {option('sample')} or {option('budget')}, not both: one follows from the other")
    if before is not None:
        check_result(before)
    book = Book(tuple(as_list(answers, "answers must be a list of fgsv.answers.Answer")), stratum)
    fees = sum((answer.fee for answer in book.answers), Decimal(0))
    terms = partial(Terms, currency=currency, clip=clip, floor=floor, cap=cap, pay_anyway=pay_anyway)
    whole = _in_units(fees, terms(0).unit)
    terms(whole).check(len(book.publishers))
    work = Work(book, scorer, seed_from, how)
    folder = None if out is None else as_path(out, "out")
    if folder is not None and (folder / PUBLISHERS).exists() and not force:
        raise FileExistsError(
            f"{folder / PUBLISHERS} exists: add {option('force', True)} to replace the tables in it"
        )
    with folder_of_run(folder, force=force), one_thread():
        if ledger is None:
            month = work.done(sample, budget, None, n_jobs)
        else:
            with Ledger(ledger) as recorded:
                month = work.done(sample, budget, recorded, n_jobs)
        paid = month.royalties
        amount = _in_units(Decimal(float(paid.values.sum())), terms(0).unit)
        if amount <= 0:
            raise ValueError(
                f"none of the {paid.n_draws:,} answers drawn has anything to share: there is nothing to pay"
            )
        result = Result(
            month.valuation,
            confidence=confidence,
            made=now(),
            command=command,
            before=before,
        ).paid_by(terms(amount))
        result = account_of(result, month, fees, currency, seed_from)
        if folder is None:
            return result
        return _written(result, folder, month)


@dataclass(frozen=True, eq=False)
class Book:
    """The answers of a month, and what is known of all of them."""

    answers: tuple[Answer, ...]
    stratum: str | None = None

    def __post_init__(self) -> None:
        if not self.answers:
            raise ValueError("there are no answers")
        for answer in self.answers:
            check_type(answer, Answer, "a list of fgsv.answers.Answer", "fgsv.answers.read_answers reads a file")
            if self.stratum is not None and self.stratum not in answer.columns:
                raise ValueError(f"answer {answer.id!r:.100} has no column {self.stratum!r:.100}")

    @cached_property
    def publishers(self) -> tuple[str, ...]:
        """The publishers, in order of first appearance."""
        return tuple(dict.fromkeys(name for answer in self.answers for name in answer.publishers))

    @cached_property
    def month(self) -> Month:
        """What is known of the answers, in arrays: tokens are those reported, or else words."""
        place = {name: number for number, name in enumerate(self.publishers)}
        rows, columns, tokens = [], [], []
        for row, answer in enumerate(self.answers):
            reported = all(passage.tokens for passage in answer.passages)
            for passage in answer.passages:
                rows.append(row)
                columns.append(place[passage.publisher])
                tokens.append((passage.tokens if reported else None) or len(passage.text.split()))
        shape = (len(self.answers), len(self.publishers))
        strata = [answer.columns[self.stratum] if self.stratum else "" for answer in self.answers]
        return Month(
            np.array([float(answer.fee) for answer in self.answers]),
            sparse.csr_matrix((np.array(tokens, dtype=float), (rows, columns)), shape),
            _numbered(strata),
            _numbered([answer.query for answer in self.answers]),
        )


@dataclass(frozen=True, eq=False)
class Valued:
    """A drawn answer, and what its evaluations say."""

    answer: Answer
    pieces: Pieces
    stands_for: float
    """The fees that its draws stand for."""
    valuation: Valuation | None
    """None if it has nothing to share."""
    runs: Records | None


@dataclass(frozen=True, eq=False)
class Done:
    """A month whose drawn answers are valued."""

    book: Book
    royalties: Royalties
    valued: tuple[Valued, ...]
    n_evaluations: int
    times: float
    """Evaluations of an answer of the second half, in units of the fewest."""

    @cached_property
    def valuation(self) -> Valuation:
        """The royalties as a valuation, whose players are the passages' publishers in the drawn answers."""
        found = self.royalties
        names = self.book.publishers
        owners = [names.index(name) for each in self.valued for name in each.answer.publishers]
        partition = Partition(names, np.array(owners))
        deviations = root(found.covariance)[:, :, None]
        estimate = Estimate(
            found.values[:, None],
            deviations,
            stderr=found.stderr[:, None],
            degrees_of_freedom=found.freedom,
            efficient=True,
            of_groups=True,
            method="answers",
        )
        end = End(Reason.BUDGET, f"{found.n_draws:,} of {counted(found.n_answers, 'answer')} were drawn")
        ends = np.array([0.0, found.values.sum()])
        return Valuation(estimate.kept(partition), partition, ends, self.n_evaluations, end)


@dataclass(frozen=True, eq=False)
class Work:
    """What is to be done for a month."""

    book: Book
    scorer: Any
    seed_from: str
    how: dict[str, Any]

    def done(self, sample: int | None, budget: int | None, ledger: Ledger | None, n_jobs: int | None) -> Done:
        """Draw, value, learn and sum up.

        What is drawn of an answer does not depend on what is learned; parameters are learned from the other half.
        """
        month = self.book.month
        rng = np.random.default_rng(list(hashlib.sha256(self.seed_from.encode()).digest()))
        half_of = month.halves(rng)
        rows = [np.flatnonzero(half_of == half) for half in (0, 1)]
        parts = [month.fees[each].sum() / month.fees.sum() for each in rows]
        at_once = Parallel(n_jobs=n_jobs, prefer="threads")
        wanted = whole_number(option("sample"), SAMPLE if sample is None else sample, least=4)
        if budget is not None:
            whole_number(option("budget"), budget, least=64)
            wanted = int(budget / self._mean_least())
        times, spent = 1.0, 0
        draws: list[Draws] = []
        found: list[list[Valued]] = []
        for half in (0, 1):
            if half and budget is not None:
                times = worthwhile(self._shares(draws[0], found[0]), self._errors(draws[0], found[0]))
                wanted = int((budget - spent) / (times * self._mean_least()) / parts[1])
            drawn = month.draw(rows[half], max(2, round(wanted * parts[half])), rng)
            draws.append(drawn)
            stand_for = np.bincount(drawn.answers, drawn.steps)
            some = np.unique(drawn.answers).tolist()
            found.append(at_once(delayed(self._valued)(row, stand_for[row], times, ledger) for row in some))
            spent += sum(2 if each.runs is None else len(each.runs) for each in found[half])
        learnt = [learned([_evaluated(each) for each in half if each.runs is not None]) for half in found]
        stated = [at_once(delayed(_restated)(each, learnt[1 - half]) for each in found[half]) for half in (0, 1)]
        shares = [self._shares(*each) for each in zip(draws, stated, strict=True)]
        errors = [self._errors(*each) for each in zip(draws, stated, strict=True)]
        total = estimated(month, half_of, draws, shares, errors)
        return Done(self.book, total, (*stated[0], *stated[1]), spent, times)

    def _mean_least(self) -> float:
        """Return the mean of the fewest evaluations that an answer takes."""
        some = np.unique(np.linspace(0, len(self.book.answers) - 1, OF_MEAN).astype(int))
        return float(np.mean([_least(self._pieces(row).n_players) for row in some]))

    def _pieces(self, row: int) -> Pieces:
        cut = {name: self.how[name] for name in ("cut", "duplicates") if name in self.how}
        scorer = self.scorer if isinstance(self.scorer, Scorer) else None
        return Pieces.of(self.book.answers[row], scorer=scorer, **cut)

    def _valued(self, row: int, stands_for: float, times: float, ledger: Ledger | None) -> Valued:
        """Evaluate an answer, and value it at the prior."""
        answer, pieces = self.book.answers[row], self._pieces(row)
        seed = hashlib.sha256(f"{self.seed_from}\0{row}".encode()).digest()
        options = {name: each for name, each in self.how.items() if name not in ("cut", "duplicates")}
        budget = round(times * _least(pieces.n_players))
        used = Records()
        try:
            with opened(pieces, self.scorer, ledger=ledger, n_jobs=1, **options) as (evaluator, _):
                found = run.value(
                    used.watch(evaluator),
                    pieces.partition,
                    budget=budget,
                    seed=int.from_bytes(seed[:4], "big"),
                    unbiased=True,
                    parameters=NOTHING_LEARNED,
                    progress=False,
                )
        except NothingToShare:
            return Valued(answer, pieces, stands_for, None, None)
        except GameError as error:
            raise GameError(f"answer {answer.id!r:.100}: {error}") from error
        return Valued(answer, pieces, stands_for, found, used)

    def _shares(self, draws: Draws, found: Sequence[Valued]) -> Floats:
        """Return (n, K) shares in the draws."""
        rows = np.unique(draws.answers)
        shares = np.zeros((len(rows), len(self.book.publishers)))
        for row, each in enumerate(found):
            if each.valuation is not None:
                shares[row, self._places(each)] = each.valuation.shares()
        return shares[np.searchsorted(rows, draws.answers)]

    def _errors(self, draws: Draws, found: Sequence[Valued]) -> list[tuple[Ints, Floats]]:
        """Return the publishers of each draw, and the covariance of their shares due to evaluations."""
        errors = []
        for each in found:
            deviations = None if each.valuation is None else each.valuation.group_deviations
            apart = np.zeros((1, len(each.answer.publishers))) if deviations is None else deviations[..., 0]
            apart = apart / (1.0 if each.valuation is None else each.valuation.total)
            errors.append((self._places(each), apart.T @ apart))
        return [errors[place] for place in np.searchsorted(np.unique(draws.answers), draws.answers)]

    def _places(self, each: Valued) -> Ints:
        return np.array([self.book.publishers.index(name) for name in each.answer.publishers])


def worthwhile(shares: Floats, errors: Sequence[tuple[Ints, Floats]]) -> float:
    """Return how many times the fewest evaluations an answer is worth, at equal cost in all.

    With m evaluations each, the variance is (V + W(m)) / n with n = budget / m: V between answers, and W within them,
    which falls with the square of m or faster. Then m is in proportion to the root of W / V: mostly it is the fewest.
    """
    within = float(np.mean([np.trace(error) for _, error in errors]))
    between = max(float(shares.var(axis=0, ddof=1).sum()) - within, 1e-300)
    return float(np.clip(np.sqrt(within / between), 1.0, MOST_TIMES))


def _restated(each: Valued, parameters: tuple[float, ...]) -> Valued:
    """Return an answer's valuation with parameters learned from others, from the same evaluations."""
    before, used = each.valuation, each.runs
    if before is None or used is None or before.exact:
        return each
    settings = before.settings
    assert settings is not None
    access = from_values(used.values, before.partition.n_players, None, settings)
    found = run.value(
        access,
        before.partition,
        budget=settings.budget,
        seed=settings.seed,
        unbiased=True,
        parameters=parameters,
        progress=False,
    )
    return replace(each, valuation=found)


def _evaluated(each: Valued) -> tuple[Any, Floats]:
    """Return the coalitions of an answer and their utilities."""
    assert each.runs is not None
    rows = [each.runs.row(number) for number in range(len(each.runs))]
    return coalitions_of(each.pieces.n_players, rows).masks(), each.runs.values[:, 0]


def _least(n_players: int) -> int:
    """Return the fewest evaluations of unbiased values."""
    return GP(unbiased=True).least(Task(n_players, Partition.of(None, n_players)))


def _numbered(texts: Sequence[str]) -> Ints:
    return np.unique(texts, return_inverse=True)[1].ravel()


def _in_units(money: Decimal, unit: Decimal) -> Decimal:
    """Return money rounded to whole units."""
    return whole_units((money / unit).to_integral_value(ROUND_HALF_EVEN) * unit, unit)


def _written(result: Result, folder: Path, month: Done) -> Result:
    """Write the folder; return the result with its files, and with the error if some could not be written."""
    try:
        files = [*write_result(folder, result), *write_statements(folder, month.valued, result.confidence)]
        return replace(result, files=tuple(files))
    except UnwrittenError as error:
        return replace(result, files=error.files, errors=(*result.errors, error))
