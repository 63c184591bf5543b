"""What a run starts from, in words: who of the earlier runs is still there, and what is known of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fgsv.evaluation.start import is_worth
from fgsv.game import Game, provider_digest
from fgsv.methods import DEFAULT, Task, as_method, for_task
from fgsv.methods.known import Known
from fgsv.partition import Partition


def start_in_words(known: Known, partition: Partition, game: Game) -> str:
    """Say who is still there, who left and joined, how many known evaluations apply, and whether they are used.

    Args:
        known: The known evaluations.
        partition: The providers of the present players.
        game: The present game.

    Returns:
        One sentence.

    """
    here = [provider_digest(name) for name in partition.names]
    before = set(known.providers)
    players = f"{int(known.had.sum())} players as before, {known.n_left} left, {known.n_joined} joined"
    if before:
        renamed = _renamed(known, partition, here)
        new = partition.sums((~known.had).astype(float))
        changed = {digest for digest, count in zip(here, new, strict=True) if count and digest in before}
        withdrew = (known.lost & set(here)) - changed
        counts = {
            "renamed": len(renamed),
            "left": len(before - set(here)) - len(renamed),
            "joined": len(set(here) - before) - len(renamed),
            "brought other rows": len(changed),
            "withdrew rows": len(withdrew),
        }
        same = len(before & set(here)) - len(changed) - len(withdrew)
        everyone = len({*here, *before}) - len(renamed)
        rest = "".join(f", {count:,} {status}" for status, count in counts.items() if count)
        players = f"{same:,} of {everyone:,} providers as before{rest} ({players})"
    said = f"{players}: {len(known):,} of {known.n_recorded:,} known evaluations apply"
    if not is_worth(known, game):
        return f"{said}, but new ones take less time than to learn from so few, or so many: the run starts over"
    task = Task(partition.n_players, partition, n_known=len(known), seconds=game.seconds)
    if getattr(for_task(as_method(DEFAULT, {}), task), "uses_known", False):
        return said
    return f"{said} where they are drawn again; nothing is learned from them"


def _renamed(known: Known, partition: Partition, here: Sequence[str]) -> set[str]:
    """Return the providers of the earlier run all of whose players now belong to one provider with a new name."""
    if not known.owners or not partition.is_disjoint:
        return set()
    pairs = {(here[code], owner) for code, owner in zip(partition.codes.tolist(), known.owners, strict=True) if owner}
    holders = Counter(new for new, _ in pairs)
    held = Counter(old for _, old in pairs)
    whole = {old for new, old in pairs if holders[new] == held[old] == 1 and new not in known.providers}
    joined = {here[code] for code in partition.codes[~known.had]}
    mixed = {old for new, old in pairs if new in joined}
    return whole - set(here) - known.lost - mixed
