"""Valuations: what came out, with its errors, for any grouping of the players."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from fgsv.game import Game
from fgsv.partition import Partition
from fgsv.types import Floats

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1


@dataclass(frozen=True, eq=False)
class Estimate:
    """What a method has to say after a round.

    `values` are (n, q) values of the players, or (K, q) values of the groups where the method works on groups.
    Errors come in one of two forms: `deviations` (R, n, q), scaled so that the variance of any weighted sum of
    players is the sum over R of its squares, or, for groups, `stderr` of the shape of `values`. Without either
    no error is known.
    """

    values: Floats
    deviations: NDArray[np.float32] | None = None
    stderr: Floats | None = None
    degrees_of_freedom: float = np.inf
    exact: bool = False
    efficient: bool = False
    """Whether the values of all players sum to U(N) - U(0), as they must for Shapley values."""
    of_groups: bool = False
    info: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Valuation:
    """Group values with their standard errors, and the player values that they are sums of.

    `values` and `stderr` are (K,), or (K, q) for a game with q outputs; groups stand in the order of
    `partition.names`. `stderr` is the Monte Carlo error alone: NaN where the method knows none, 0 where exact.
    """

    partition: Partition
    values: Floats
    stderr: Floats
    total: Floats
    """U(N) - U(0): a float, or (q,)."""
    player_values: Floats | None
    """(n,) or (n, q); `values` are their sums. None for methods that value one group at a time."""
    deviations: NDArray[np.float32] | None
    """(R, n, q): the variance of any weighted sum of players is the sum over R of its squares."""
    degrees_of_freedom: float
    method: str
    n_evaluations: int
    stopped: str
    """Which rule ended the run."""
    outputs: tuple[str, ...] | None = None
    seed: int | None = None
    exact: bool = False
    """Whether every coalition was evaluated."""
    efficient: bool = False
    """Whether the values of all players sum to U(N) - U(0) by construction."""
    grouped: bool = False
    """Whether the players are themselves groups (GSV), which cannot be regrouped."""
    settings: dict[str, Any] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        estimate: Estimate,
        partition: Partition,
        *,
        game: Game,
        method: str,
        ends: Floats,
        n_evaluations: int,
        stopped: str,
        seed: int | None = None,
        settings: dict[str, Any] | None = None,
    ) -> Valuation:
        """Return the valuation of a partition from an estimate; `ends` are the (2, q) values U(0), U(N)."""
        single = game.outputs is None and ends.shape[1] == 1
        total = ends[1] - ends[0]
        if estimate.of_groups:
            assert estimate.stderr is not None
            values, stderr = estimate.values, estimate.stderr
        else:
            values, stderr = _group_sums(
                partition,
                estimate.values,
                estimate.deviations,
                total=total if estimate.efficient else None,
                exact=estimate.exact,
            )
        outputs = game.outputs
        if outputs is None and not single:
            outputs = tuple(map(str, range(ends.shape[1])))

        def squeeze(array: Floats) -> Floats:
            return array[..., 0] if single else array

        return cls(
            partition,
            squeeze(values),
            squeeze(stderr),
            squeeze(total),
            None if estimate.of_groups else squeeze(estimate.values),
            estimate.deviations,
            estimate.degrees_of_freedom,
            method,
            n_evaluations,
            stopped,
            outputs,
            seed,
            estimate.exact,
            estimate.efficient,
            game.grouped_by is not None,
            settings or {},
            estimate.info,
        )

    @property
    def names(self) -> tuple[Hashable, ...]:
        """The groups' names, in the order of `values`."""
        return self.partition.names

    def interval(self, confidence: float = 0.95) -> Floats:
        """Return (K, 2) or (K, q, 2) bounds that hold each value with the given confidence (t quantiles)."""
        return _bounds(self.values, self.half_width(confidence))

    def half_width(self, confidence: float = 0.95) -> Floats:
        """Return half the width of each value's interval."""
        check_confidence(confidence)
        quantile = float(stdtrit(self.degrees_of_freedom, (1 + confidence) / 2))
        return np.asarray(self.stderr * quantile)

    def shares(self) -> Floats:
        """Return each group's part of U(N) - U(0); negative values are charged.

        Shares of Shapley values sum to one; those of other semivalues, and of methods that are not efficient, do not.

        Linear shares alone are proof against splitting: a group's share is the sum of its parts' shares.
        """
        return np.asarray(self.values / positive_total(self.total))

    def share_interval(self, confidence: float = 0.95) -> Floats:
        """Return (K, 2) or (K, q, 2) bounds of the shares."""
        return _bounds(self.shares(), self.half_width(confidence) / positive_total(self.total))

    def test_error(self) -> Floats:
        """Return (K,) errors of the groups' mean values that come from the choice of the test points.

        For a game whose outputs are test points (`fgsv.utility(..., per_test_point=True)`): the standard deviation of
        the mean over test points drawn anew from these, in the limit of many bootstrap samples. It stands beside the
        Monte Carlo error `stderr`, which more evaluations reduce; this one they do not.
        """
        if self.values.ndim != 2 or self.values.shape[1] < 2:
            raise ValueError(
                "the test error needs a game with an output for each test point: "
                "fgsv.utility(..., per_test_point=True)"
            )
        return self.values.std(axis=1) / np.sqrt(self.values.shape[1])

    def test_table(self) -> pd.DataFrame:
        """Return a table of the groups' means over the test points with both errors, and which is which."""
        import pandas as pd

        test_error, mean = self.test_error(), self.combined()
        return pd.DataFrame(
            {
                "group": pd.Series(list(self.names), dtype=object),
                "value": mean.values,
                "monte_carlo_error": mean.stderr,
                "test_error": test_error,
            }
        )

    def combined(self, weights: ArrayLike | None = None) -> Valuation:
        """Return the valuation of a weighted sum of the outputs, by default of their mean; no new evaluation."""
        if self.outputs is None or self.player_values is None:
            raise ValueError("only values of players with several outputs can be combined")
        q = len(self.outputs)
        weights = np.full(q, 1 / q) if weights is None else np.asarray(weights, dtype=float)
        if weights.shape != (q,):
            raise ValueError(f"weights must have one number for each of the {q} outputs, got shape {weights.shape}")
        deviations = None if self.deviations is None else (self.deviations @ weights.astype(np.float32))
        single = replace(
            self,
            player_values=self.player_values @ weights,
            deviations=None if deviations is None else deviations[..., None],
            total=np.asarray(self.total @ weights)[()],
            outputs=None,
            grouped=False,
        )
        return replace(single.regroup(self.partition), grouped=self.grouped)

    def regroup(self, groups: Any) -> Valuation:
        """Return the valuation of other groups of the same players; no new evaluation.

        The result has the same bits as a run with these groups, the same seed and as many evaluations.
        """
        if self.grouped:
            raise ValueError(
                "the players of this game are groups already (GSV): a regrouped GSV is not the GSV of the new "
                "groups. Value fgsv.grouped(game, groups) anew, or value the ungrouped game once and regroup that"
            )
        if self.player_values is None:
            raise ValueError(
                f"method {self.method!r} values one group at a time and has no player values to regroup; "
                "the default method has"
            )
        n = len(self.player_values)
        partition = Partition.of(groups, n)
        values, stderr = _group_sums(
            partition,
            self.player_values.reshape(n, -1),
            self.deviations,
            total=np.atleast_1d(self.total) if self.efficient else None,
            exact=self.exact,
        )
        shape = (partition.n_groups, *self.player_values.shape[1:])
        return replace(self, partition=partition, values=values.reshape(shape), stderr=stderr.reshape(shape))

    def to_frame(self, confidence: float = 0.95) -> pd.DataFrame:
        """Return a table: a row for each group (and output), with value, error and, where defined, share."""
        import pandas as pd

        shared = bool(np.all(self.total > 0))
        values = np.atleast_2d(self.values.T).T
        columns = self.outputs or (None,)
        frames = []
        for column, output in enumerate(columns):
            frame = pd.DataFrame({"group": pd.Series(list(self.names), dtype=object)})
            if output is not None:
                frame["output"] = output
            frame["points"] = self.partition.sizes
            frame["value"] = values[:, column]
            frame["stderr"] = self.stderr.reshape(values.shape)[:, column]
            if shared:
                frame["share"] = self.shares().reshape(values.shape)[:, column]
                bounds = self.share_interval(confidence).reshape(*values.shape, 2)[:, column]
                frame["share_low"], frame["share_high"] = bounds[:, 0], bounds[:, 1]
            frames.append(frame)
        frame = pd.concat(frames, ignore_index=True)
        if (frame["points"] % 1 == 0).all():
            frame["points"] = frame["points"].astype(int)
        return frame

    def plot(self, ax: Any = None) -> Any:
        """Draw the values with their intervals and return the matplotlib axes; needs `fgsv[plots]`."""
        from fgsv import plots

        return plots.values(self, ax)

    def __repr__(self) -> str:
        frame = self.to_frame().drop(columns=["share_low", "share_high"], errors="ignore")
        if len(frame) > 60:
            frame = frame.head(60)
        table = frame.to_string(index=False, float_format=lambda x: f"{x:.6g}")
        more = "" if self.partition.n_groups <= 60 else f"\n... {self.partition.n_groups} groups in all"
        return (
            f"{table}{more}\n{self.method}: {self.n_evaluations} evaluations; {self.stopped}"
            f"; U(N) - U(0) = {np.array2string(np.asarray(self.total), precision=6)}{self._failures()}"
        )

    def _failures(self) -> str:
        failures = self.info.get("failures")
        if not failures:
            return ""
        kinds = ", ".join(f"{count} {kind}" for kind, count in failures["kinds"].items())
        return f"\n{failures['coalitions']} evaluations failed and count as {failures['counted_as']:g}: {kinds}"

    def save(self, path: str | Path) -> None:
        """Write everything to a JSON file; `Valuation.load` reads it back, bit for bit."""
        document = {
            "schema": SCHEMA,
            "method": self.method,
            "seed": self.seed,
            "n_evaluations": self.n_evaluations,
            "stopped": self.stopped,
            "outputs": None if self.outputs is None else list(self.outputs),
            "names": [_json_name(name) for name in self.names],
            "groups": _json_array(self.partition.codes if self.partition.is_disjoint else self.partition.ownership),
            "values": self.values.tolist(),
            "stderr": _json_floats(self.stderr),
            "total": np.asarray(self.total).tolist(),
            "player_values": None if self.player_values is None else _json_array(self.player_values),
            "deviations": None if self.deviations is None else _json_array(self.deviations),
            "degrees_of_freedom": _json_floats(np.asarray(self.degrees_of_freedom)),
            "exact": self.exact,
            "efficient": self.efficient,
            "grouped": self.grouped,
            "settings": self.settings,
            "info": self.info,
        }
        text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
        path = Path(path)
        part = path.with_name(path.name + ".part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)

    @classmethod
    def load(cls, path: str | Path) -> Valuation:
        """Read a file that `save` wrote; one that is not whole is an error that names the field."""
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            schema = document["schema"]
        except (json.JSONDecodeError, UnicodeDecodeError, TypeError, KeyError) as error:
            raise ValueError(f"{path} is not a saved valuation: {error!r}") from None
        if schema != SCHEMA:
            raise ValueError(f"{path} has schema {schema}; this version of fgsv reads schema {SCHEMA}")

        def field(name: str, read: Callable[[Any], Any] = lambda stated: stated, optional: bool = False) -> Any:
            if name not in document:
                raise ValueError(f"{path} is not a whole valuation: it lacks the field {name!r}")
            try:
                return None if optional and document[name] is None else read(document[name])
            except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, zlib.error) as error:
                raise ValueError(f"{path}: the field {name!r} cannot be read: {error!r}") from None

        groups, names = field("groups", _array), field("names", lambda stated: tuple(map(_name, stated)))
        disjoint = groups.ndim == 1
        loaded = cls(
            Partition(names, None if disjoint else groups, groups if disjoint else None),
            field("values", lambda stated: np.array(stated, dtype=float)),
            field("stderr", _floats),
            field("total", lambda stated: np.array(stated, dtype=float)[()]),
            field("player_values", _array, optional=True),
            field("deviations", _array, optional=True),
            field("degrees_of_freedom", lambda stated: float(_floats(stated))),
            field("method", str),
            field("n_evaluations", int),
            field("stopped", str),
            field("outputs", tuple, optional=True),
            field("seed"),
            field("exact", bool),
            field("efficient", bool),
            field("grouped", bool),
            field("settings", dict),
            field("info", dict),
        )
        loaded._check_shapes(path)
        return loaded

    def _check_shapes(self, path: str | Path) -> None:
        """Raise an error where the fields of a file do not go together."""
        n, groups = self.partition.n_players, (self.partition.n_groups,)
        outputs = () if self.outputs is None else (len(self.outputs),)
        expected = {"values": groups + outputs, "stderr": groups + outputs, "total": outputs}
        if self.player_values is not None:
            expected["player_values"] = (n, *outputs)
        if self.deviations is not None:
            expected["deviations"] = (len(self.deviations), n, *(outputs or (1,)))
        for name, shape in expected.items():
            found = np.shape(getattr(self, name))
            if found != shape:
                raise ValueError(f"{path}: the field {name!r} has the shape {found}; expected {shape}")
        if (
            self.partition.is_disjoint
            and n
            and not 0 <= self.partition.codes.min() <= self.partition.codes.max() < len(self.names)
        ):
            raise ValueError(f"{path}: the field 'groups' names a group that 'names' has not")


def _group_sums(
    partition: Partition,
    players: Floats,
    deviations: NDArray[np.float32] | None,
    *,
    total: Floats | None,
    exact: bool,
) -> tuple[Floats, Floats]:
    """Return (K, q) values and standard errors of the groups from (n, q) values of the players."""
    values = partition.sums(players)
    if total is not None and partition.n_groups == 1:
        return total[None, :].copy(), np.zeros_like(values)  # the sum of all is known, without any rounding
    if exact:
        return values, np.zeros_like(values)
    if deviations is None:
        return values, np.full_like(values, np.nan)
    variance = np.zeros_like(values)
    for deviation in deviations:
        variance += partition.sums(deviation.astype(float)) ** 2
    return values, np.sqrt(variance)


def check_confidence(confidence: float) -> None:
    """Refuse what is no probability, such as 95."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")


def positive_total(total: Floats) -> Floats:
    """Return U(N) - U(0), or raise an error where there is nothing to share."""
    if not np.all(total > 0):
        raise ValueError(
            f"shares need a positive U(N) - U(0), but it is {np.min(total):.6g}: with everybody's data "
            "the model scores no better than with none, so there is nothing to share. "
            "Check the metric, the model and the value of the empty set"
        )
    return total


def _bounds(values: Floats, half_width: Floats) -> Floats:
    return np.stack([values - half_width, values + half_width], axis=-1)


def _json_name(name: Hashable) -> Any:
    if isinstance(name, tuple):
        return [_json_name(part) for part in name]
    if isinstance(name, np.generic):
        return name.item()
    return name if isinstance(name, (str, int, float, bool)) else str(name)


def _name(document: Any) -> Hashable:
    return tuple(map(_name, document)) if isinstance(document, list) else document


def _json_array(array: NDArray[Any] | None) -> dict[str, Any]:
    """Return an array as JSON: its type, shape and bytes (little-endian, zlib, base64)."""
    assert array is not None
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return {
        "dtype": little.dtype.str,
        "shape": list(little.shape),
        "zlib": b64encode(zlib.compress(little.tobytes(), 6)).decode("ascii"),
    }


def _array(document: dict[str, Any]) -> NDArray[Any]:
    flat = np.frombuffer(zlib.decompress(b64decode(document["zlib"])), dtype=document["dtype"])
    return flat.reshape(document["shape"]).copy()


def _json_floats(array: Floats) -> Any:
    """Return nested lists; JSON has no NaN or infinity, so they become null and "inf"."""

    def one(x: Any) -> Any:
        if isinstance(x, list):
            return [one(y) for y in x]
        return None if np.isnan(x) else "inf" if np.isinf(x) else x

    return one(np.asarray(array).tolist())


def _floats(document: Any) -> Floats:
    def one(x: Any) -> Any:
        if isinstance(x, list):
            return [one(y) for y in x]
        return np.nan if x is None else float(x)

    return np.array(one(document))
