"""Texts as sequences of tokens that a language model takes: cut at its context, padded to equal length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fgsv.types import Ints


@dataclass(frozen=True, eq=False)
class Sequences:
    """N sequences of tokens, of which each belongs to a player or to a domain of test texts.

    A text longer than the context is cut into sequences that overlap by one token, so that every token but the first
    is predicted once. A sequence is padded on its right, where a causal model does not look.
    """

    tokens: torch.Tensor
    """(N, L); 0 where a sequence has ended."""
    counted: torch.Tensor
    """(N, L): whether the token after a place is there and counts."""
    owner: Ints
    """(N,)."""
    n_cut: int
    """Number of texts that were cut."""

    @classmethod
    def of(cls, pieces: Sequence[tuple[int, Ints, int]], context: int) -> Sequences:
        """Cut and pad texts, each given by its owner, its tokens and the place of the first token that counts."""
        cut = [(owner, *window) for owner, tokens, first in pieces for window in windows(tokens, first, context)]
        length = max(len(tokens) for _, tokens, _ in cut)
        padded = np.zeros((len(cut), length), dtype=np.int64)
        counted = np.zeros((len(cut), length), dtype=bool)
        for row, (_, tokens, first) in enumerate(cut):
            padded[row, : len(tokens)] = tokens
            counted[row, first - 1 : len(tokens) - 1] = True
        owner = np.array([owner for owner, _, _ in cut])
        n_cut = sum(len(tokens) > context for _, tokens, _ in pieces)
        return cls(torch.as_tensor(padded), torch.as_tensor(counted), owner, n_cut)

    def __len__(self) -> int:
        return len(self.owner)

    @property
    def length(self) -> int:
        """Number of tokens of the longest sequence, L."""
        return int(self.tokens.shape[1])

    @property
    def n_counted(self) -> Ints:
        """(owners,) the number of tokens that count."""
        return np.bincount(self.owner, weights=self.counted.sum(dim=1).numpy()).astype(np.int64)


def windows(tokens: Ints, first: int, context: int) -> Iterator[tuple[Ints, int]]:
    """Yield pieces of a text, each with the place of its first token that counts, at least 1.

    >>> [(piece.tolist(), first) for piece, first in windows(np.arange(7), 1, 4)]
    [([0, 1, 2, 3], 1), ([3, 4, 5, 6], 1)]
    >>> [(piece.tolist(), first) for piece, first in windows(np.arange(7), 5, 4)]
    [([3, 4, 5, 6], 2)]

    Where not all tokens count, as in an answer to a prompt, the last piece ends with the text: an answer that fits
    has as much of its prompt before it as fits.

    Args:
        tokens: Those of a text.
        first: Place of the first token that counts; 1 or less: all that have one before them.
        context: Most tokens of a piece; pieces overlap by one, so that every token is predicted once.

    """
    if first <= 1:
        begins = list(range(0, len(tokens) - 1, context - 1))
        ends = [begin + context for begin in begins]
    else:
        ends = [*range(len(tokens), first, 1 - context)]
        begins = [max(0, end - context) for end in ends]
    for begin, end in sorted(zip(begins, ends, strict=True)):
        yield tokens[begin:end], max(1, first - begin)


@dataclass(frozen=True, eq=False)
class Reader:
    """Turns texts into tokens with a tokenizer of transformers; each text begins with the tokenizer's start token."""

    tokenizer: Any
    n_known: int
    """Number of tokens that the model knows."""

    @property
    def start(self) -> list[int]:
        """The token before a text: that of the beginning, else that of the end; none if the tokenizer has neither."""
        found = (getattr(self.tokenizer, name, None) for name in ("bos_token_id", "eos_token_id"))
        return [token for token in found if token is not None][:1]

    def tokens(self, texts: Sequence[str], names: Sequence[str]) -> list[Ints]:
        """Return the tokens of each text, without a start token; an error names a text that cannot be read."""
        for text, name in zip(texts, names, strict=True):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise ValueError(
                    f"{name} is not valid Unicode text (at position {error.start}): it was read with the wrong "
                    "encoding; read it with the encoding it was written in"
                ) from None
        found = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        tokens = [np.asarray(ids, dtype=np.int64) for ids in found]
        for ids, name in zip(tokens, names, strict=True):
            largest = int(ids.max(initial=-1))
            if largest >= self.n_known:
                raise ValueError(
                    f"the tokenizer does not match the model: {name} has token {largest}, and the model knows "
                    f"{self.n_known} tokens; give the tokenizer that the model was trained with"
                )
            if unknown is not None and 2 * int((ids == unknown).sum()) > len(ids):
                raise ValueError(
                    f"the tokenizer does not match the texts: it knows less than half of {name}; use the tokenizer "
                    "of a model for this language"
                )
        return tokens


def sequences_of_documents(reader: Reader, documents: Sequence[Sequence[str]], context: int) -> Sequences:
    """Return the sequences of the players: the texts of one are packed, one after the other, and then cut.

    Args:
        reader: Turns texts into tokens.
        documents: The texts of each player, in which those without any character are left out.
        context: Most tokens of a sequence.

    Raises:
        ValueError: A player has no token to predict, or the tokenizer does not fit.

    """
    texts = [(number, text) for number, texts in enumerate(documents) for text in texts if text.strip()]
    tokens = reader.tokens([text for _, text in texts], [f"document {number}" for number, _ in texts])
    start = np.array(reader.start, dtype=np.int64)
    streams: list[list[Ints]] = [[] for _ in documents]
    for (number, _), ids in zip(texts, tokens, strict=True):
        streams[number] += [start, ids] if len(ids) else []
    for number, stream in enumerate(streams):
        if sum(map(len, stream)) < 2:
            raise ValueError(f"document {number} has no tokens to predict: leave it out")
    return Sequences.of([(number, np.concatenate(stream), 1) for number, stream in enumerate(streams)], context)


def sequences_of_tests(reader: Reader, tests: Mapping[str, Sequence[tuple[str, str]]], context: int) -> Sequences:
    """Return the sequences of test texts, in which the tokens of answers count.

    Args:
        reader: Turns texts into tokens.
        tests: Domain -> pairs of a prompt, which may be empty, and an answer.
        context: Most tokens of a sequence; of a longer prompt the end is kept.

    Raises:
        ValueError: A test has no token to predict, or the tokenizer does not fit.

    """
    names = [f"test {number} of {domain!r}" for domain, pairs in tests.items() for number in range(len(pairs))]
    prompts = reader.tokens([prompt for pairs in tests.values() for prompt, _ in pairs], names)
    answers = reader.tokens([answer for pairs in tests.values() for _, answer in pairs], names)
    owners = [number for number, pairs in enumerate(tests.values()) for _ in pairs]
    start = np.array(reader.start, dtype=np.int64)
    pieces = []
    for owner, name, prompt, answer in zip(owners, names, prompts, answers, strict=True):
        before = np.concatenate([start, prompt])
        if not len(answer) or len(before) + len(answer) < 2:
            raise ValueError(f"{name} has no tokens to predict: leave it out")
        pieces.append((owner, np.concatenate([before, answer]), max(1, len(before))))
    return Sequences.of(pieces, context)
