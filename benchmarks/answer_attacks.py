"""What publishers can try per answer, and what it moves: exact shares in coverage games of real texts.

A sentence is a few words of its own and the facts that it mentions. The attacker is one of three publishers. An
instruction that the model follows is a sentence that makes the answer as likely as all sources together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.answers import FACTS, Coverage
from fgsv.answers import Answer, Passage, Pieces
from fgsv.types import Floats

ATTACKER = "B"
SENTENCES = {"A": 5, ATTACKER: 8, "C": 3}
PASSAGE = 4
"""Sentences of a passage at the most."""
WORDS = [
    "north",
    "river",
    "school",
    "mayor",
    "train",
    "harvest",
    "market",
    "bridge",
    "doctor",
    "garden",
    "winter",
    "film",
]

World = dict[str, list[str]]
"""Publisher -> its sentences."""


def sentence(facts: list[int], rng: np.random.Generator) -> str:
    """Return a sentence that mentions facts, in words of its own."""
    own = rng.choice(WORDS, 5)
    mentioned = " ".join(f"fact{'abcdefghijkl'[k]}" for k in facts)
    return f"{' '.join(own).capitalize()} {mentioned}."


def world(rng: np.random.Generator) -> tuple[World, Floats]:
    """Return sentences of three publishers, each of one to three facts, and the worth of the facts."""
    worth = rng.pareto(1.0, FACTS)
    sources = {
        name: [sentence(rng.permutation(FACTS)[: rng.integers(1, 4)].tolist(), rng) for _ in range(count)]
        for name, count in SENTENCES.items()
    }
    return sources, worth / worth.sum()


def facts_of(text: str) -> list[int]:
    """Return the facts that a sentence mentions."""
    return ["abcdefghijkl".index(word[4]) for word in text.rstrip(".").split() if word.startswith("fact")]


def answer_of(sources: World, shells: int = 1) -> Answer:
    """Return an answer with these sources; the attacker's are cut into pages of several names."""
    passages = []
    for name, texts in sources.items():
        pages = shells if name == ATTACKER else 1
        for page, part in enumerate(np.array_split(np.array(texts, dtype=object), pages)):
            shell = f"{name}{page}" if pages > 1 else name
            size = PASSAGE if pages == 1 else len(texts)
            passages += [
                Passage(
                    " ".join(part[k : k + size]), shell, registered="2026-11-02" if name == ATTACKER else "2026-11-01"
                )
                for k in range(0, len(part), size)
            ]
    return Answer("what happened", "this", passages)


def shares(answer: Answer, worth: Floats, cut: str, duplicates: str) -> dict[str, float]:
    """Return the exact share of each publisher; the attacker's names count as one."""
    pieces = Pieces.of(answer, cut=cut, duplicates=duplicates)
    mentions = np.zeros((pieces.n_players, FACTS), dtype=int)
    for player, text in enumerate(pieces.texts):
        np.add.at(mentions[player], facts_of(text.replace(".", " ").replace(";", " ")), 1)
    game = Coverage(mentions, worth, np.arange(pieces.n_players))
    values = pieces.partition.sums(game.shapley())
    found: dict[str, float] = {}
    for name, value in zip(pieces.partition.names, values / values.sum(), strict=True):
        found[str(name)[0]] = found.get(str(name)[0], 0.0) + float(value)
    return found


def best(texts: list[str], worth: Floats) -> str:
    """Return the sentence whose facts are worth most."""
    return max(texts, key=lambda text: worth[facts_of(text)].sum())


def more(sources: World, *texts: str) -> World:
    """Return the world in which the attacker has further sentences."""
    return sources | {ATTACKER: [*sources[ATTACKER], *texts]}


Attack = Callable[[World, Floats, np.random.Generator], World]
ATTACKS: dict[str, Attack] = {
    "cuts its page into eight, under eight names": lambda sources, worth, rng: sources,
    "adds eight sentences that say nothing": lambda s, worth, rng: more(s, *(sentence([], rng) for _ in range(8))),
    "repeats its best sentence three times": lambda s, worth, rng: more(s, *[best(s[ATTACKER], worth)] * 3),
    "says its best sentence again in other words, three times": lambda s, worth, rng: more(
        s, *(sentence(facts_of(best(s[ATTACKER], worth)), rng) for _ in range(3))
    ),
    "copies the best sentence of A": lambda s, worth, rng: more(s, best(s["A"], worth)),
    "says the best sentence of A in other words": lambda s, worth, rng: more(
        s, sentence(facts_of(best(s["A"], worth)), rng)
    ),
    "writes its page as one long sentence": lambda s, worth, rng: (
        s | {ATTACKER: ["; ".join(text.rstrip(".") for text in s[ATTACKER]) + "."]}
    ),
    "adds an instruction that the model follows": lambda s, worth, rng: more(s, sentence([*range(FACTS)], rng)),
}
RULES = {
    "documents": ("passages", "share"),
    "sentences": ("sentences", "share"),
    "first registered": ("sentences", "first"),
}


def table(worlds: int = 40) -> pd.DataFrame:
    """Return what each attack adds to the attacker's share under each rule, and the most that it moves another's."""
    rows = []
    for name, attack in ATTACKS.items():
        gains: dict[str, list[float]] = {rule: [] for rule in RULES}
        others: dict[str, list[float]] = {rule: [] for rule in RULES}
        for seed in range(worlds):
            rng = np.random.default_rng(seed)
            sources, worth = world(rng)
            attacked = attack(sources, worth, rng)
            for rule, how in RULES.items():
                before = shares(answer_of(sources), worth, *how)
                after = shares(answer_of(attacked, 8 if "cuts" in name else 1), worth, *how)
                gains[rule].append(after[ATTACKER] - before[ATTACKER])
                others[rule].append(max(abs(after[each] - before[each]) for each in before if each != ATTACKER))
        found = {rule: float(100 * np.mean(gains[rule])) for rule in RULES}
        rows.append({"the attacker": name, **found, "most moved, sentences": 100 * max(others["sentences"])})
    return pd.DataFrame(rows)
