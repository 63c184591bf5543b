"""How likely an answer is after each of many prompts: in batches, or along a tree of their common beginnings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import Any

import numpy as np
import torch

from fgsv.types import Floats
from fgsv.utilities.language.network import attends_to_all, log_likelihood

BATCH_TOKENS = {"cuda": 2**16, "cpu": 2**12}
"""Tokens of a padded batch, those before it in a cache among them."""
CACHED_TOKENS = {"cuda": 2**18, "cpu": 2**16}
"""Tokens that a tree may keep in caches at a time."""
WORTH_A_TREE = 1.5
"""A tree is used where it leaves out so many of the tokens: each of its levels is a step of its own."""


@dataclass(frozen=True, eq=False)
class Continuations:
    """The log-likelihoods of what follows prompts, under a causal language model of transformers."""

    model: Any
    tree: bool | None = None
    """Whether each beginning that prompts have in common is computed once. Default: where that saves a third of the
    tokens. Log-likelihoods are the same but for rounding."""

    def log_likelihood(self, prompts: Sequence[Sequence[int]], answer: Sequence[int]) -> Floats:
        """Return (m,) the log-likelihood of the answer after each prompt."""
        given = [tuple(prompt) for prompt in prompts]
        different = sorted(set(given))
        levels = tree_of(different)
        of_answers = len(answer) * len(different)
        on_edges = sum(len(ids) for edges in levels for _, ids, _ in edges)
        saves = sum(map(len, different)) + of_answers >= WORTH_A_TREE * (on_edges + of_answers)
        most_kept = max(sum(row is None for _, _, row in edges) for edges in levels) * max(map(len, different))
        fits = attends_to_all(self.model.config, math.inf) and most_kept <= CACHED_TOKENS[self.model.device.type]
        if not (saves and fits if self.tree is None else self.tree):
            rows = sorted(range(len(different)), key=lambda row: -len(different[row]))
            levels = [[(None, different[row], row) for row in rows]]
        found = self._along(levels, len(different), list(answer))
        places = {prompt: place for place, prompt in enumerate(different)}
        return found[[places[prompt] for prompt in given]]

    def _along(self, levels: list[list[Edge]], n_prompts: int, answer: list[int]) -> Floats:
        """Return the log-likelihoods along a tree, level by level; one of a single level is no more than batches."""
        found = np.empty(n_prompts)
        before: Cached | None = None
        for edges in levels:
            self._score(found, [edge for edge in edges if edge[2] is not None], answer, before)
            inner = [edge for edge in edges if edge[2] is None]
            before = self._run(inner, before, 1)[1] if inner else None
        return found

    def _score(self, found: Floats, edges: Sequence[Edge], answer: list[int], before: Cached | None) -> None:
        """Score the answer after the last tokens of prompts, in batches."""
        known = 0 if before is None else before.mask.shape[1]
        left = [(parent, (*ids, *answer), row) for parent, ids, row in edges]
        while left:
            size = max(1, BATCH_TOKENS[self.model.device.type] // (known + max(len(ids) for _, ids, _ in left)))
            some, left = left[:size], left[size:]
            logits, _ = self._run(some, before, len(answer) + 1)
            wanted = torch.tensor(answer, device=self.model.device).expand(len(some), -1)
            logs = log_likelihood(logits[:, :-1], wanted).double().sum(1)
            found[[row for _, _, row in some if row is not None]] = logs.cpu().numpy()

    @torch.inference_mode()
    def _run(self, edges: Sequence[Edge], before: Cached | None, keep: int) -> tuple[torch.Tensor, Cached]:
        """Return the last logits of some tokens, each after what their parent has read, and what is read then.

        Tokens are padded on their left, so that they end together; the mask says what is padding.
        """
        from transformers import DynamicCache

        length = max(len(ids) for _, ids, _ in edges)
        rows = [[0] * (length - len(ids)) + list(ids) for _, ids, _ in edges]
        counted = [[0] * (length - len(ids)) + [1] * len(ids) for _, ids, _ in edges]
        mask = torch.tensor(counted, device=self.model.device)
        places = mask.cumsum(1) - 1
        cache = DynamicCache(config=self.model.config)
        if before is not None:
            parents = torch.tensor([parent for parent, _, _ in edges], device=self.model.device)
            for number, (keys, values) in enumerate(before.layers):
                cache.update(keys[parents], values[parents], number)
            places = places + before.mask[parents].sum(1, keepdim=True)
            mask = torch.cat([before.mask[parents], mask], dim=1)
        logits = self.model(
            input_ids=torch.tensor(rows, device=self.model.device),
            attention_mask=mask,
            position_ids=places.clamp(min=0),
            past_key_values=cache,
            logits_to_keep=keep,
        ).logits
        return logits, Cached([(layer.keys, layer.values) for layer in cache.layers], mask)


Edge = tuple[int | None, tuple[int, ...], int | None]
"""The number of its parent on the level above, tokens, and the prompt that ends with them; None if others go on."""


@dataclass(frozen=True, eq=False)
class Cached:
    """What a model has read: keys and values of each layer, and which of them are no padding."""

    layers: list[tuple[torch.Tensor, torch.Tensor]]
    mask: torch.Tensor
    """(rows, tokens)"""


def tree_of(prompts: Sequence[tuple[int, ...]]) -> list[list[Edge]]:
    """Return sorted prompts by their common beginnings, level by level. The last token of a prompt is always its own.

    >>> tree_of([(1, 2, 3), (1, 2, 4, 5), (1, 6)])
    [[(None, (1,), None)], [(0, (2,), None), (0, (6,), 2)], [(0, (3,), 0), (0, (4, 5), 1)]]
    """
    levels: list[list[Edge]] = []

    def grow(rows: Sequence[int], begin: int, parent: int | None, level: int) -> None:
        """Add what prompts have from a place on, which they have in common up to there."""
        if level == len(levels):
            levels.append([])
        ends = [row for row in rows if len(prompts[row]) == begin + 1]
        others = [row for row in rows if len(prompts[row]) > begin + 1]
        for _, together in groupby(others, lambda row: prompts[row][begin]):
            some = list(together)
            if len(some) == 1:
                ends += some
            else:
                first, last = prompts[some[0]], prompts[some[-1]]  # what these share, sorted ones between them share
                same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
                end = min(same, len(first) - 1)
                levels[level].append((parent, first[begin:end], None))
                grow(some, end, sum(row is None for _, _, row in levels[level]) - 1, level + 1)
        levels[level].extend((parent, prompts[row][begin:], row) for row in ends)

    grow(range(len(prompts)), 0, None, 0)
    return levels
