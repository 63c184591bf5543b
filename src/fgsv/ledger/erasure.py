"""Erasure that lasts: what one ledger has forgotten must not come back from another."""

from __future__ import annotations

from collections.abc import Sequence

from fgsv.game import Game, each_digest
from fgsv.ledger.file import Ledger, WrongLedger
from fgsv.words import counted


def check_stays_forgotten(ledger: Ledger, others: Sequence[Ledger]) -> None:
    """Raise an error if other ledgers still have players of a game whom this one has forgotten."""
    forgotten = {game.fingerprint: _digests(game) for _, game in ledger.games()}
    for other in others:
        for _, game in other.games():
            pairs = zip(forgotten.get(game.fingerprint, ()), _digests(game), strict=False)
            count = sum(not any(here) and any(there) for here, there in pairs)
            if count:
                raise WrongLedger(
                    f"{counted(count, 'player')} forgotten in {ledger.path}, but still in {other.path}: evaluations "
                    "would come back from there. Forget in both"
                )


def _digests(game: Game) -> list[bytes]:
    """Return the digest of each player, zeros if it was forgotten; nothing if the game does not say who they are."""
    return each_digest(game.player_digests() or b"")
