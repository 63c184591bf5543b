"""How epochs of the opening are weighed, and which draws their processes are fitted without."""

import numpy as np
import pytest
from shortened import shorten_fits

import fgsv
from fgsv.games import SumOfUnanimity
from fgsv.methods.covariance import opening
from fgsv.methods.covariance.design import Cells, divided, most_strata
from fgsv.methods.covariance.opening_epoch import LEARNING, epoch_weight, milestone


def base(n):
    sizes = np.arange(1, n)
    return 1 / np.sqrt(sizes * (n - sizes))


def opened(game, n, n_rounds, seed=0, **options):
    """Return the opening of a game after some rounds."""
    ends = game(np.array([[False] * n, [True] * n]))[:, None]
    problem = fgsv.methods.Problem(fgsv.methods.Task(n, fgsv.Partition.of(np.arange(n))), ends)
    estimator = fgsv.methods.Covariance(**options).start(problem)
    for number in range(n_rounds):
        draws = estimator.draw(np.random.default_rng([seed, number]))
        estimator.update(draws, game(draws.coalitions.masks())[:, None])
    return estimator._opening


def vote(masks):
    return (masks.sum(axis=1) > 6).astype(float)


@pytest.fixture
def quick(monkeypatch):
    """Short fits and epochs: nothing but the precision depends on them."""
    shorten_fits(monkeypatch)
    monkeypatch.setattr(opening, "EPOCHS", (32, 64, 256))
    monkeypatch.setattr(opening, "HAND_OVER", ((128, 1024),))
    monkeypatch.setattr(opening, "FOLDS_OF_FEW", 4)


def test_the_weight_of_an_epoch_by_hand():
    """With four players there are 4, 6 and 4 coalitions; before any is complete 7 draws are divided by `base`."""
    part = base(4) / base(4).sum()
    number, first, last = np.array([4, 6, 4]), 2 * part, 7 * part
    variance = (base(4) ** 2 * (number - first) * (number - last) / number**2 / (5 * part)).sum()
    assert epoch_weight(base(4), 2, 7) == pytest.approx(7**LEARNING / variance)


def test_where_coalitions_are_plenty_weights_are_counts():
    found = [epoch_weight(base(100), before, known) for before, known in ((62, 126), (126, 1022))]
    assert found[1] / found[0] == pytest.approx((1022 - 126) / (126 - 62) * (1022 / 126) ** LEARNING, rel=0.2)


def test_a_last_epoch_that_fills_all_sizes_up_outweighs_the_others():
    weights = [epoch_weight(base(10), before, known) for before, known in ((126, 254), (254, 510), (510, 1020))]
    assert weights[1] > 8 * weights[0]
    assert weights[2] > 50 * weights[1]


def test_weights_do_not_depend_on_utilities(quick):
    """Laws do: with another game other sizes are drawn, and the epochs weigh the same."""
    games = SumOfUnanimity(12), vote
    one, other = (opened(game, 12, 6) for game in games)
    assert len(one.epochs) == len(other.epochs) == 2
    assert not np.allclose(one.epochs[-1].law.within, other.epochs[-1].law.within, atol=0.01)
    np.testing.assert_array_equal(one._counted()[1], other._counted()[1])


def learning_curve(masks):
    """Players differ a lot alone, and hardly if all but one are there."""
    worth = masks @ np.linspace(0.5, 2, masks.shape[1])
    return worth / (1 + worth)


def by_itself(masks):
    return masks @ np.linspace(0.5, 2, masks.shape[1])


@pytest.mark.parametrize(
    ("game", "n", "ends"),
    [
        (learning_curve, 12, [32, 64, 256]),
        (by_itself, 12, [64, 256]),
        (lambda masks: by_itself(masks) ** 4, 12, [64, 256]),  # all but one vary more
        (vote, 12, [64, 256]),  # neither varies
        (learning_curve, 21, [32, 64, 256]),
        (by_itself, 21, [32, 64, 256]),
    ],
)
def test_the_first_epoch_of_few_players_is_short_where_single_players_vary_most(quick, game, n, ends):
    found = opened(game, n, 6)
    assert [epoch.end for epoch in found.epochs] == ends
    assert (found.epochs[0].law.targets[0] < 0.5) == (n <= 20)


def test_where_nothing_is_corrected_the_first_epoch_is_long(quick):
    """A law that fits what is steep is worth most to the draws that correct."""
    ends = {plug_in: opened(learning_curve, 12, 4, plug_in=plug_in).epochs[0].end for plug_in in (False, True)}
    assert ends == {False: 32, True: 64}


def test_a_steep_output_is_enough(quick):
    def both(masks):
        return np.stack([by_itself(masks), learning_curve(masks)], axis=1)

    masks = np.stack([np.zeros(12, dtype=bool), np.ones(12, dtype=bool)])
    estimator = fgsv.methods.Covariance().start(
        fgsv.methods.Problem(fgsv.methods.Task(12, fgsv.Partition.of(np.arange(12))), both(masks))
    )
    for number in range(3):
        draws = estimator.draw(np.random.default_rng(number))
        estimator.update(draws, both(draws.coalitions.masks()))
    assert [epoch.end for epoch in estimator._opening.epochs] == [32, 64]


@pytest.mark.parametrize(("n", "length"), [(6, 20), (12, 64), (16, 896), (60, 896)])
def test_no_law_has_more_strata(n, length):
    cells, rng = Cells(np.zeros(n, dtype=int)), np.random.default_rng(0)
    known = np.where(cells.sizes % n == 0, 1, 0)
    for spread in (0.1, 1, 10):
        wanted = np.exp(spread * rng.standard_normal(n + 1))
        assert divided(cells, wanted, known, length).n_strata <= most_strata(cells, length)


def test_a_draw_stays_in_its_fold(quick):
    """Also when sizes before it are complete: it is corrected by a process that was fitted without its fold."""
    fold_of = {}
    for n_rounds in range(4, 9):
        found = opened(SumOfUnanimity(8), 8, n_rounds)
        assert len(found.epochs) == 2
        rows, sample, _ = found._sample(found.n_evaluations)
        for number, fold in enumerate(sample.folds(4)):
            for row in rows[fold]:
                assert fold_of.setdefault(row, number) == number
    assert len(fold_of) > 80


def test_processes_are_fitted_again_at_milestones(quick, monkeypatch):
    fits, fitted = [], opening.Opening._fitted
    monkeypatch.setattr(
        opening.Opening, "_fitted", lambda self, *rest: fits.append(len(rest[1])) or fitted(self, *rest)
    )
    found = opened(SumOfUnanimity(12), 12, 4)
    del fits[:]
    while found.n_evaluations < 256:
        found.estimate()
        draws = found.draw(np.random.default_rng(found.n_evaluations))
        found.update(draws, SumOfUnanimity(12)(draws.coalitions.masks())[:, None])
    assert [milestone(count) for count in (16, 23, 24, 47, 48, 64)] == [16, 16, 24, 32, 48, 64]
    assert len(fits) == 4 * 3  # at 96, 128 and 192
    assert all(fewer < 192 for fewer in fits)
