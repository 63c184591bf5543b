"""The shaded answer: what users wrote is text, and darker is worth more."""

import re
from html import unescape

import pytest

import fgsv
from fgsv.answers import Answer, Passage, Pieces, shaded, value

HOSTILE = '<script>alert("x")</script>'
SPAN = re.compile(r'<span style="background: rgba\((\d+, \d+, \d+), ([\d.]+)\)" title="([^"]*)">([^<]*)</span>')
"""Colour, darkness, share and text of a piece."""


@pytest.fixture
def valued():
    passages = [
        Passage(f"Most is here. Also {HOSTILE} said little. This one misleads.", f"North{HOSTILE}"),
        Passage("Most is here.", "South"),
    ]
    pieces = Pieces.of(Answer(f"Why?{HOSTILE}", f"Because.{HOSTILE}", passages))
    worth = {"Most": 8.0, "little": 2.0, "misleads": -2.0}
    return pieces, value(pieces, lambda query, answer, said: sum(w for k, w in worth.items() if k in " ".join(said)))


def test_names_and_texts_are_escaped(valued):
    page = shaded(*valued)
    assert set(re.findall(r"<(\w+)", page)) == {"div", "p", "strong", "span", "small", "br"}
    assert unescape(SPAN.findall(page)[1][3]) == f"Also {HOSTILE} said little."


def test_a_piece_is_the_darker_the_more_it_is_worth(valued):
    colours, darkness, shares, _ = zip(*SPAN.findall(shaded(*valued)), strict=True)
    assert shares == ("100.0%, in 2 places", "25.0%", "-25.0%", "100.0%, in 2 places")
    assert [float(each) for each in darkness] == pytest.approx([0.75, 0.1875, 0.1875, 0.75], abs=1e-3)
    assert colours[0] == colours[1] != colours[2]


def test_another_answers_valuation_is_refused(valued):
    with pytest.raises(ValueError, match="of 2 players, but the answer has 3 pieces"):
        shaded(valued[0], fgsv.exact(fgsv.games.Airport([1, 2])))


def test_a_notebook_shows_it(valued):
    assert shaded(*valued)._repr_html_() == shaded(*valued)
