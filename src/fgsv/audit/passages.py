"""Passages: documents that several providers have, exactly or nearly, and passages that documents share.

Texts are compared ignoring case, punctuation and white space, by their shingles: all runs of eight words. Every
shingle is looked up in one index; from 20 million words on, only a fixed fraction chosen by a hash (as in
FracMinHash). MinHash signatures of whole documents would be shorter, but are estimates, and do not see a passage in a
longer document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from fgsv.audit.copies import Copies, copies_of, ranks_of
from fgsv.checks import as_texts
from fgsv.partition import Partition
from fgsv.types import Ints, Masks
from fgsv.utilities.language.read_texts import folded

SHINGLE = 8
"""Words in a shingle."""
NEAR = 0.7
"""Documents are nearly equal if they share this fraction of the shingles that either of them has."""
PASSAGE = 25
"""Documents are shown that share at least so many shingles: 32 words, if they are in a row."""
SHOWN = 20
"""Passages that are shown, the longest first."""
MANY = 4
"""A shingle is boilerplate if this many providers have it, and they are more than half of all."""
MOST_DOCUMENTS = 50
"""A shingle is boilerplate if more documents than this have it."""
REPEATED = 2
"""A shingle is boilerplate if two providers repeat it in this many documents of their own."""
LONGEST_HEADER = 400
"""Documents that share more shingles than this which two providers repeat are compared by all of them."""
MOST_SHINGLES = 20_000_000
"""In longer texts, a fixed part of the shingles is compared."""
EXCERPT = 8
"""Words of a passage that are shown."""


@dataclass(frozen=True, eq=False)
class Passages:
    """What documents of several providers have in common."""

    copies: Copies
    """Documents that are equal or nearly equal to another provider's."""
    shared: tuple[tuple[int, int, int, str], ...]
    """Pairs of other documents with a passage in common: both rows, about how many words, and its first words."""
    boilerplate: tuple[int, str]
    """How many documents have passages that many providers share, and the first words of the commonest."""
    tested: Ints
    """Test texts of which most is in one document."""


def find_passages(
    texts: Sequence[str], groups: Any, tests: Sequence[str] = (), *, registered: ArrayLike | None = None
) -> Passages:
    """Find documents and passages that several providers have, and test texts that are in documents.

    Passages that many share, such as licences and headers, are boilerplate: they count neither as copies nor against
    them. Costs one sort of all words, and memory for them.

    Args:
        texts: n documents.
        groups: The provider of each, as for `fgsv.value`.
        tests: Texts that test. Default: none.
        registered: (n,) when each document was registered, as for `find_copies`. Default: unknown.

    Returns:
        Copies, shared passages, boilerplate, and test texts that are in documents.

    Examples:
        >>> story = "once upon a time there was a miller who had three sons and a mill and a donkey and a cat"
        >>> found = find_passages([story, "another tale", story.upper() + "!"], ["a", "b", "c"])
        >>> found.copies.table[["provider", "other", "exact", "near"]].to_dict("records")
        [{'provider': 'a', 'other': 'c', 'exact': 1, 'near': 0}]

    """
    texts, tests = as_texts(texts, "texts"), as_texts(tests, "tests")
    partition = Partition.of(groups, len(texts))
    words = [folded(text) for text in (*texts, *tests)]
    index, places = _index(words)
    documents, tested = index[: len(texts)], index[len(texts) :]
    shared, common, repeated = _boilerplate(documents, partition)
    own = ~common & ~repeated
    first, second, count, near = _pairs(documents, partition, shared, common, own)
    numbers: dict[tuple[str, ...], int] = {}
    exact = np.array([numbers.setdefault(tuple(each), len(numbers)) for each in words[: len(texts)]], dtype=np.int64)
    order = np.flatnonzero(~near & (count >= PASSAGE))
    order = order[np.argsort(-count[order], kind="stable")][:SHOWN]
    inside = (tested[:, own] @ documents[:, own].T).max(axis=1).toarray().ravel() if len(tests) else np.zeros(0)
    return Passages(
        copies_of(partition, np.stack([first[near], second[near]]), exact, ranks=ranks_of(registered, len(texts))),
        tuple(
            (int(i), int(j), int(n) + SHINGLE - 1, _excerpt(documents, own, i, j, words, places))
            for i, j, n in zip(first[order], second[order], count[order], strict=True)
        ),
        _boilerplate_in_words(documents, ~own, words, places),
        np.flatnonzero((inside > 0) & (inside >= NEAR * np.diff(tested[:, own].indptr))),
    )


def _index(words: Sequence[Sequence[str]]) -> tuple[csr_array, Ints]:
    """Return which document has which shingle, (documents, H), and the (2, H) document and place that has it first.

    A document of fewer words than a shingle is one shingle.
    """
    rng = np.random.default_rng(0)
    numbers: dict[str, int] = {}
    streams = [np.array([numbers.setdefault(word, len(numbers)) for word in each], dtype=np.int64) for each in words]
    weights = rng.integers(0, 2**64, size=len(numbers) + 1, dtype=np.uint64)
    powers = rng.integers(0, 2**64, size=SHINGLE, dtype=np.uint64) | np.uint64(1)
    hashes = [_hashes(weights[stream], powers) for stream in streams]
    lengths = [len(each) for each in hashes]
    flat = np.concatenate(hashes)
    document = np.repeat(np.arange(len(words)), lengths)
    place = np.concatenate([np.arange(length) for length in lengths])
    part = max(1, -(-len(flat) // MOST_SHINGLES))
    kept = flat <= np.uint64((2**64 - 1) // part)
    known, first, column = np.unique(flat[kept], return_index=True, return_inverse=True)
    index = csr_array((np.ones(len(column)), (document[kept], column)), shape=(len(words), len(known)))
    index.sum_duplicates()
    index.data[:] = 1
    return index, np.stack([document[kept][first], place[kept][first]])


def _hashes(words: NDArray[np.uint64], powers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash for each shingle of a text, modulo 2^64."""
    length = min(SHINGLE, len(words))
    count = len(words) - length + 1
    found = np.full(count if len(words) else 0, np.uint64(length))
    for offset in range(length if len(words) else 0):
        found += words[offset : offset + count] * powers[offset]
    return found ^ (found >> np.uint64(29))


def _boilerplate(documents: csr_array, partition: Partition) -> tuple[Masks, Masks, Masks]:
    """Return (H,) which shingles several providers have, which of them many have, and which they repeat."""
    owners = csr_array(
        (np.ones(partition.n_players), (partition.codes, np.arange(partition.n_players))),
        shape=(partition.n_groups, partition.n_players),
    )
    held = (owners @ documents).tocsc()
    holders = np.diff(held.indptr)
    repeats = csr_array(((held.data >= REPEATED).astype(float), held.indices, held.indptr), shape=held.shape[::-1])
    many = (holders >= MANY) & (holders > partition.n_groups / 2)
    shared = holders > 1
    return shared, shared & (many | (held.sum(axis=0) > MOST_DOCUMENTS)), repeats.sum(axis=1) >= 2


def _pairs(
    documents: csr_array, partition: Partition, shared: Masks, common: Masks, own: Masks
) -> tuple[Ints, Ints, Ints, Masks]:
    """Return pairs of documents of different providers, how many shingles they share, and if they are nearly equal.

    Only what is their own is compared, unless they share more of what is repeated than a header has.
    """
    everything, alone = documents[:, shared & ~common], documents[:, shared & own]
    product = (everything @ everything.T).tocoo()
    first, second = product.coords
    other = (first < second) & (partition.codes[first] != partition.codes[second])
    first, second, all_of_it = first[other], second[other], product.data[other].astype(np.int64)
    picked = (alone @ alone.T)[first, second]
    count = (picked.toarray() if issparse(picked) else np.asarray(picked)).astype(np.int64).ravel()
    long = all_of_it - count > LONGEST_HEADER
    count[long] = all_of_it[long]
    sizes, whole_sizes = (np.diff(documents[:, columns].indptr) for columns in (own, ~common))
    either = np.where(long, whole_sizes[first] + whole_sizes[second], sizes[first] + sizes[second]) - count
    return first, second, count, (count > 0) & (count >= NEAR * either)


def _excerpt(documents: csr_array, own: Masks, i: int, j: int, words: Sequence[Sequence[str]], places: Ints) -> str:
    """Return the first words that two documents have in common, of those that are their own if there are any."""
    rows = [documents.indices[documents.indptr[row] : documents.indptr[row + 1]] for row in (i, j)]
    both = np.intersect1d(*rows)
    both = both[own[both]] if own[both].any() else both
    return _at(words, *min(places[:, both].T.tolist()))


def _at(words: Sequence[Sequence[str]], document: int, place: int) -> str:
    return " ".join(words[document][place : place + EXCERPT])


def _boilerplate_in_words(
    documents: csr_array, common: Masks, words: Sequence[Sequence[str]], places: Ints
) -> tuple[int, str]:
    if not common.any():
        return 0, ""
    often = np.asarray(documents.sum(axis=0)).ravel() * common
    commonest = int(np.argmax(often))
    return int((np.diff(documents[:, common].indptr) > 0).sum()), _at(words, *places[:, commonest].tolist())
