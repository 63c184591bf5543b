"""Verification: derive a valuation again from its ledger, and a ledger's records again from the game."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fgsv.coalitions import unpack
from fgsv.game import Game, as_game
from fgsv.ledger import Batch, Ledger, NotRecorded, WrongLedger
from fgsv.payout import split_again
from fgsv.report.folder import INTERRUPTED
from fgsv.running.run import rounds
from fgsv.running.workers import PackedBatch, Workers
from fgsv.valuation import Valuation

TAKEN_FROM_FILE = (
    "the groups' names and members, the amount and policy of a payout, an end by the clock or by hand, the error "
    "from the test rows, and the audit"
)
"""What a valuation states and no ledger holds."""


NEEDED = (
    "fingerprint",
    "method",
    "options",
    "semivalue",
    "seed",
    "budget",
    "rules",
    "cost",
    "batch_size",
    "on_error",
)
"""The settings that a run is run again from."""


@dataclass(frozen=True)
class Difference:
    """Where something is not what it should be."""

    where: str
    stated: Any
    derived: Any

    def __str__(self) -> str:
        return f"{self.where}: stated {self.stated}, derived {self.derived}"


def verify(valuation: Valuation, ledger: str | Path) -> list[Difference]:
    """Derive every draw from the seed and every number from the recorded utilities; return what differs.

    It is the run itself, of a game that is known from the ledger alone: neither data nor model are needed, and
    the ledger is not changed. An empty list says that all values, errors and shares are the same, bit for bit, and
    that the payout, where there is one, follows from them.

    The ledger knows players, not providers: `TAKEN_FROM_FILE` says what is taken as the valuation states it.
    """
    settings = valuation.settings
    if not settings:
        raise ValueError("this valuation has no settings to run it again from: it was not made by fgsv.value")
    lacking = [name for name in NEEDED if name not in settings]
    if lacking:
        raise ValueError(f"the settings of this valuation lack the field {lacking[0]!r}: it cannot be derived again")
    if settings.get("proxy"):
        raise ValueError("this valuation used a proxy, whose values are not in the ledger: run it again to check it")
    with Ledger(ledger, read_only=True) as opened:
        game = _game_of(opened, settings["fingerprint"])[1]
        table = None if settings["cost"] is None else np.array(settings["cost"])
        try:
            for progress in rounds(
                replace(game, grouped_by=valuation.partition if valuation.grouped else None),
                valuation.partition,
                method=settings["method"],
                budget=settings["budget"],
                seed=settings["seed"],
                semivalue=settings["semivalue"],
                cost=None if table is None else lambda sizes: table[sizes - 1],
                batch_size=settings["batch_size"],
                on_error=settings["on_error"],
                n_jobs=1,
                ledger=opened,
                **_targets(settings["rules"]),
                **settings["options"],
            ):
                if progress.n_evaluations >= valuation.n_evaluations:
                    break
            derived = progress.valuation
            if "test_error" in valuation.info:  # the ledger has the folds of the test rows one by one
                derived = derived.combined(valuation.info["test_error"]["weights"])
        except NotRecorded:
            stated = f"{valuation.n_evaluations} evaluations from seed {settings['seed']}"
            return [Difference("draws", stated, "some of them are not in the ledger")]
    return [*_differences(valuation, derived), *_different_end(valuation, derived), *_different_payout(valuation)]


def _targets(stated: list[str]) -> dict[str, float]:
    """Return the rules of a run from those in words; when the clock ended it is not derived, only that it might."""
    found: dict[str, float] = {}
    for rule in stated:
        numbers = {name: float(number) for name, number in re.findall(r"(\w+)=([^,)]+)", rule)}
        if rule.startswith("Precision("):
            found |= {"precision": numbers["target"], "confidence": numbers["confidence"]}
        elif rule.startswith("StandardError("):
            found["stderr"] = numbers["target"]
        elif rule.startswith("MaxSeconds("):
            found["max_seconds"] = float("inf")
    return found


def _different_end(stated: Valuation, derived: Valuation) -> Iterator[Difference]:
    """Yield where a run did not end as stated; an end by the clock or by hand is not in the ledger."""
    clocked = any(rule.startswith("MaxSeconds(") for rule in stated.settings["rules"])
    not_derived = (INTERRUPTED, "max_seconds of") if clocked else (INTERRUPTED,)
    if stated.stopped != derived.stopped and not stated.stopped.startswith(not_derived):
        yield Difference("stopped", repr(stated.stopped), repr(derived.stopped))


def _different_payout(valuation: Valuation) -> Iterator[Difference]:
    """Yield where a payout does not follow from the values, the amount and the policy."""
    stated = valuation.info.get("payout")
    if stated is None:
        return
    try:
        derived = split_again(valuation, stated).to_dict()
    except (KeyError, TypeError, ValueError) as error:
        yield Difference("payout", "one that can be split again", f"it cannot: {error!r}")
        return
    for name in sorted({*derived, *stated} - {"payments"}):
        if stated.get(name) != derived.get(name):
            yield Difference(f"{name} of the payout", stated.get(name), derived.get(name))
    if len(stated.get("payments", [])) != len(derived["payments"]):
        yield Difference("payments", len(stated.get("payments", [])), len(derived["payments"]))
        return
    for paid, due in zip(stated["payments"], derived["payments"], strict=True):
        if paid != due:
            yield Difference(f"payment of group {due['group']!r}", paid, due)


def _game_of(ledger: Ledger, fingerprint: str | None) -> tuple[int, Game]:
    games = {game.fingerprint: (number, game) for number, game in ledger.games()}
    if fingerprint not in games:
        held = ", ".join(map(repr, games)) or "none at all"
        raise WrongLedger(
            f"the ledger {ledger.path} is of another game: it holds nothing of one with the fingerprint "
            f"{fingerprint!r}, but of {held}. Give the ledger of the run itself"
        )
    return games[fingerprint]


def _differences(stated: Valuation, derived: Valuation) -> Iterator[Difference]:
    for name in ("method", "seed", "n_evaluations", "outputs", "efficient", "degrees_of_freedom"):
        if getattr(stated, name) != getattr(derived, name):
            yield Difference(name, getattr(stated, name), getattr(derived, name))
    if stated.info.get("failures") != derived.info.get("failures"):
        yield Difference("failures", stated.info.get("failures"), derived.info.get("failures"))
    for name in ("values", "stderr", "total", "player_values", "deviations"):
        yield from _different_entries(name, getattr(stated, name), getattr(derived, name), stated.names)


def _different_entries(name: str, stated: Any, derived: Any, names: tuple[Any, ...]) -> Iterator[Difference]:
    if stated is None or derived is None or np.shape(stated) != np.shape(derived):
        if stated is not derived:
            yield Difference(f"shape of {name}", np.shape(stated), np.shape(derived))
        return
    a, b = np.asarray(stated), np.asarray(derived)
    wrong = np.argwhere(~((a == b) | ((a != a) & (b != b))))
    for index in wrong[:5]:
        place = tuple(index.tolist())
        label = f" of group {names[place[0]]!r}" if name in ("values", "stderr") and place else f" {list(place)}"
        yield Difference(name + label, a[place].item(), b[place].item())
    if len(wrong) > 5:
        yield Difference(name, f"{len(wrong)} entries in all", "other ones")


def verify_records(
    ledger: str | Path, game: Any, *, sample: int = 20, seed: int = 0, tolerance: float = 0.0
) -> list[Difference]:
    """Evaluate a random sample of a game's recorded batches again; return where the game answers otherwise.

    A value that was tampered with differs, and so does everything after a library changed its arithmetic. With
    `tolerance`, values may differ by so much, absolutely: for another type of machine, or a GPU.
    """
    with Ledger(ledger, read_only=True) as opened:
        number, recorded = _game_of(opened, getattr(game, "fingerprint", None))
        # what hung or killed its worker is not tried again here
        whole = (batch for batch in opened.batches(number) if not batch.outcome.failures)
        records = _sampled(whole, sample, np.random.default_rng(seed))
    game = as_game(game, recorded.n_players)
    answers = Workers(game, 1, None).attempt(
        [PackedBatch(unpack(game.n_players, record.coalitions)) for record in records]
    )
    found: list[Difference] = []
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
    """Return a uniform sample of a stream, without holding more than the sample."""
    kept: list[Batch] = []
    for seen, record in enumerate(records):
        place = int(rng.integers(0, seen + 1))
        if len(kept) < count:
            kept.append(record)
        elif place < count:
            kept[place] = record
    return kept
