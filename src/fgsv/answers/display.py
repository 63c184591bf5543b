"""An answer as HTML: each sentence of its sources shaded by what it was worth."""

from __future__ import annotations

from collections import Counter
from html import escape
from itertools import groupby

from fgsv.answers.pieces import Pieces, Place
from fgsv.valuation import Valuation

DARKEST = 0.75
MORE, LESS = "31, 119, 180", "200, 60, 40"
"""Colours of pieces that made the answer more likely, and less likely."""


class Page(str):
    """HTML that a notebook shows."""

    def _repr_html_(self) -> str:
        return self


def shaded(pieces: Pieces, valuation: Valuation) -> Page:
    """Return an answer and its sources as HTML, each piece shaded by its value; its share is shown by the pointer.

    Args:
        pieces: The pieces that were valued.
        valuation: What `value` returned of them.

    Examples:
        >>> from fgsv.answers import Answer, Passage, Pieces, shaded, value
        >>> passages = [Passage("It rained <b>on Monday</b>.", "North"), Passage("Tuesday was dry.", "South")]
        >>> pieces = Pieces.of(Answer("When did it rain?", "On Monday.", passages))
        >>> result = value(pieces, lambda query, answer, pieces: float("Monday" in " ".join(pieces)))
        >>> "It rained &lt;b&gt;on Monday&lt;/b&gt;." in shaded(pieces, result)
        True

    """
    shares = valuation.of_players().shares()
    if len(shares) != pieces.n_players:
        raise ValueError(f"the valuation is of {len(shares)} players, but the answer has {pieces.n_players} pieces")
    largest = max(abs(shares))
    counts = Counter(place.player for place in pieces.places)

    def span(place: Place) -> str:
        share = shares[place.player]
        colour = f"rgba({MORE if share > 0 else LESS}, {DARKEST * abs(share) / largest:.3f})"
        several = f", in {counts[place.player]} places" if counts[place.player] > 1 else ""
        return f'<span style="background: {colour}" title="{share:.1%}{several}">{escape(place.text)}</span>'

    answer = pieces.answer
    parts = [f"<p>{escape(answer.query)}</p>", f"<p><strong>{escape(answer.text)}</strong></p>"]
    for number, places in groupby(pieces.places, lambda place: place.passage):
        texts = " ".join(map(span, places))
        parts.append(f"<p><small>{escape(answer.passages[number].publisher)}</small><br>{texts}</p>")
    return Page(
        f'<div style="max-width: 50em">{"".join(parts)}<p><small>'
        "The darker, the more likely a sentence made this answer; in red, the less likely.</small></p></div>"
    )
