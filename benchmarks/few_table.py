"""Errors by game, budget and estimator, kept with one cell a line, and ours beside those of the best peer."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

OURS = Path("bench-out/few.json")
PEERS = Path(__file__).with_name("few_peers.json")
BEFORE = Path(__file__).with_name("few_before.json")
"""Errors of the default method before this one; with the mean width of its intervals, where it is known."""
DEFAULT, UNBIASED = "gp", "gp, unbiased=True"
TRAINED = "hospitals", "labels", "clinics", "kernel", "neighbours", "sellers"
"""How the names of games begin in which models are trained on data of at most 50 players."""
EXACT = 1e-6
"""An error over the spread of the values below which an estimate is exact up to rounding."""


def summary(squares: list[float]) -> dict[str, float]:
    """Return the root of the mean square, and the relative standard error of that mean."""
    mean = float(np.mean(squares))
    spread = float(np.std(squares, ddof=1)) / np.sqrt(len(squares)) if len(squares) > 1 else np.nan
    return {"error": float(f"{np.sqrt(mean):.4g}"), "relative": round(spread / mean, 4) if mean else 0.0}


def read(path: Path) -> list[dict[str, Any]]:
    """Return the cells that are kept in a file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def same_cell(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Say whether two rows are about the same game, budget and estimator."""
    return all(one[key] == other[key] for key in ("game", "budget", "estimator"))


def write(cells: list[dict[str, Any]], path: Path) -> None:
    """Keep cells, in an order that does not depend on which were measured first."""
    cells = sorted(cells, key=lambda cell: (cell["game"], cell["budget"], cell["estimator"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text("[\n" + ",\n".join(json.dumps(cell) for cell in cells) + "\n]\n", encoding="utf-8")
    os.replace(new, path)


@dataclass(frozen=True)
class Pair:
    """Our error and the best peer's, of one game and budget; the 95% interval of their ratio."""

    game: str
    n: int
    budget: int
    ours: float
    peer: str = ""
    theirs: float = np.nan
    ratio: float = np.nan
    factor: float = np.nan
    """The interval is from the ratio divided by this to the ratio times this."""

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.ratio / self.factor

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.ratio * self.factor

    @property
    def counts(self) -> bool:
        """Whether there is a peer, and something left to estimate for both."""
        return self.budget < 2**self.n and self.ours > EXACT and self.theirs > EXACT

    def __str__(self) -> str:
        return f"{self.ratio:.2f} ({self.low:.2f}–{self.high:.2f})" if self.peer else "–"


def best_of(peers: list[dict[str, Any]], game: str, budget: int) -> dict[str, Any] | None:
    """Return the peer's cell of this game and budget with the smallest error; None if there is none."""
    same = [each for each in peers if "error" in each and (each["game"], each["budget"]) == (game, budget)]
    return min(same, key=lambda each: each["error"], default=None)


def pair(ours: dict[str, Any], peers: list[dict[str, Any]]) -> Pair:
    """Compare a cell of ours with the peers' cells of the same game and budget.

    The logarithm of an error has half the relative standard error of its mean square (delta method); a difference of
    two has Student's law with the degrees of freedom of Welch and Satterthwaite.
    """
    here = {key: ours[key] for key in ("game", "n", "budget")} | {"ours": ours["error"]}
    best = best_of(peers, ours["game"], ours["budget"])
    if best is None:
        return Pair(**here)
    ratio = ours["error"] / best["error"] if best["error"] else np.nan
    variances = np.array([ours["relative"], best["relative"]]) ** 2 / 4
    freedom = np.array([ours["runs"], best["runs"]]) - 1
    total = variances.sum()
    wide = student.ppf(0.975, total**2 / (variances**2 / freedom).sum()) * np.sqrt(total) if total else 0.0
    return Pair(**here, peer=best["estimator"], theirs=best["error"], ratio=ratio, factor=float(np.exp(wide)))


def verdict(pairs: list[Pair], most: float = 1.1) -> str:
    """Return the geometric mean of the ratios, and the cells whose interval lies above `most`."""
    counted = [each for each in pairs if each.counts]
    if not counted:
        return "no cell has a peer to compare with"
    mean = _mean([each.ratio for each in counted])
    lost = [f"  {each.game}, {each.budget:,}: {each} of {each.peer}" for each in counted if each.low > most]
    return "\n".join(
        [
            f"error over the best peer's: geometric mean {mean:.3f} of {len(counted)} cells",
            f"cells whose 95% interval lies above {most}: {len(lost)}",
            *lost,
        ]
    )


def by_budget(pairs: list[Pair]) -> str:
    """Return a table in Markdown: the mean ratio for each budget, of all games and of some."""
    lines = [
        "| evaluations | all games | without sums of unanimity | trained models, up to 50 players |",
        "|---|---|---|---|",
    ]
    for budget in sorted({each.budget for each in pairs if each.counts}):
        cells = [each for each in pairs if each.counts and each.budget == budget]
        others = [each for each in cells if not each.game.startswith(("sou", "unanimity"))]
        trained = [each for each in cells if each.game.startswith(TRAINED)]
        means = (f"{_mean([each.ratio for each in some]):.2f}" if some else "–" for some in (cells, others, trained))
        lines.append(f"| {budget:,} | {' | '.join(means)} |")
    return "\n".join(lines)


def _mean(ratios: list[float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(ratios))))


def ratio(pair: Pair) -> str:
    """Return a cell with a ratio and its interval, in bold if that lies above 1."""
    if pair.peer and not pair.counts:
        return "not counted"
    return f"**{pair}**" if pair.counts and pair.low > 1 else str(pair)


def markdown(pairs: list[Pair], unbiased: list[Pair], before: list[dict[str, Any]]) -> str:
    """Return the table of the documentation: a line for each pair, beside it corrected values, if known."""
    columns = ["game", "evaluations", "before", "best peer", "its error", "gp", "over the peer's"]
    columns += ["unbiased", "over the peer's"] * bool(unbiased)
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    beside = {(each.game, each.budget): each for each in unbiased}
    for each in pairs:
        known = best_of(before, each.game, each.budget)
        first = f"{known['error']:.3g}" if known else "–"
        theirs = f"{each.peer} | {each.theirs:.3g}" if each.peer else "– | –"
        cells = [each.game, f"{each.budget:,}", first, theirs, f"{each.ours:.3g}", ratio(each)]
        if unbiased:
            other = beside.get((each.game, each.budget))
            cells.append(f"{other.ours:.3g} | {ratio(other)}" if other else "– | –")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def summaries(ours: list[dict[str, Any]], before: list[dict[str, Any]]) -> str:
    """Return a table in Markdown: for each budget errors and widths over those before, coverage and time."""
    lines = [
        "| evaluations | games | over before | worst | players held | lowest | groups held | width | ms (most) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for budget in sorted({each["budget"] for each in ours}):
        some = [each for each in ours if each["budget"] == budget]
        errors, widths = ([(over(each, before, what), each["game"]) for each in some] for what in ("error", "width"))
        lowest, slowest = min(some, key=lambda each: each["players"]), max(some, key=lambda each: each["ms"])
        cells = [
            str(len(some)),
            _mean_known(errors),
            _worst(errors),
            f"{np.mean([each['players'] for each in some]):.1%}",
            f"{lowest['players']:.1%} {lowest['game']}",
            f"{np.mean([each['groups'] for each in some]):.1%}",
            _mean_known(widths),
            f"{np.mean([each['ms'] for each in some]):.1f} ({slowest['ms']:.1f} {slowest['game']})",
        ]
        lines.append(f"| {budget:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def over(ours: dict[str, Any], before: list[dict[str, Any]], what: str = "error") -> float:
    """Return our error, or the width of our intervals, over that before; nan if it is unknown or either is exact."""
    known = best_of(before, ours["game"], ours["budget"]) or {}
    return ours[what] / known[what] if what in known and min(ours["error"], known["error"]) > EXACT else np.nan


def _mean_known(ratios: list[tuple[float, str]]) -> str:
    known = [ratio for ratio, _ in ratios if ratio > 0]
    return f"{_mean(known):.2f}" if known else "–"


def _worst(ratios: list[tuple[float, str]]) -> str:
    ratio, game = max((each for each in ratios if each[0] > 0), default=(np.nan, ""))
    return f"{ratio:.2f} {game}" if game else "–"
