"""The shaded answer: what users wrote is text, and darker is worth more."""

import re
from html.parser import HTMLParser

import pytest

import fgsv
from fgsv.answers import Answer, Passage, Pieces, shaded, value

HOSTILE = '<script>alert("x")</script>'


class Spans(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.spans = set(), []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag == "span":
            self.spans.append([dict(attributes), ""])

    def handle_data(self, data):
        if self.spans and not self.spans[-1][1]:
            self.spans[-1][1] = data


def read(html):
    parser = Spans()
    parser.feed(html)
    return parser


@pytest.fixture
def valued():
    passages = [
        Passage(f"Most is here. Also {HOSTILE} said little. This one misleads.", f"North{HOSTILE}"),
        Passage("Most is here.", "South"),
    ]
    pieces = Pieces.of(Answer(f"Why?{HOSTILE}", f"Because.{HOSTILE}", passages))
    worth = {"Most": 8.0, "little": 2.0, "misleads": -2.0}
    return pieces, value(
        pieces, lambda query, answer, texts: sum(w for k, w in worth.items() if k in " ".join(texts))
    )


def test_names_and_texts_are_escaped(valued):
    parser = read(shaded(*valued))
    assert parser.tags == {"div", "p", "strong", "span", "small", "br"}
    assert parser.spans[1][1] == f"Also {HOSTILE} said little."


def test_a_piece_is_the_darker_the_more_it_is_worth(valued):
    spans = read(shaded(*valued)).spans
    assert [each["title"] for each, _ in spans] == ["100.0%, in 2 places", "25.0%", "-25.0%", "100.0%, in 2 places"]
    colours = [re.findall(r"[\d.]+", each["style"]) for each, _ in spans]
    assert [float(colour[3]) for colour in colours] == pytest.approx([0.75, 0.1875, 0.1875, 0.75], abs=1e-3)
    assert colours[0][:3] == colours[1][:3] != colours[2][:3]


def test_another_answers_valuation_is_refused(valued):
    other = fgsv.exact(fgsv.games.Airport([1, 2]))
    with pytest.raises(ValueError, match="of 2 players, but the answer has 3 pieces"):
        shaded(valued[0], other)


def test_a_notebook_shows_it(valued):
    assert shaded(*valued)._repr_html_() == shaded(*valued)
