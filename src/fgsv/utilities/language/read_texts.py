"""Texts: what documents and test texts may be, and the words that they are made of."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fgsv.types import Floats, Ints

Domains = Mapping[str, Sequence[tuple[str, str]]]
"""Domain of test texts -> pairs of a prompt, which may be empty, and an answer."""
WORD = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
    r"|\w+|[^\w\s]"
)
"""A word or a mark: letters and digits together, every other character alone, and so are the letters of scripts that
are written without spaces (Thai, Lao, Burmese, Khmer, Chinese, Japanese)."""


def words_of(text: str) -> list[str]:
    """Return the words and marks of a text, without white space.

    >>> words_of("def f(x_1): # naïve")
    ['def', 'f', '(', 'x_1', ')', ':', '#', 'naïve']
    """
    return WORD.findall(unicodedata.normalize("NFC", text))


def folded(text: str) -> list[str]:
    """Return the words of a text without case and marks; its marks, if it has nothing else.

    >>> folded("It RAINED!"), folded("...")
    (['it', 'rained'], ['.', '.', '.'])
    """
    found = WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return [word for word in found if word[0].isalnum() or word[0] == "_"] or found


def read_documents(documents: Any) -> list[list[str]]:
    """Return the texts of each player, which is a text or several; an error names the player without any."""
    if isinstance(documents, (str, bytes)) or not isinstance(documents, Sequence):
        raise TypeError(
            f"documents must be a list with a player's text in each place, got {type(documents).__name__}"
        )
    if not len(documents):
        raise ValueError("there are no documents: give at least one player")
    players = []
    for number, given in enumerate(documents):
        texts = [given] if not isinstance(given, (list, tuple)) else list(given)
        wrong = next((text for text in texts if not isinstance(text, str)), None)
        if wrong is not None:
            raise TypeError(f"document {number} must be text, or a list of texts, got {type(wrong).__name__}")
        if not any(text.strip() for text in texts):
            raise ValueError(f"document {number} has no text: leave it out")
        players.append(texts)
    return players


def read_tests(tests: Any) -> dict[str, list[tuple[str, str]]]:
    """Return domain -> (prompt, answer) pairs; a plain text is an answer to an empty prompt.

    >>> read_tests({"news": ["It rained."], "questions": [("Who?", "Nobody.")]})
    {'news': [('', 'It rained.')], 'questions': [('Who?', 'Nobody.')]}
    """
    if not isinstance(tests, Mapping):
        raise TypeError(f"tests must be a mapping from domains to lists of texts, got {type(tests).__name__}")
    if not tests:
        raise ValueError("there are no test texts: give at least one domain")
    found: dict[str, list[tuple[str, str]]] = {}
    for domain, given in tests.items():
        if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
            raise TypeError(f"the tests of {domain!r} must be a list of texts, got {type(given).__name__}")
        pairs = [("", each) if isinstance(each, str) else each for each in given]
        for number, pair in enumerate(pairs):
            if not isinstance(pair, Sequence) or len(pair) != 2 or not all(isinstance(each, str) for each in pair):
                raise TypeError(f"test {number} of {domain!r} must be a text, or a prompt and an answer")
            if not pair[1].strip():
                raise ValueError(f"test {number} of {domain!r} has no text: leave it out")
        if not pairs:
            raise ValueError(f"domain {domain!r} has no test texts: leave it out")
        found[str(domain)] = [(str(prompt), str(answer)) for prompt, answer in pairs]
    return found


def check_per(per: str) -> None:
    """Raise an error for a unit of log-likelihoods that is neither a token nor a byte."""
    if per not in ("token", "byte"):
        raise ValueError(f"per must be 'token' or 'byte', got {per!r}")


def divisors(n_tokens: Ints, domains: Domains, per: str) -> Floats:
    """Return (q,) what turns the log-likelihoods of domains into means per token, or into minus the bits per byte.

    >>> divisors(np.array([2]), {"news": [("", "It rained.")]}, "byte").round(4).tolist()
    [6.9315]

    Args:
        n_tokens: (q,) tokens, or words, of the answers of each domain.
        domains: The test texts; the bytes are those of their answers.
        per: "token" or "byte".

    """
    if per == "token":
        return n_tokens.astype(float)
    texts = [[answer.encode("utf-8", "surrogatepass") for _, answer in pairs] for pairs in domains.values()]
    return np.log(2) * np.array([sum(map(len, each)) for each in texts], dtype=float)
