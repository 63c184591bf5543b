"""How likely an answer is after each of many prompts: in padded batches, or along trees of their common beginnings.

A tree is one sequence in which a token attends to those before it in its own prompt: nothing that prompts have in
common at their beginnings is computed twice, and nothing is padded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, permutations, takewhile
from typing import Any

import numpy as np
import torch

from fgsv.types import Floats
from fgsv.utilities.language.network import attends_to_all, close, log_likelihood

TOKENS = {"cuda": 2**12, "cpu": 2**10}
"""Tokens of a padded batch, or of a tree: more take more padding and attention, fewer take more passes."""

Ids = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Continuations:
    """The log-likelihoods of what follows prompts, under a causal language model of transformers."""

    model: Any
    tree: bool | None = None
    """Whether prompts are scored along trees. Default: where that is less work, but not on a GPU, whose attention is
    slower under a tree's mask by more than the tokens that it saves."""

    def __post_init__(self) -> None:
        if self.tree and not self.has_trees:
            raise ValueError(
                f"tree=True needs a model that attends to all earlier tokens, by their places and a mask alone; "
                f"{type(self.model).__name__} does not"
            )

    def log_likelihood(self, prompts: Sequence[Sequence[int]], answer: Sequence[int]) -> Floats:
        """Return (m,) the log-likelihood of the answer after each prompt."""
        given = [tuple(prompt) for prompt in prompts]
        different = sorted(set(given))
        most = TOKENS["cuda" if self.model.device.type == "cuda" else "cpu"]
        trees, batches = trees_of(different, tuple(answer), most), batches_of(different, len(answer), most)
        tree = self.tree
        if tree is None:
            by_trees = self._work((len(each.ids), 1) for each in trees)
            by_batches = self._work((len(batch[0]) + len(answer), len(batch)) for batch in batches)
            tree = self.model.device.type != "cuda" and by_trees < by_batches and self.has_trees
        found: dict[Ids, float] = {}
        if tree:
            for each in trees:
                found |= zip(each.prompts, self._along(each), strict=True)
        else:
            for batch in batches:
                found |= zip(batch, self._padded(batch, tuple(answer)), strict=True)
        return np.array([found[prompt] for prompt in given])

    def _work(self, passes: Iterable[tuple[int, int]]) -> float:
        """Return the work of passes of rows of a length, in tokens: that of attention grows with their squares."""
        width = self.model.get_input_embeddings().weight.shape[1]
        return sum(count * length * (1 + length / (6 * width)) for length, count in passes)

    @cached_property
    def has_trees(self) -> bool:
        """Whether the model gives along a tree what it gives alone: some look at more than places and a mask."""
        if not attends_to_all(self.model.config, np.inf):
            return False
        prompts: list[Ids] = [(0, 1, *some) for some in permutations((1, 2, 3))]
        [tree] = trees_of(prompts, (2, 1), 2**10)
        try:
            along = self._along(tree)
        except (RuntimeError, ValueError, TypeError):
            return False
        alone = self._padded(prompts, (2, 1))
        return close(*(torch.tensor(each, dtype=self.model.dtype) for each in (along, alone)))

    def _padded(self, prompts: Sequence[Ids], answer: Ids) -> Floats:
        """Score prompts in rows that are padded on their left, so that they end together."""
        length = max(map(len, prompts)) + len(answer)
        rows = [[0] * (length - len(prompt) - len(answer)) + [*prompt, *answer] for prompt in prompts]
        ones = [len(prompt) + len(answer) for prompt in prompts]
        mask = torch.tensor([[0] * (length - n) + [1] * n for n in ones])
        logits = self._logits(rows, mask, (mask.cumsum(1) - 1).clamp(min=0), len(answer) + 1)[:, :-1]
        logs = log_likelihood(logits, torch.tensor(answer, device=logits.device).expand(len(rows), -1))
        return np.asarray(logs.double().sum(1).cpu().numpy())

    def _along(self, tree: Tree) -> Floats:
        """Score the prompts of a tree."""
        dtype, device = self.model.dtype, self.model.device
        mask = torch.full((len(tree.ids),) * 2, torch.finfo(dtype).min, dtype=dtype, device=device)
        for path in tree.paths:
            index = torch.tensor(path, device=device)
            mask[index[:, None], index] = mask.new_full((len(path),) * 2, torch.finfo(dtype).min).triu(1)
        places, before = torch.tensor([tree.places]), torch.tensor(tree.before)
        logits = self._logits([tree.ids], mask[None, None], places, before)[0]
        logs = log_likelihood(logits, torch.tensor(tree.answers, device=device))
        return np.asarray(logs.double().view(len(tree.paths), -1).sum(1).cpu().numpy())

    @torch.inference_mode()
    def _logits(self, rows: Sequence[Sequence[int]], mask: torch.Tensor, places: torch.Tensor, keep: Any) -> Any:
        device = self.model.device
        return self.model(
            input_ids=torch.tensor(rows, device=device),
            attention_mask=mask.to(device),
            position_ids=places.to(device),
            use_cache=False,
            logits_to_keep=keep if isinstance(keep, int) else keep.to(device),
        ).logits


@dataclass(frozen=True, eq=False)
class Tree:
    """Prompts by their common beginnings, and the answer after each of them, as one sequence."""

    ids: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """Of each token, in its own prompt."""
    prompts: list[Ids] = field(default_factory=list)
    paths: list[list[int]] = field(default_factory=list)
    """Of each prompt and its answer, where in the sequence its tokens are."""
    before: list[int] = field(default_factory=list)
    """Where the tokens before those of answers are."""
    answers: list[int] = field(default_factory=list)
    """The tokens of answers, prompt by prompt."""


def trees_of(prompts: Iterable[Ids], answer: Ids, most: int) -> list[Tree]:
    """Return sorted prompts as trees, each of at most so many tokens, or of one prompt.

    >>> [tree] = trees_of([(1, 2, 3), (1, 2, 4), (1, 5)], (9,), most=8)
    >>> tree.ids, tree.places, tree.paths
    ([1, 2, 3, 9, 4, 9, 5, 9], [0, 1, 2, 3, 2, 3, 1, 2], [[0, 1, 2, 3], [0, 1, 4, 5], [0, 6, 7]])
    """
    trees: list[Tree] = []
    for last, prompt in pairwise([(), *prompts]):
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(last, prompt, strict=False)))
        if not trees or len(trees[-1].ids) + len(prompt) - same + len(answer) > most:
            trees.append(Tree())
            same = 0
        tree = trees[-1]
        new = (*prompt[same:], *answer)
        path = [*(tree.paths[-1][:same] if same else ()), *range(len(tree.ids), len(tree.ids) + len(new))]
        tree.ids.extend(new)
        tree.places.extend(range(same, len(path)))
        tree.prompts.append(prompt)
        tree.paths.append(path)
        tree.before.extend(path[len(prompt) - 1 : -1])
        tree.answers.extend(answer)
    return trees


def batches_of(prompts: Sequence[Ids], more: int, most: int) -> list[list[Ids]]:
    """Return prompts in batches, the longest first: each of at most so many tokens, with `more` after each prompt.

    >>> batches_of([(1,), (2, 2, 2, 2, 2), (3, 3)], more=1, most=6)
    [[(2, 2, 2, 2, 2)], [(3, 3), (1,)]]
    """
    left = sorted(prompts, key=len, reverse=True)
    batches: list[list[Ids]] = []
    while left:
        size = max(1, most // (len(left[0]) + more))
        batches.append(left[:size])
        left = left[size:]
    return batches
