"""Valuations: values of groups with their errors, for any grouping of the players."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fgsv.checks import check_type
from fgsv.files import encode
from fgsv.game import Game
from fgsv.partition import Partition
from fgsv.types import Floats
from fgsv.valuation import display
from fgsv.valuation.end import End
from fgsv.valuation.estimate import Estimate, Failures
from fgsv.valuation.intervals import bounds, joint_half_width, t_quantile
from fgsv.valuation.seed_noise import SeedNoise
from fgsv.valuation.settings import RunSettings
from fgsv.valuation.test_rows import TestRows
from fgsv.words import counted, some

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class GroupValue:
    """One group's row of a valuation; with several outputs the numbers are arrays, one number for each."""

    name: Hashable
    players: float
    """How many players it has."""
    value: Floats
    stderr: Floats
    interval: Floats
    """Lower and upper bound of the value at 95% confidence."""
    share: Floats | None
    """Its part of U(N) - U(0); None if that is not positive."""
    share_interval: Floats | None


@dataclass(frozen=True, eq=False)
class Valuation:
    """An estimate and the groups that it is about: their values, standard errors and shares follow.

    Numbers of groups and players have a column for each output if the game names its outputs or has several of them.
    """

    estimate: Estimate
    """Of the stated outputs, with at most 64 deviations."""
    partition: Partition
    ends: Floats
    """U(0) and U(N): (2,), or (2, q)."""
    n_evaluations: int
    end: End
    """Why the run ended."""
    outputs: tuple[str, ...] | None = None
    settings: RunSettings | None = None
    """What is needed to repeat the run; None if this was not a run."""
    grouped: bool = False
    """Whether the players are themselves groups (GSV), which cannot be regrouped."""
    failures: Failures | None = None
    """Evaluations that failed; None if none did."""
    weights: tuple[float, ...] | None = None
    """The weights of the outputs, if `combined` made this valuation."""
    is_estimate: bool = True
    """False before the first estimate of a run is complete; such a valuation is only a sign of progress."""
    finished: bool = True
    """False in a file saved before the requested payout, audit or report was done."""
    n_known: int = 0
    """Evaluations that were known before the run (`start=`) and used; `n_evaluations` does not count them."""
    n_unfitted: int = 0
    """Evaluations of coalitions that the model cannot be fitted to, which count like the empty one."""
    seed_noise: SeedNoise | None = None
    """The error of training seeds, if every coalition was trained with its own seed."""
    test_rows: TestRows | None = None
    """The error of the test rows; None if the game has no folds of them."""

    @classmethod
    def of(cls, estimate: Estimate, partition: Partition, *, game: Game, ends: Floats, **record: Any) -> Valuation:
        """Return the valuation of a partition from an estimate.

        Args:
            estimate: Of a game with folds of the test rows, it has these as differences from the score
                (`Game.differences`).
            partition: The groups.
            game: The game that was valued.
            ends: (2, q) U(0) and U(N).
            record: The fields that say how it was made.

        Returns:
            The valuation, whose error of the test rows is known if the game has folds.

        """
        test_rows = None
        if game.n_folds:
            estimate, ends, test_rows = _without_folds(estimate, ends, game)
        outputs = game.outputs
        if outputs is None and ends.shape[1] > 1:
            outputs = tuple(map(str, range(ends.shape[1])))
        return cls(
            estimate.kept(partition),
            partition,
            ends[:, 0] if outputs is None else ends,
            outputs=outputs,
            grouped=game.grouped_by is not None,
            test_rows=test_rows,
            **record,
        )

    def _squeezed(self, array: Floats) -> Floats:
        """Return an array without its axis of outputs if there is one output without a name."""
        return array[..., 0] if self.outputs is None else array

    @cached_property
    def values(self) -> Floats:
        """(K,), or (K, q): the sums of the players' values, in the order of `partition.names`."""
        return self._squeezed(self.estimate.values_of(self.partition, np.atleast_1d(self.total)))

    @cached_property
    def stderr(self) -> Floats:
        """(K,), or (K, q): only the Monte Carlo error, NaN if the method cannot tell, 0 if exact.

        Intervals hold it, the error of the test rows (`test_rows`) if the game has folds of them, and the error of
        training seeds (`seed_noise`) if every coalition was trained with its own.
        """
        return self._squeezed(self.estimate.stderr_of(self.partition))

    @property
    def total(self) -> Floats:
        """U(N) - U(0): a float, or (q,)."""
        return self.ends[1] - self.ends[0]

    @property
    def player_values(self) -> Floats | None:
        """(n,), or (n, q); None for methods that value one group at a time."""
        return None if self.estimate.of_groups else self._squeezed(self.estimate.values)

    @property
    def deviations(self) -> NDArray[np.floating] | None:
        """(R, n, q): the variance of a weighted sum of players is the sum over R of the squares of that sum."""
        return self.estimate.deviations

    @property
    def degrees_of_freedom(self) -> float:
        """Of the t quantiles of intervals."""
        return self.estimate.degrees_of_freedom

    @property
    def exact(self) -> bool:
        """Whether every coalition was evaluated."""
        return self.estimate.exact

    @property
    def efficient(self) -> bool:
        """Whether the values of all players sum to U(N) - U(0) by construction."""
        return self.estimate.efficient

    @property
    def correction(self) -> float | None:
        """Of the default method: 0 if the values are predictions, 1 if what they miss is corrected, or between."""
        return self.estimate.correction

    @property
    def method(self) -> str:
        """The method that made the estimate, which may not be the one requested."""
        return self.estimate.method or ("" if self.settings is None else self.settings.method)

    @property
    def seed(self) -> int | None:
        """The seed of the run; None if this was not a run."""
        return None if self.settings is None else self.settings.seed

    @property
    def names(self) -> tuple[Hashable, ...]:
        """The groups' names, in the order of `values`."""
        return self.partition.names

    @property
    def about_evaluations(self) -> str:
        """How many evaluations the run made, and used of earlier runs, in words."""
        known = f" and {self.n_known:,} known from earlier runs" if self.n_known else ""
        return f"{counted(self.n_evaluations, 'evaluation')}{known}"

    @property
    def about_correction(self) -> str | None:
        """Whether values are predictions or corrected ones, in words; None if the method makes no such difference."""
        if self.correction is None:
            return None
        if self.correction == 0:
            return (
                "values are predictions: closer with few evaluations, but biased; unbiased=True states corrected ones"
            )
        if self.correction == 1:
            return "values are unbiased: what predictions miss was sampled, and corrected"
        return f"values are predictions, corrected by {self.correction:.0%} of what draws say that they miss"

    @property
    def about_unfitted(self) -> str | None:
        """How many coalitions the model could not be fitted to, in words; None if there were none."""
        if not self.n_unfitted:
            return None
        why = "that the model cannot be fitted to, such as"
        if self.n_unfitted == 1:
            return f"1 evaluation was of a coalition {why} one of a single class: it counts like the empty one"
        were = f"{self.n_unfitted:,} evaluations were of coalitions"
        return f"{were} {why} those of one class: they count like the empty one"

    @property
    def group_deviations(self) -> Floats | None:
        """(R, K, q): the variance of any weighted sum of groups is the sum over R of its squares; None if unknown."""
        if self.deviations is None or (self.player_values is None and not self.efficient):
            return None
        if self.player_values is None:
            return self.deviations.astype(float)
        return np.stack([self.partition.sums(each.astype(float)) for each in self.deviations])

    def interval(self, confidence: float = 0.95) -> Floats:
        """Return (K, 2) or (K, q, 2) bounds that contain each value with the given confidence (t quantiles)."""
        return bounds(self.values, self.half_width(confidence))

    def half_width(self, confidence: float = 0.95) -> Floats:
        """Return half the width of each value's interval."""
        return self._joint(confidence, None, ("sampling", "seeds", "test rows"))

    def sampling_half_width(self, confidence: float = 0.95) -> Floats:
        """Return the part of `share_half_width` that is due to sampling, the Monte Carlo error."""
        quantile = float(t_quantile(confidence, self.degrees_of_freedom))
        return np.asarray(self.stderr * quantile / positive_total(self.total, self.outputs))

    def share_half_width(self, confidence: float = 0.95) -> Floats:
        """Return half the width of each share's interval."""
        shares = self.shares()
        return np.asarray(self._joint(confidence, shares, ("sampling", "seeds", "test rows")) / self.total)

    def seed_half_width(self, confidence: float = 0.95) -> Floats:
        """Return the part of `share_half_width` that is due to training seeds; 0 if one seed serves all."""
        return np.asarray(self._joint(confidence, self.shares(), ("seeds",)) / self.total)

    def test_half_width(self, confidence: float = 0.95, *, lasting: bool = False) -> Floats:
        """Return the part of `share_half_width` that is due to the test rows; 0 if it is not known.

        It holds what the run's own sampling adds to it, which evaluations reduce; what is left is `lasting`.
        """
        return np.asarray(
            self._joint(confidence, self.shares(), ("lasting" if lasting else "test rows",)) / self.total
        )

    def lasting_half_width(self, confidence: float = 0.95) -> Floats:
        """Return the part of `share_half_width` that no evaluations reduce: due to training seeds and test rows."""
        return np.asarray(self._joint(confidence, self.shares(), ("seeds", "lasting")) / self.total)

    def _joint(self, confidence: float, shares: Floats | None, causes: Sequence[str]) -> Floats:
        """Return half-widths due to some causes: of the values, or of the shares in units of the utility."""
        if causes[0] == "sampling" and self.seed_noise is None and self._test_rows is None:
            return np.asarray(self.stderr * float(t_quantile(confidence, self.degrees_of_freedom)))
        columns = None if shares is None else shares.reshape(len(self), -1)
        parts: list[tuple[Floats, float]] = []
        if "sampling" in causes:
            parts.append((self.stderr.reshape(len(self), -1) ** 2, self.degrees_of_freedom))
        if "seeds" in causes and self.seed_noise is not None:
            parts += zip(self.seed_noise.variances(self.partition, columns), self.seed_noise.freedom, strict=True)
        if self._test_rows is not None and {"test rows", "lasting"} & {*causes}:
            variance = (self._test_rows.deviations(self._summed, columns) ** 2).sum(axis=0)
            if "lasting" in causes:
                variance = np.maximum(variance - self._test_rows.sampled_variance(self._summed), 0.0)
            parts.append((variance, self._test_rows.freedom))
        if not parts:
            return np.zeros_like(self.values)
        return joint_half_width(parts, confidence).reshape(self.values.shape)

    @property
    def _test_rows(self) -> TestRows | None:
        """The error of the test rows of all outputs; None if it is unknown, or known of a sum of outputs only."""
        found = self.test_rows
        return None if found is None or found.total.shape[1] != np.size(self.total) else found

    @property
    def _summed(self) -> Partition | None:
        """The groups that players are summed over; None for a method that values one group at a time."""
        return None if self.player_values is None else self.partition

    @property
    def knows_test_rows(self) -> bool:
        """Whether intervals hold the error of the test rows; if not, they hold the Monte Carlo error only."""
        return self._test_rows is not None

    @property
    def about_intervals(self) -> str:
        """What intervals hold, and what they leave out, in words."""
        if self.estimate.errors is not None:
            return f"intervals hold the error of {self.estimate.errors}"
        if self._test_rows is None:
            return "intervals hold the Monte Carlo error only, not that of the test rows"
        return f"intervals hold the error of the test rows, by {self._test_rows.n_folds} folds of them"

    def total_half_width(self, confidence: float = 0.95) -> Floats | None:
        """Return the half-width of U(N) - U(0) due to the test rows, of each output; None if it is not known."""
        if self._test_rows is None:
            return None
        error = np.sqrt((self._test_rows.total**2).sum(axis=0))
        return (t_quantile(confidence, self._test_rows.freedom) * error).reshape(np.shape(self.total))

    @property
    def test_deviations(self) -> Floats | None:
        """(K, G, q): deviations of the shares due to the test rows, in units of the utility; None if unknown."""
        if self._test_rows is None:
            return None
        return self._test_rows.deviations(self._summed, self.shares().reshape(len(self), -1))

    @property
    def seed_deviations(self) -> Floats | None:
        """(R, K, q): deviations of the shares due to training seeds, in units of the utility; None without any."""
        if self.seed_noise is None:
            return None
        return self.seed_noise.deviations(self.partition, self.shares().reshape(len(self), -1))

    def shares(self) -> Floats:
        """Return each group's part of U(N) - U(0); negative values are charged.

        Shares of Shapley values sum to one; those of other semivalues, and of methods that are not efficient, do not.

        Only linear shares are proof against splitting: a group's share is the sum of its parts' shares.
        """
        return np.asarray(self.values / positive_total(self.total, self.outputs))

    @property
    def about_shares(self) -> str | None:
        """A warning if the values do not sum to U(N) - U(0), and so the shares do not sum to one; None if they do."""
        sums = np.atleast_1d(self.values.sum(axis=0))
        totals = np.atleast_1d(self.total)
        if self.efficient or not np.all(totals > 0) or np.allclose(sums, totals, rtol=1e-9, atol=0):
            return None
        named = "shapley" if self.settings is None else self.settings.semivalue
        why = f"estimates by {self.method!r}" if named == "shapley" else f"{named} values"
        summed = ", ".join(f"{part:.2%}" for part in sums / totals)
        return f"the shares sum to {summed}, not to 100%: {why} are not efficient. A payout scales them to the amount"

    def share_interval(self, confidence: float = 0.95) -> Floats:
        """Return (K, 2) or (K, q, 2) bounds of the shares."""
        return bounds(self.shares(), self.share_half_width(confidence))

    def combined(self, weights: ArrayLike | None = None) -> Valuation:
        """Return the valuation of a weighted sum of the outputs (default: their mean), without new evaluations."""
        if self.outputs is None or self.player_values is None:
            raise ValueError("combining needs player values with several outputs")
        q = len(self.outputs)
        weights = np.full(q, 1 / q) if weights is None else _as_weights(weights, self.outputs)
        return replace(
            self,
            estimate=self.estimate.combined(weights),
            ends=np.array([each @ weights for each in self.ends]),
            outputs=None,
            weights=tuple(weights.tolist()),
            seed_noise=None if self.seed_noise is None else self.seed_noise.combined(weights),
            test_rows=self._test_rows_of_sum(weights),
        )

    def _test_rows_of_sum(self, weights: Floats) -> TestRows | None:
        """Return the error of the test rows of a weighted sum of the outputs; None if it is not known."""
        if self._test_rows is not None:
            return self._test_rows.combined(weights)
        of_run = None if self.settings is None else self.settings.weights
        return self.test_rows if of_run is not None and np.array_equal(weights, of_run) else None

    def regroup(self, groups: Any) -> Valuation:
        """Return the valuation of other groups of the same players, without new evaluations.

        Its values have the same bits as those of a run with these groups, this seed and as many evaluations. Its
        errors, too, up to 64 players; of more, 64 random combinations of deviations are kept, from which errors are
        right on average, and to about 9% each.
        """
        if self.grouped:
            raise ValueError(
                "the players of this game are groups already (GSV): a regrouped GSV is not the GSV of the new "
                "groups. Value fgsv.grouped(game, groups) instead, or value the ungrouped game once and regroup that"
            )
        if self.player_values is None:
            raise ValueError(
                f"method {self.method!r} values one group at a time and has no player values to regroup: "
                "use the default method"
            )
        partition = Partition.of(groups, len(self.player_values), self.partition.players)
        return replace(self, partition=partition, estimate=replace(self.estimate, stderr=None))

    def of_players(self) -> Valuation:
        """Return the valuation in which each player is a group, by its own name if it has one."""
        found = self.regroup(None)
        names = self.partition.players
        return found if names is None else replace(found, partition=replace(found.partition, names=names))

    @property
    def players(self) -> pd.DataFrame:
        """A table: a row for each player (and output), with its name, group, value and standard error."""
        import pandas as pd

        partition = self.partition
        frame = self.of_players().to_frame().rename(columns={"group": "name"})
        groups = [partition.names[code] for code in partition.codes] if partition.is_disjoint else [None]
        frame["group"] = pd.Series(groups * (len(frame) // len(groups)), dtype=object)
        columns = ("name", "group", "output", "value", "stderr")
        return frame[[name for name in columns if name in frame]]

    def to_frame(self, confidence: float = 0.95) -> pd.DataFrame:
        """Return a table: a row for each group (and output), with value, error and, where defined, share."""
        return display.to_frame(self, confidence)

    def __len__(self) -> int:
        """Return the number of groups."""
        return self.partition.n_groups

    def __iter__(self) -> Iterator[Hashable]:
        """Iterate over the groups' names."""
        return iter(self.names)

    def __getitem__(self, name: Hashable) -> GroupValue:
        """Return the value, error and share of one group, by its name."""
        positions, half_widths, share_half_widths = self._by_name
        try:
            k = positions[name]
        except (KeyError, TypeError):
            raise KeyError(f"there is no group {name!r}: the groups are {some(map(repr, self.names))}") from None
        value = self.values[k]
        share = None
        share_interval = None
        if share_half_widths is not None:
            share = value / self.total
            share_interval = bounds(share, share_half_widths[k])
        size = float(self.partition.sizes[k])
        interval = bounds(value, half_widths[k])
        return GroupValue(name, size, value, self.stderr[k], interval, share, share_interval)

    @cached_property
    def _by_name(self) -> tuple[dict[Hashable, int], Floats, Floats | None]:
        """Positions by name, and half-widths of values and shares: computed once for a loop over all names."""
        positions = {name: k for k, name in enumerate(self.names)}
        return positions, self.half_width(), self.share_half_width() if np.all(self.total > 0) else None

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Return the table of groups and how it was made, as plain numbers and text; `save` keeps everything."""
        rows = self.to_frame(confidence).astype(object)
        return {
            "method": self.method,
            "n_evaluations": self.n_evaluations,
            "end": encode(self.end),
            "total": np.asarray(self.total).tolist(),
            "exact": self.exact,
            "efficient": self.efficient,
            "groups": rows.where(rows.notna(), None).to_dict("records"),
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw the values with their intervals; needs `fgsv[plots]`. `plot().figure.savefig(path)` saves them."""
        from fgsv import plots

        return plots.values(self, ax)

    def __repr__(self) -> str:
        return display.to_text(self)

    def _repr_html_(self) -> str:
        """Return a table for a notebook."""
        return display.to_html(self)

    def save(self, path: str | Path) -> None:
        """Write everything to a JSON file; `Valuation.load` reads it back, bit for bit."""
        from fgsv.valuation import file

        file.write(path, file.to_document(self))

    @classmethod
    def load(cls, path: str | Path) -> Valuation:
        """Read a file written by `save`, or the folder of `fgsv value --out`; an error names the damaged field."""
        from fgsv.valuation import file

        return file.from_document(file.read(path), path)


def load(path: str | Path) -> Valuation:
    """Read a saved valuation: a file written by `Valuation.save`, or the folder of `fgsv value --out`."""
    return Valuation.load(path)


def check_valuation(given: object) -> None:
    """Raise an error if this is no valuation, such as the path of a saved one."""
    check_type(given, Valuation, "a valuation", "fgsv.load(path) opens a saved one")


def some_outputs(valuation: Valuation, places: slice | list[int]) -> Valuation:
    """Return the valuation of the outputs at these places."""
    estimate = valuation.estimate.of_outputs(places)
    noise = None if valuation.seed_noise is None else valuation.seed_noise.of_outputs(places)
    outputs = tuple(np.array(valuation.outputs, dtype=object)[places])
    tested = valuation.test_rows.of_outputs(places) if valuation.test_rows and valuation.knows_test_rows else None
    return replace(
        valuation,
        estimate=estimate,
        ends=valuation.ends[..., places],
        outputs=outputs,
        seed_noise=noise,
        test_rows=tested,
    )


def _without_folds(estimate: Estimate, ends: Floats, game: Game) -> tuple[Estimate, Floats, TestRows]:
    """Return estimate and ends of the stated outputs, and the error of the test rows."""
    stated = slice(ends.shape[1] - game.n_folds)
    folds = slice(stated.stop, None)
    of_folds = game.differences(ends)[:, folds]
    n_outputs = 1 if game.weights is not None else stated.stop
    sampled = None if estimate.deviations is None else estimate.deviations[..., folds]
    found = TestRows.of(estimate.values[:, folds], sampled, of_folds, n_outputs)
    return estimate.of_outputs(stated), ends[:, stated], found


def positive_total(total: Floats, outputs: Sequence[str] | None = None) -> Floats:
    """Return U(N) - U(0), or raise an error if there is nothing to share."""
    if not np.all(total > 0):
        which = "" if outputs is None else f" for the output {outputs[int(np.argmin(total))]!r}"
        raise ValueError(
            f"shares need a positive U(N) - U(0), but it is {np.min(total):.6g}{which}: with all the data "
            "the model scores no better than with none, so there is nothing to share. "
            "Check the metric, the model and the value of the empty set. "
            "Values need no shares: a run with a budget or a standard error, but no precision, gives them"
        )
    return total


def _as_weights(given: ArrayLike, outputs: Sequence[str]) -> Floats:
    """Return (q,) weights of the outputs, or raise an error that names the outputs."""
    order = some(map(repr, outputs))
    wanted = f"weights must have one number for each of the {len(outputs)} outputs, in the order {order}"
    try:
        weights = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{wanted}; got {given!r:.200}") from None
    if weights.shape != (len(outputs),):
        raise ValueError(f"{wanted}; got shape {weights.shape}")
    return weights
