"""The n-gram model as a game: exact, for thousands of coalitions a second, without a GPU.

Counts of n-grams add up over documents, so the counts of a coalition are one product of a sparse matrix with its
mask, and no model is trained.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from fgsv.checks import as_number, as_texts
from fgsv.game import Game
from fgsv.types import Floats, Ints, Masks
from fgsv.utilities.fingerprint import fingerprint
from fgsv.utilities.language.read_texts import WORD, check_per, divisors, read_documents, read_tests, words_of

VOCABULARY = 1_000_000
"""Without data, each of so many words is equally likely: more than a language has, and a number of no document."""
CHUNK_CELLS = 1 << 19
"""Coalitions are evaluated in chunks of so many probabilities, which fit into the cache of a processor."""

Per = Literal["token", "byte"]


@dataclass(frozen=True, eq=False)
class Level:
    """The k-grams of the test texts whose first k - 1 words, the context, are in some document."""

    grams: csr_array
    """(G, n) how often each k-gram is in each player."""
    contexts: csr_array
    """(C, n) how often each context is in each player, with a word after it."""
    context_of: Ints
    """(G,) the context of each k-gram."""
    shorter: Ints
    """(G,) the k-gram without its first word, on the level below."""
    ends: Ints
    """k-grams at which test words end: no longer context of theirs is in any document."""
    starts: Ints
    """(B,) where blocks of ends begin that count alike: one logarithm of a product takes the place of many."""
    weights: Floats
    """(q, B) what the log-probabilities of a block count in each output."""


@dataclass(frozen=True, eq=False)
class NGram:
    """The mean log-probability of test words under an interpolated n-gram model of a coalition's documents.

    p(w | h) = (a c(hw) + (c(h) - a c(h) + b) p(w | h')) / (c(h) + b), where c counts in the coalition's documents, h'
    is h without its first word, a is `trust` and b is `prior`. Below the shortest, empty context all words of the
    vocabulary are equally likely: that is U(0).
    """

    levels: tuple[Level, ...]
    trust: float
    prior: float
    base: bool
    """Whether the last column of the counts is a base corpus, which is in every coalition."""
    divisors: Floats
    """(q,) what the log-likelihood of each output is divided by: words, or bytes in units of bits."""

    @property
    def n_outputs(self) -> int:
        """Number of outputs, q."""
        return len(self.divisors)

    def __call__(self, masks: Masks) -> Floats:
        """Evaluate the coalitions in the rows of an (m, n) boolean array: (m,), or (m, q) for several outputs."""
        values = np.empty((len(masks), self.n_outputs))
        step = max(1, CHUNK_CELLS // max(masks.shape[1] // 8, *(len(level.context_of) for level in self.levels)))
        for start in range(0, len(masks), step):
            values[start : start + step] = self._evaluate(masks[start : start + step])
        return values[:, 0] if self.n_outputs == 1 else values

    def _evaluate(self, masks: Masks) -> Floats:
        members = masks.T.astype(float)
        if self.base:
            members = np.vstack([members, np.ones(len(masks))])
        likely = np.full((1, len(masks)), 1 / VOCABULARY)
        values = np.zeros((self.n_outputs, len(masks)))
        for level in self.levels:
            contexts = level.contexts @ members
            trusted = self.trust / (contexts + self.prior)
            lower = (1 - contexts * trusted)[level.context_of]
            lower *= likely[level.shorter]
            likely = level.grams @ members
            likely *= trusted[level.context_of]
            likely += lower
            if len(level.ends):
                values += level.weights @ np.log(np.multiply.reduceat(likely[level.ends], level.starts, axis=0))
        return values.T


def ngram(
    documents: Sequence[str | Sequence[str]],
    tests: Mapping[str, Sequence[str | tuple[str, str]]],
    *,
    order: int = 3,
    per: Per = "token",
    base: Sequence[str] = (),
    trust: float = 0.8,
    prior: float = 5.0,
) -> Game:
    """Return the game in which a coalition of documents is worth the log-likelihood of test texts.

    U(S) is the mean natural log-probability of the test words, or minus the bits per byte, under an n-gram model of
    the documents of S (see `NGram`), with words and marks as tokens. No vocabulary is taken from the documents, so
    U(S) depends on those of S and the arguments alone: a player that comes or goes changes no value of the others.

    Args:
        documents: A text, or several, for each player.
        tests: Domain -> texts, or pairs of a prompt and an answer, of which the answer is scored. Each domain is an
            output; one alone has no name.
        order: Words of the longest n-grams, 1 to 8: a word is predicted from at most order - 1 before it.
        per: "token": mean log-probability of a word; "byte": minus the bits per byte.
        base: Texts that are in every coalition: U(0) is then their model's. Default: none, and U(0) is that of a
            uniform distribution over a million words.
        trust: The most that counts can weigh against shorter contexts, between 0 and 1.
        prior: How often a context must occur for half of that.

    Raises:
        ValueError, TypeError: A setting is out of range, or a text has no words; the error names it.

    Examples:
        >>> game = ngram(["the cat sat", "a dog sat", "the cat"], {"cats": ["the cat sat"]})
        >>> game([[False, False, False], [False, True, False], [True, False, True]]).round(2).tolist()
        [-13.82, -10.22, -1.35]

    """
    players = read_documents(documents)
    domains = read_tests(tests)
    _check(order, per, trust, prior)
    base = as_texts(base, "base")
    texts = [[words_of(text) for text in texts] for texts in [*players, *([base] if base else [])]]
    prompts = [[(words_of(prompt), words_of(answer)) for prompt, answer in each] for each in domains.values()]
    for number, each in enumerate(texts):
        if not any(each):
            raise ValueError(f"{'the base' if number == len(players) else f'document {number}'} has no words")
    for domain, pairs in zip(domains, prompts, strict=True):
        wordless = next((number for number, (_, answer) in enumerate(pairs) if not answer), None)
        if wordless is not None:
            raise ValueError(f"test {wordless} of {domain!r} has no words: leave it out")
    n_words = np.array([sum(len(answer) for _, answer in pairs) for pairs in prompts])
    sizes = divisors(n_words, domains, per)
    least = -order * np.log10(1 - trust) + np.log10(VOCABULARY)  # no probability is below 10^-least
    levels = tuple(_levels(texts, prompts, sizes, order, most=max(1, int(300 / least))))
    model = NGram(levels, trust, prior, bool(base), sizes)
    settings = [order, per, trust, prior, VOCABULARY, WORD.pattern]
    frame = {
        "model": fingerprint("n-gram 1", settings),
        "base": fingerprint(texts[len(players) :]),
        "tests": fingerprint([list(domains), prompts, sizes.tolist()]),
    }
    return Game(
        model,
        len(players),
        outputs=tuple(domains) if len(domains) > 1 else None,
        batch_size=2048,
        frame={name: str(digest) for name, digest in frame.items()},
        players=b"".join(map(_digest, texts[: len(players)])),
    )


def _check(order: int, per: str, trust: float, prior: float) -> None:
    if not isinstance(order, int) or not 1 <= order <= 8:
        raise ValueError(f"order must be a whole number from 1 to 8, got {order!r}")
    check_per(per)
    if not 0 < as_number(trust) < 1:
        raise ValueError(f"trust must be between 0 and 1, got {trust!r}")
    if not 0 < as_number(prior) < np.inf:
        raise ValueError(f"prior must be positive, got {prior!r}")


def _digest(texts: Sequence[Sequence[str]]) -> bytes:
    """Return 16 bytes for the words of a player's texts, in any order; no word contains white space."""
    whole = "\n".join(sorted(" ".join(words) for words in texts))
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).digest()[:16]


@dataclass(frozen=True, eq=False)
class Stream:
    """Texts one after the other, their words as numbers."""

    words: Ints
    """-1 for a word that no test text has."""
    places: Ints
    """The place of each word in its text."""

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]], numbers: Mapping[str, int]) -> Stream:
        """Return texts with a number for each word."""
        words = np.array([numbers.get(word, -1) for each in texts for word in each], dtype=np.int64)
        return cls(words, np.concatenate([np.arange(len(each)) for each in texts]))

    def keys(self, contexts: Ints, n_words: int) -> Ints:
        """Return a number for each context with its word; -1 where one of them is unknown."""
        return np.where((contexts >= 0) & (self.words >= 0), contexts * n_words + self.words, -1)

    def before(self, grams: Ints, length: int) -> Ints:
        """Return the gram of this length that ends before each word; -1 if the word's text begins in between."""
        return np.where(self.places >= length, np.roll(grams, 1), -1)


def _levels(
    texts: Sequence[Sequence[Sequence[str]]],
    prompts: Sequence[Sequence[tuple[Sequence[str], Sequence[str]]]],
    sizes: Floats,
    order: int,
    most: int,
) -> Iterator[Level]:
    """Yield the levels of a model, from single words to the longest contexts that any document has."""
    tested = [[*prompt, *answer] for pairs in prompts for prompt, answer in pairs]
    numbers = {word: number for number, word in enumerate(dict.fromkeys(word for words in tested for word in words))}
    lengths = np.array([[len(prompt), len(answer)] for pairs in prompts for prompt, answer in pairs])
    scored = np.repeat(np.tile([False, True], len(lengths)), lengths.ravel())
    domain = np.repeat(np.repeat(np.arange(len(prompts)), [len(pairs) for pairs in prompts]), lengths.sum(axis=1))
    test = Stream.of(tested, numbers)
    train = Stream.of([words for player in texts for words in player], numbers)
    player = np.repeat(np.arange(len(texts)), [sum(map(len, each)) for each in texts])

    context = np.zeros_like(train.words)  # the empty one
    test_context = np.zeros_like(test.words)
    contexts = _counts(context, player, 1, len(texts))
    row = np.zeros_like(test.words)
    seen = scored
    for length in range(1, order + 1):
        keys = test.keys(test_context, len(numbers))
        known = np.unique(keys[keys >= 0])
        gram = _lookup(known, train.keys(context, len(numbers)))
        test_gram = _lookup(known, keys)
        used, first, rows = np.unique(test_gram[seen], return_index=True, return_inverse=True)
        one = np.flatnonzero(seen)[first]  # a test word for each of the grams
        needed, context_of = np.unique(test_context[one], return_inverse=True)
        counted = _counts(gram, player, len(known), len(texts))[used], contexts[needed], context_of, row[one]
        row = np.full(len(row), -1)
        row[seen] = rows
        context = train.before(gram, length)
        test_context = test.before(test_gram, length)
        contexts = _counts(context, player, len(known), len(texts))
        longer = seen & (test_context >= 0) & (np.diff(contexts.indptr) > 0)[test_context] & (length < order)
        yield Level(*counted, *_blocks(row[seen & ~longer], domain[seen & ~longer], sizes, most))
        seen = longer
        if not seen.any():
            return


def _blocks(rows: Ints, domain: Ints, sizes: Floats, most: int) -> tuple[Ints, Ints, Floats]:
    """Return the rows in an order in which those that count alike are together, and blocks of at most so many."""
    ends, column = np.unique(rows, return_inverse=True)
    counts = np.zeros((len(sizes), len(ends)))
    np.add.at(counts, (domain, column), 1.0)
    kind = np.unique(counts, axis=1, return_inverse=True)[1].ravel()
    order = np.argsort(kind, kind="stable")
    first = np.searchsorted(kind[order], kind[order])
    starts = np.flatnonzero((np.arange(len(order)) - first) % most == 0)
    return ends[order], starts, counts[:, order[starts]] / sizes[:, None]


def _lookup(known: Ints, keys: Ints) -> Ints:
    """Return where each key stands among sorted ones, -1 if nowhere."""
    where = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[where] == keys, where, -1)


def _counts(grams: Ints, players: Ints, n_grams: int, n_players: int) -> csr_array:
    """Return (n_grams, n_players) how often each gram is in each player; -1 counts for nothing."""
    there = grams >= 0
    counts = csr_array((np.ones(int(there.sum())), (grams[there], players[there])), shape=(n_grams, n_players))
    counts.sum_duplicates()
    return counts
