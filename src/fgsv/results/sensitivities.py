"""Questions: how shares depend on score, slice, test rows and model, and how much of that is error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fgsv.checks import as_list
from fgsv.partition import by_text
from fgsv.results.as_json import records
from fgsv.results.questions import SharesByQuestion
from fgsv.results.result import Result, check_result
from fgsv.types import Floats, Ints
from fgsv.valuation import Valuation, check_confidence, t_quantile
from fgsv.valuation.display import Section, as_html, as_text
from fgsv.valuation.intervals import ROUNDING, is_clear
from fgsv.words import counted, in_percent, option, sentence, some

RESAMPLES = 2000
MOST_GROUPS = 1000
"""With more groups than this, the search for pairs that change their order is skipped."""
SHOWN = 5


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Shares by several questions, and how much of their differences is a matter of choice."""

    shares: pd.DataFrame
    """For each question and group: question, group, share, share_low, share_high, rank, and the difference from the
    first question with its interval and whether it is `clear`, more than error."""
    groups: pd.DataFrame
    """For each group: its share by the first question, `lowest` and `highest` over all, `rank`, `best_rank` and
    `worst_rank`; the standard deviation over questions, `spread`, and its parts `choice` and `error`. If the
    error of the test rows is known, also `test_low`, `test_high` and `rank_kept`, over resampled test rows."""
    reversals: tuple[tuple[str, str, str], ...]
    """(question, before, behind): pairs that the first question orders clearly, and this one the other way."""
    by_choice: float | None
    """The part of the variance over questions that error does not explain; None with one question."""
    facts: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a document for JSON."""
        return {
            "shares": records(self.shares),
            "groups": records(self.groups),
            "reversals": [dict(zip(("question", "before", "behind"), each, strict=True)) for each in self.reversals],
            "by_choice": self.by_choice,
            "facts": list(self.facts),
        }

    def sections(self, group: str = "group") -> Iterator[Section]:
        """Yield the shares by every question, and how ranks depend on it and on the test rows."""
        words = tuple(map(sentence, self.facts))
        ranked = self.groups.sort_values("share", ascending=False, kind="stable").to_dict("records")
        columns = {"rank": "rank", "best_rank": "best rank", "worst_rank": "worst rank"}
        questions = tuple(dict.fromkeys(self.shares["question"]))
        if len(questions) > 1:
            cells: dict[str, list[str]] = {}
            for row in self.shares.to_dict("records"):
                half = (row["share_high"] - row["share_low"]) / 2
                mark = " *" if row["clear"] else ""
                cells.setdefault(row["group"], []).append(f"{row['share']:.1%} ± {half:.1%}{mark}")
            about = (
                f"Shares are by {questions[0]}; the other questions were answered by the same trainings, or by other "
                "runs. A star marks a share that differs from the first by more than its error."
            )
            table = tuple((row["group"], *cells[row["group"]]) for row in ranked)
            yield Section("How much depends on the question", (about, *words), (group, *questions), table)
            columns |= {"choice": "spread by choice", "error": "spread by error"}
            words = ()
        rows = [[str(row[name]) if "rank" in name else in_percent(row[name]) for name in columns] for row in ranked]
        named = [group, *columns.values()]
        if "test_low" in self.groups:
            named += ["over other test rows", "rank kept"]
            for cells_of_group, row in zip(rows, ranked, strict=True):
                low, high = in_percent(row["test_low"]), in_percent(row["test_high"])
                cells_of_group += [f"{low} to {high}", f"{row['rank_kept']:.0%}"]
        table = tuple((row["group"], *each) for row, each in zip(ranked, rows, strict=True))
        yield Section("Ranks", words, tuple(named), table)

    __repr__ = as_text
    _repr_html_ = as_html


def sensitivity(
    result: Result, *others: Result, labels: Sequence[str] = (), confidence: float = 0.95, seed: int = 0
) -> Sensitivity:
    """Return how shares depend on the question, without any evaluation.

    The questions are the score of a result and those that were declared before its run (`also_metric`, `also_slice`
    of `fgsv.open_table`), then those of other results. Their errors are those of the runs; if the result knows the
    error of its test rows, these are resampled, fold by fold.

    Args:
        result: The result that counts.
        others: Further results of the same providers, such as runs with other models.
        labels: A name for each of these.
        confidence: Confidence level of all intervals.
        seed: Seed of the resampling.

    Returns:
        Shares and ranks of each provider by each question, and how much of their spread is error.

    Raises:
        ValueError, TypeError: An argument is wrong, or there are no shares by the first question.

    """
    check_confidence(confidence)
    for each in (result, *others):
        check_result(each)
    labels = as_list(labels, "labels must be a list with a name for each further result")
    if labels and len(labels) != len(others):
        raise ValueError(
            f"labels must have a name for each further result, {len(others)} in all; got {labels!r:.200}"
        )
    answers = _all_answers([result, *others], labels)
    names = [str(name) for name in result.valuation.names]
    shared = np.flatnonzero(~np.isnan(answers.shares[:, 0]))
    if not len(shared) or shared[0] != 0:
        raise ValueError("there are no shares by the first question: all the data together is worth nothing by it")
    shares, covariances = answers.shares[shared], answers.covariances[:, shared[:, None], shared]
    questions = [answers.questions[place] for place in shared]
    quantile = float(t_quantile(confidence, answers.freedom))
    errors = np.sqrt(np.einsum("gqq->qg", covariances))
    ranks = _ranks(shares)
    table = _table(names, questions, shares, errors, covariances, ranks, quantile)
    spread = shares.std(axis=0, ddof=1) if len(shares) > 1 else np.zeros(len(names))
    by_error = _error_of_spread(covariances)
    groups = pd.DataFrame(
        {
            "group": names,
            "share": shares[0],
            "lowest": shares.min(axis=0),
            "highest": shares.max(axis=0),
            "rank": ranks[0],
            "best_rank": ranks.min(axis=0),
            "worst_rank": ranks.max(axis=0),
            "spread": spread,
            "choice": np.sqrt(np.maximum(spread**2 - by_error, 0.0)),
            "error": np.sqrt(by_error),
        }
    )
    by_choice = None
    if len(shares) > 1 and (spread > 0).any():
        by_choice = float(max(0.0, 1 - by_error.sum() / (spread**2).sum()))
    reversals = tuple(_reversals(names, questions, shares, quantile * errors))
    lost = [answers.questions[place] for place in np.flatnonzero(np.isnan(answers.shares[:, 0]))]
    facts = list(_facts(groups, questions, shares, by_choice, reversals, _is_of_texts(result)))
    if lost:
        why = "because all the data together scores no better than none"
        facts.append(f"by {', '.join(lost)} there are no shares, {why}")
    if result.valuation.knows_test_rows:
        resampled = _resampled(result.valuation, ranks[0], confidence, seed)
        groups = pd.concat([groups, resampled], axis=1)
        kept = resampled["rank_kept"].min()
        facts.append(
            f"over {RESAMPLES:,} resamples of the test rows, fold by fold, the least certain rank is the same in "
            f"{kept:.0%}"
        )
    return Sensitivity(table, groups, reversals, by_choice, tuple(facts))


def _all_answers(results: Sequence[Result], labels: Sequence[str]) -> SharesByQuestion:
    """Return the answers of several runs as one; the errors of two runs are independent."""
    names = [str(name) for name in results[0].valuation.names]
    parts = []
    for number, each in enumerate(results):
        valuation = each.valuation
        if valuation.outputs is not None:
            one, others = option("metric"), option("also_metric")
            instead = f"{one}: name the other scores with {others}"
            if _is_of_texts(each):
                instead = f"output: run without {option('output_by')}"
            raise ValueError(f"sensitivity needs results with one {instead}")
        places = by_text(valuation.names, range(len(valuation)))
        if places.keys() != set(names):
            odd = min(places.keys() ^ set(names))
            raise ValueError(f"the results have different providers: {odd!r} is in only one of them")
        metric = "the score" if each.source is None else each.source.metric
        found = each.by_question or SharesByQuestion.joined([valuation], (metric,))
        order = [places[name] for name in names]
        label = "" if number == 0 else f" ({labels[number - 1] if labels else number + 1})"
        questions = tuple(f"{question}{label}" for question in found.questions)
        parts.append(
            SharesByQuestion(questions, found.totals, found.shares[:, order], found.covariances[order], found.freedom)
        )
    questions = tuple(question for part in parts for question in part.questions)
    covariances = np.zeros((len(names), len(questions), len(questions)))
    start = 0
    for part in parts:
        end = start + len(part.questions)
        covariances[:, start:end, start:end] = part.covariances
        start = end
    totals, shares = (np.concatenate([getattr(part, each) for part in parts]) for each in ("totals", "shares"))
    return SharesByQuestion(questions, totals, shares, covariances, min(part.freedom for part in parts))


def _is_of_texts(result: Result) -> bool:
    """Say whether a result is about texts, which have one score."""
    return result.source is not None and result.source.task == "text"


def _table(
    names: list[str],
    questions: list[str],
    shares: Floats,
    errors: Floats,
    covariances: Floats,
    ranks: Ints,
    quantile: float,
) -> pd.DataFrame:
    """Return the shares of every question, and how they differ from those of the first."""
    variances = errors**2 + errors[0] ** 2 - 2 * covariances[:, :, 0].T
    variances[0] = 0.0
    reach = quantile * np.sqrt(np.maximum(variances, 0.0))
    gap = shares - shares[0]
    columns = {
        "share": shares,
        "share_low": shares - quantile * errors,
        "share_high": shares + quantile * errors,
        "rank": ranks,
        "difference": gap,
        "difference_low": gap - reach,
        "difference_high": gap + reach,
        "clear": is_clear(gap, reach),
    }
    frame = pd.DataFrame({"question": np.repeat(questions, len(names)), "group": names * len(questions)})
    return frame.assign(**{name: part.reshape(-1) for name, part in columns.items()})


def _ranks(shares: Floats) -> Ints:
    """Return (Q, K) ranks from 1, equal shares in the order of the groups."""
    return np.argsort(np.argsort(-shares, axis=1, kind="stable"), axis=1, kind="stable") + 1


def _error_of_spread(covariances: Floats) -> Floats:
    """Return (K,): the variance over questions to expect from errors alone."""
    n = covariances.shape[1]
    if n < 2:
        return np.zeros(len(covariances))
    return (np.einsum("gqq->g", covariances) - covariances.sum(axis=(1, 2)) / n) / (n - 1)


def _reversals(
    names: list[str], questions: list[str], shares: Floats, half_widths: Floats
) -> Iterator[tuple[str, str, str]]:
    """Yield the pairs whose order clearly changes: the two half-widths together are less than the gap, both times."""
    if len(names) > MOST_GROUPS:
        return
    margins = [
        share[:, None] - share - width[:, None] - width for share, width in zip(shares, half_widths, strict=True)
    ]
    for question, margin in zip(questions[1:], margins[1:], strict=True):
        for upper, lower in np.argwhere((margins[0] > ROUNDING) & (margin.T > ROUNDING)).tolist():
            yield question, names[upper], names[lower]


def _resampled(valuation: Valuation, ranks: Ints, confidence: float, seed: int) -> pd.DataFrame:
    """Return the shares over resampled folds of the test rows, and how often each group keeps its rank.

    What a fold adds is read from the values without it; over resamples, sums have the variance of the jackknife.
    """
    tested = valuation.test_rows
    total = float(valuation.total)
    assert tested is not None
    groups = tested.deviations(None if valuation.player_values is None else valuation.partition)[:, :, 0]
    by_fold = np.append(valuation.values, total)[:, None] - tested.n_folds * np.append(groups, tested.total, axis=1).T
    n_folds = tested.n_folds
    counts = np.random.default_rng(seed).multinomial(n_folds, np.full(n_folds, 1 / n_folds), RESAMPLES)
    sums = by_fold @ counts.T
    sums = sums[:, sums[-1] > 0]
    shares = sums[:-1] / sums[-1]
    low, high = np.quantile(shares, [(1 - confidence) / 2, (1 + confidence) / 2], axis=1)
    kept = (_ranks(shares.T) == ranks).mean(axis=0)
    return pd.DataFrame({"test_low": low, "test_high": high, "rank_kept": kept})


def _facts(
    groups: pd.DataFrame,
    questions: list[str],
    shares: Floats,
    by_choice: float | None,
    reversals: Sequence[tuple[str, str, str]],
    of_texts: bool,
) -> Iterator[str]:
    """Yield in words what the tables show."""
    if len(questions) < 2:
        others = f"declare others before a run with {option('also_metric')} or {option('also_slice')}, or "
        yield f"there is one question: {'' if of_texts else others}add results, such as those with another model"
        return
    widest = int((shares.max(axis=0) - shares.min(axis=0)).argmax())
    low, high = int(shares[:, widest].argmin()), int(shares[:, widest].argmax())
    yield (
        f"over {len(questions)} questions the share of {groups['group'][widest]} differs most: from "
        f"{shares[low, widest]:.2%} by {questions[low]} to {shares[high, widest]:.2%} by {questions[high]}"
    )
    if by_choice is not None:
        yield f"{by_choice:.0%} of the variance over questions is due to choice; the rest is the run's error"
    moved = groups[groups["best_rank"] < groups["worst_rank"]]
    named = [f"{row.group} ({row.best_rank} to {row.worst_rank})" for row in moved.itertuples()]
    yield f"change rank: {some(named, SHOWN)}" if named else "nobody changes rank"
    for question, upper, lower in reversals[:SHOWN]:
        yield f"{upper} is clearly before {lower} by {questions[0]}, and clearly behind by {question}"
    if len(reversals) > SHOWN:
        yield f"and {counted(len(reversals) - SHOWN, 'more pair')}, whose order clearly changes"
