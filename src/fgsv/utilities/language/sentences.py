"""Sentences: where texts are cut, and which are nearly equal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from fgsv.utilities.language.read_texts import folded

SPLITTER = "sentences 1"
"""The name of this way to cut, for records."""
END = re.compile(r"""[.!?…]["'”’»)\]]*\s+(?=["'“‘«(\[]*[^\W_a-z])|[。！？]["'”’」』）]*""")
"""A sentence may end here: a mark, closing quotes and white space before what is no small letter."""
GOES_ON = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|No|Nos|Inc|Ltd|Co|Corp|Gen|Sen|Rep|Gov|Lt|Col|Sgt|Capt|Fig|al|cf|e\.g|i\.e)"
    r"|\b\w)\.$"
)
"""But not after these abbreviations, nor after an initial."""
NEAR = 0.75
"""Texts are nearly equal if they share this fraction of the pairs of neighbouring words that either of them has, and
have the same numbers: two sentences that differ in a number state different facts."""


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, with one space where it has any white space; a blank line ends one.

    >>> sentences("It rained. Mr. Bell, aged 3.5, said: 'Why?'  Nobody knew.")
    ['It rained.', "Mr. Bell, aged 3.5, said: 'Why?'", 'Nobody knew.']

    What has no letter and no digit is left out, so a text that is cut between two sentences has the same ones.
    """
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        begin = 0
        for end in END.finditer(paragraph):
            sentence = paragraph[begin : end.end()].strip()
            if not GOES_ON.search(sentence):
                found.append(sentence)
                begin = end.end()
        found.append(paragraph[begin:])
    return [" ".join(sentence.split()) for sentence in found if re.search(r"\w", sentence)]


def alike(texts: Sequence[str]) -> list[int]:
    """Return the number of each text, from 0; texts that are equal or nearly equal have that of the first of them.

    >>> alike(["It rained on Monday.", "It was cold.", "it rained, on Monday!"])
    [0, 1, 0]
    """
    kinds: dict[str, int] = {}
    seen: list[tuple[set[tuple[str, str]], list[str], int]] = []
    found = []
    for text in texts:
        words = folded(text)
        key = " ".join(words) or text
        if key not in kinds:
            pairs = set(pairwise(words))
            numbers = [word for word in words if not word.isalpha()]
            near = (
                number
                for others, same, number in seen
                if same == numbers and len(pairs & others) >= NEAR * max(1, len(pairs | others))
            )
            kinds[key] = next(near, 1 + max(kinds.values(), default=-1))
            seen.append((pairs, numbers, kinds[key]))
        found.append(kinds[key])
    return found
