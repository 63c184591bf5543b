"""The verdict on a valuation: its shares are settled, more evaluations would settle them, or nothing can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fgsv.planning import evaluations_to_narrow
from fgsv.types import Floats, Ints
from fgsv.valuation import Valuation, check_valuation, t_quantile
from fgsv.valuation.units import unit_of
from fgsv.words import counted, level, percent

WIDEST = 0.1
"""Shares and payments must be known to within this fraction of the whole."""
EQUAL = 0.1
"""Two groups count as equal if their difference is known to within this fraction of an equal part."""
SHOWN = 3
"""Pairs named in a sentence."""


class Decision(StrEnum):
    """What a verdict decides."""

    SETTLED = "settled"
    UNDECIDED = "undecided"
    """More evaluations would settle it."""
    UNRESOLVABLE = "unresolvable"
    """No number of evaluations would: a flat fee is the honest answer."""


@dataclass(frozen=True)
class Verdict:
    """Whether the shares of a valuation can be relied on, and if not, why."""

    decision: Decision
    detail: str
    between: tuple[tuple[str, str], ...] = ()
    """Neighbours in the ranking whose order is undecided."""
    half_width: float | None = None
    """Half-width of the widest share; None if there are no shares or their errors are unknown."""
    evaluations: int | None = None
    """About how many evaluations in total would settle it; None if it is settled, or if no number would."""

    def __str__(self) -> str:
        return f"{self.decision}: {self.detail}"


def verdict(valuation: Valuation, *, confidence: float = 0.95, linear: bool = True) -> Verdict:
    """Say whether the shares of a valuation are settled, undecided or unresolvable.

    >>> import fgsv
    >>> str(verdict(fgsv.exact(fgsv.games.Airport([1, 2, 3]), ["a", "b", "c"])))
    'settled: every share is exact (Monte Carlo error only)'

    *Settled*: every share is known to within ten percentage points, and any two neighbours in the ranking are either
    ordered or equal to within a tenth of an equal part. *Unresolvable*: U(N) - U(0) is not positive, or no larger
    than its error due to the choice of test rows; or, if payments are `linear`, one group's share is certainly more
    than everything, which the others would have to pay for; or the errors of training seeds and of test rows, which
    more evaluations do not reduce, are too large by themselves. If the valuation does not know the error of the test
    rows (`knows_test_rows`), the verdict is about the Monte Carlo error only, and says so.
    """
    check_valuation(valuation)
    only = "" if valuation.knows_test_rows else " (Monte Carlo error only)"
    shared = _unresolvable(valuation, confidence, linear)
    if shared is not None:
        return Verdict(Decision.UNRESOLVABLE, shared)
    lasting = Lasting(valuation, confidence)
    half_widths = valuation.share_half_width(confidence)
    widest, stays = float(np.max(half_widths)), float(np.max(lasting.half_width))
    if not np.isfinite(widest):
        return Verdict(Decision.UNDECIDED, f"method {valuation.method!r} does not estimate the errors of its values")
    if valuation.exact and not lasting.causes:
        return Verdict(Decision.SETTLED, f"every share is exact{only}", half_width=0.0)
    pairs = list(_undecided_pairs(valuation, confidence, lasting))
    hopeless = tuple(dict.fromkeys((upper, lower) for upper, lower, factor in pairs if not np.isfinite(factor)))
    if stays >= WIDEST or hopeless:
        detail = lasting.in_words(stays if stays >= WIDEST else None, hopeless, confidence)
        return Verdict(Decision.UNRESOLVABLE, detail, hopeless, widest)
    if widest <= WIDEST and not pairs:
        known = f"every share is known to within {percent(widest)} at {level(confidence)} confidence"
        return Verdict(Decision.SETTLED, f"{known}{only}", half_width=widest)
    reducible = np.maximum(half_widths**2 - lasting.half_width**2, 0.0) / (WIDEST**2 - lasting.half_width**2)
    between = tuple(dict.fromkeys((upper, lower) for upper, lower, _ in pairs))  # once, also if by several outputs
    words, needed = [], {}
    if widest > WIDEST:
        words.append(f"the widest share is known only to within {widest:.2%} at {level(confidence)} confidence")
        needed[f"to know every share to within {WIDEST:.0%}"] = float(np.sqrt(np.max(reducible)))
    if between:
        words.append(f"the order is uncertain between {pairs_in_words(between)}")
        needed["to know the order, or that they are about equal"] = max(factor for _, _, factor in pairs)
    counts = {question: evaluations_to_narrow(valuation, factor) for question, factor in needed.items()}
    costs = "; ".join(f"{question}: about {count:,} evaluations" for question, count in counts.items())
    return Verdict(Decision.UNDECIDED, f"{' and '.join(words)}; {costs}", between, widest, max(counts.values()))


def within_noise(valuation: Valuation, confidence: float) -> int | None:
    """Return the output whose U(N) - U(0) is no larger than its error due to the test rows; None if there is none."""
    noise = valuation.total_half_width(confidence)
    if noise is None:
        return None
    beyond = np.atleast_1d(valuation.total - noise)
    return int(np.argmin(beyond)) if beyond.min() <= 0 else None


def noise_in_words(valuation: Valuation, confidence: float, output: int) -> str:
    """Say that U(N) - U(0) of an output is within the noise of the test rows."""
    noise = valuation.total_half_width(confidence)
    assert noise is not None
    total, reach = (float(np.atleast_1d(each)[output]) for each in (valuation.total, noise))
    return (
        f"all the data together raises the score{_for_output(valuation, output)} by {total:.4g}, which is within the "
        f"error from the choice of test rows, ± {reach:.4g}: other test rows could reverse it. "
        "More test rows may help, more evaluations cannot"
    )


def _unresolvable(valuation: Valuation, confidence: float, linear: bool) -> str | None:
    """Return why no number of evaluations can settle the shares; None if some number can."""
    flat = "A flat fee is the honest answer"
    if not np.all(valuation.total > 0):
        which = _for_output(valuation, int(np.argmin(valuation.total)))
        return (
            f"with all the data the model scores no better than with none{which}: there is nothing to share. {flat}"
        )
    if (noisy := within_noise(valuation, confidence)) is not None:
        return f"{noise_in_words(valuation, confidence, noisy)}. {flat}"
    low = valuation.share_interval(confidence)[..., 0].reshape(valuation.partition.n_groups, -1)
    if linear and np.any(low > 1):
        largest, output = map(int, np.unravel_index(low.argmax(), low.shape))
        which = _for_output(valuation, output)
        return (
            f"{valuation.names[largest]} is worth more than all the data together{which}, because other data lowers "
            f"the score: others would have to pay for its share of at least {low[largest, output]:.0%}. {flat}"
        )
    return None


def _for_output(valuation: Valuation, output: int) -> str:
    """Name one of several outputs; empty if there is only one."""
    return "" if valuation.outputs is None else f" for {valuation.outputs[output]}"


def _undecided_pairs(valuation: Valuation, confidence: float, lasting: Lasting) -> Iterator[tuple[str, str, float]]:
    """Yield neighbours in the ranking whose order is uncertain, and how much narrower their interval has to be.

    The factor is infinite where errors that no evaluations reduce are enough to leave it uncertain.
    """
    if not valuation.stderr.any() and not lasting.causes:
        return
    n_groups = valuation.partition.n_groups
    quantile = float(t_quantile(confidence, valuation.degrees_of_freedom))
    totals = np.atleast_1d(valuation.total).tolist()
    for output, (total, ranked) in enumerate(zip(totals, rankings(valuation), strict=True)):
        apart, reaches = (ranked.gaps / total).tolist(), (quantile * ranked.errors / total).tolist()
        for (upper, lower), gap, reach in zip(pairwise(ranked.order.tolist()), apart, reaches, strict=True):
            stays, decided_by = lasting.of_pair(upper, lower, output), max(gap, EQUAL / n_groups)
            if np.hypot(reach, stays) > decided_by:
                room = np.sqrt(decided_by**2 - stays**2) if stays < decided_by else 0.0
                factor = reach / room if room > 0 else np.inf
                yield str(valuation.names[upper]), str(valuation.names[lower]), factor


class Ranking(NamedTuple):
    """The groups from the most valuable to the least."""

    order: Ints
    gaps: Floats
    """(K - 1,): by how much each is above the next."""
    errors: Floats
    """(K - 1,): the standard errors of the gaps, due to sampling."""


def rankings(valuation: Valuation) -> list[Ranking]:
    """Return the ranking of the groups by each output.

    A method without joint errors of its groups values each group on its own, so the errors are independent.
    """
    values, alone = (each.reshape(len(valuation), -1) for each in (valuation.values, valuation.stderr))
    deviations = valuation.group_deviations
    units = None if deviations is None else unit_of(deviations)
    found = []
    for output, column in enumerate(values.T):
        order = np.argsort(-column, kind="stable")
        if deviations is None or units is None:
            errors = np.hypot(alone[order[:-1], output], alone[order[1:], output])
        else:
            steps = np.diff(deviations[:, order, output], axis=1) / units[output]
            errors = np.sqrt((steps**2).sum(axis=0)) * units[output]
        found.append(Ranking(order, -np.diff(column[order]), errors))
    return found


def pairs_in_words(pairs: Sequence[tuple[str, str]], most: int = SHOWN) -> str:
    """Name the first pairs, and count the others."""
    more = f", and {counted(len(pairs) - most, 'more pair')}" if len(pairs) > most else ""
    return "; ".join(f"{upper} and {lower}" for upper, lower in pairs[:most]) + more


class Lasting:
    """The errors of shares that no number of evaluations reduces: those of training seeds and of test rows."""

    def __init__(self, valuation: Valuation, confidence: float) -> None:
        rows: dict[str, tuple[Floats, float]] = {}
        if valuation.seed_deviations is not None and valuation.seed_noise is not None:
            quantile = float(t_quantile(confidence, min(valuation.seed_noise.freedom)))
            rows["training seeds"] = valuation.seed_deviations / valuation.total, quantile
        if valuation.test_deviations is not None and valuation.test_rows is not None:
            whole, lasting = (valuation.test_half_width(confidence, lasting=each) for each in (False, True))
            part = (lasting / np.where(whole > 0, whole, 1.0)).reshape(len(valuation), -1)
            quantile = float(t_quantile(confidence, valuation.test_rows.freedom))
            rows["the choice of test rows"] = valuation.test_deviations * part / valuation.total, quantile
        self._rows = list(rows.values())
        self.causes = list(rows)
        """Where they come from, in words."""
        self.half_width = valuation.lasting_half_width(confidence)
        """(K,) or (K, q)"""

    def of_pair(self, upper: int, lower: int, output: int) -> float:
        """Return the half-width of the difference of two shares."""
        parts = [quantile * (rows[:, upper, output] - rows[:, lower, output]) for rows, quantile in self._rows]
        return float(np.sqrt(sum((part**2).sum() for part in parts)))

    def in_words(self, widest: float | None, pairs: Sequence[tuple[str, str]], confidence: float) -> str:
        """Say what these errors leave unknown: the widest share, if it is that, and the order of pairs."""
        unknown = []
        if widest is not None:
            unknown.append(f"the widest share known only to within {widest:.2%} at {level(confidence)} confidence")
        if pairs:
            unknown.append(f"the order uncertain between {pairs_in_words(pairs)}")
        causes = " and ".join(self.causes)
        leave = "leaves" if self.causes == ["the choice of test rows"] else "leave"
        help = {
            "training seeds": "averaging several trainings",
            "the choice of test rows": "more test rows",
        }
        remedies = " or ".join(help[each] for each in self.causes)
        fee = ". A flat fee is the honest answer" if widest is not None else ""
        return f"{causes} alone {leave} {' and '.join(unknown)}: {remedies} may help, more evaluations cannot{fee}"
