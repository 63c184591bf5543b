"""What users type after an option, and what is no such thing."""

import pytest
import typer

from fgsv.cli import parsers


def test_durations():
    assert [parsers.duration(text) for text in ("90", "90s", "10m", "2h", " 1.5H ")] == [90, 90, 600, 7200, 5400]


@pytest.mark.parametrize(
    ("parser", "text", "words"),
    [
        (parsers.duration, "soon", "90s, 10m or 2h"),
        (parsers.duration, "0", "90s, 10m or 2h"),
        (parsers.duration, "-5m", "90s, 10m or 2h"),
        (parsers.parts, ["two"], "2,3,5"),
        (parsers.parts, ["2,,3"], "2,3,5"),
        (parsers.on_error, "ignore", "raise, empty or a number"),
        (parsers.a_confidence, 1.0, "between 0 and 1"),
        (parsers.a_confidence, 0.0, "between 0 and 1"),
    ],
)
def test_what_cannot_be_parsed_is_a_usage_error(parser, text, words):
    with pytest.raises(typer.BadParameter, match=words):
        parser(text)
