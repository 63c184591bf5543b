"""Texts as the world writes them: odd characters, odd names, hostile documents; an error, or the right values."""

import json
import os

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.pipeline import value_data
from fgsv.report import render
from fgsv.utilities.language import ngram

ODD = [
    "\x00 null byte \x1b[31m red",
    "\u202e reversed",
    "=HYPERLINK('http://x')",
    "</script><img src=x onerror=alert(1)>",
    "a" * 10_000,
    "NA",
    "null",
    "1e5",
    "😀 🏴‍☠️",
    "مرحبا بالعالم",
    "猫が座った",
]


def frame_of(texts):
    names = np.array(["<b>one</b>", "=two()", "three\u202e"])
    return pd.DataFrame({"body": texts, "by": names[np.arange(len(texts)) % 3]})


def test_odd_documents_keep_their_words_in_every_step():
    frame = frame_of([*ODD, *(f"{text} again" for text in ODD)])
    opened = fgsv.open_text(frame, text="body", group="by", test=frame[:6])
    assert opened.game.n_players == len(frame)
    masks = np.random.default_rng(0).random((20, len(frame))) < 0.5
    assert np.isfinite(opened.game(masks)).all()
    result = value_data(opened, budget=60, audit=True, parts=(2,), audit_budget=2100)
    page = render(result) if pytest.importorskip("vl_convert") else ""
    assert "<img src=x" not in page
    assert "<b>one" not in page
    json.dumps(result.to_document())


def test_no_player_changes_the_values_of_the_others(repeats):
    """A player is its text: documents that come, go or change places leave every other coalition's value."""
    rng = np.random.default_rng(0)
    words = np.array("one two three four five six seven eight nine ten".split())  # noqa: SIM905
    for _ in range(repeats(3, 100)):
        texts = [" ".join(rng.choice(words, size=rng.integers(1, 30))) for _ in range(8)]
        tests = {"all": [" ".join(rng.choice(words, size=20))]}
        order = rng.permutation(8)
        some = np.sort(rng.choice(8, size=5, replace=False))
        masks = rng.random((30, 8)) < 0.5
        game = ngram(texts, tests)
        np.testing.assert_allclose(ngram([texts[i] for i in order], tests)(masks[:, order]), game(masks), rtol=1e-12)
        fewer = masks & np.isin(np.arange(8), some)
        np.testing.assert_allclose(ngram([texts[i] for i in some], tests)(fewer[:, some]), game(fewer), rtol=1e-12)


def test_names_that_are_no_text_and_pipes_are_no_obstacle(tmp_path, monkeypatch):
    for provider in (b"a", b"\xff"):
        folder = os.path.join(os.fsencode(tmp_path), b"texts", provider)
        os.makedirs(folder)
        with open(os.path.join(folder, b"\xfe.txt"), "w") as file:
            file.write("some words")
    os.mkfifo(tmp_path / "texts" / "a" / "pipe")
    monkeypatch.chdir(tmp_path / "texts")
    opened = fgsv.open_text(".", test=pd.DataFrame({"text": ["words"]}))
    assert opened.partition.names == ("a", "\\xff")
    assert opened.rows.names.tolist() == ["a/\\xfe.txt", "\\xff/\\xfe.txt"]
    assert opened.source.file == "texts"
    json.dumps(opened.source.to_dict(), ensure_ascii=False).encode()
