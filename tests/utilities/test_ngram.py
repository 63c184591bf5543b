"""The n-gram model against one that counts in a loop, and what its game is a function of."""

import pickle
import subprocess
import sys
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from fgsv.utilities.language import ngram
from fgsv.utilities.language.read_texts import words_of
from fgsv.utilities.language.word_counts import VOCABULARY

PLAYERS = [
    "the cat sat on the mat . the cat slept",
    ["a dog sat on a log", "the dog barked at the cat"],
    "rain falls on the plain in spain",
    "the cat sat on the dog",
    "unrelated words alone",
]
TESTS = {
    "animals": ["the cat sat on the log", "a dog slept"],
    "weather": [("rain falls", "on the plain"), "snow falls on the cat sat on"],
}


def log_probability(texts, prompt, answer, order, trust, prior):
    """Return the log-probability of an answer, counting one n-gram at a time."""
    counts = Counter()
    for words in map(words_of, texts):
        for end in range(1, len(words) + 1):
            for length in range(1, min(order, end) + 1):
                gram = tuple(words[end - length : end])
                counts[gram] += 1
                counts["context", gram[:-1]] += 1
    words = [*words_of(prompt), *words_of(answer)]
    total = 0.0
    for place in range(len(words_of(prompt)), len(words)):
        p = 1 / VOCABULARY
        for length in range(1, min(order, place + 1) + 1):
            gram = tuple(words[place - length + 1 : place + 1])
            context = counts["context", gram[:-1]]
            if context:
                weight = trust * context / (context + prior)
                p = weight * counts[gram] / context + (1 - weight) * p
        total += np.log(p)
    return total


@pytest.mark.parametrize(("order", "trust", "prior"), [(1, 0.8, 5.0), (2, 0.5, 1.0), (3, 0.8, 5.0), (5, 0.99, 0.1)])
@pytest.mark.parametrize("base", [(), ("the cat and the dog", "snow falls")])
def test_every_coalition_is_worth_what_a_loop_counts(order, trust, prior, base):
    game = ngram(PLAYERS, TESTS, order=order, trust=trust, prior=prior, base=base)
    masks = np.array([[bool(number >> bit & 1) for bit in range(5)] for number in range(32)])
    expected = []
    for mask in masks:
        texts = [*base]
        for player, member in zip(PLAYERS, mask, strict=True):
            texts += ([player] if isinstance(player, str) else player) if member else []
        row = []
        for tests in TESTS.values():
            pairs = [("", test) if isinstance(test, str) else test for test in tests]
            likely = sum(log_probability(texts, *pair, order, trust, prior) for pair in pairs)
            row.append(likely / sum(len(words_of(answer)) for _, answer in pairs))
        expected.append(row)
    np.testing.assert_allclose(game(masks), expected, rtol=1e-12)
    assert game.outputs == ("animals", "weather")


def test_nobody_is_worth_a_uniform_guess_and_bits_per_byte_are_another_unit():
    words = len(words_of(TESTS["animals"][0]))
    tests = {"animals": [TESTS["animals"][0]]}
    by_token, by_byte = ngram(PLAYERS, tests), ngram(PLAYERS, tests, per="byte")
    masks = np.eye(5, dtype=bool)
    assert by_token.outputs is None
    assert by_token(masks[:1] & False) == pytest.approx(-np.log(VOCABULARY), rel=1e-14)
    bits = by_token(masks) * words / np.log(2) / len(tests["animals"][0].encode())
    np.testing.assert_allclose(by_byte(masks), bits, rtol=1e-12)


def test_coalitions_have_the_same_value_in_any_chunk(monkeypatch):
    game = ngram(PLAYERS, TESTS)
    masks = np.random.default_rng(0).random((100, 5)) < 0.5
    whole = game(masks)
    monkeypatch.setattr("fgsv.utilities.language.word_counts.CHUNK_CELLS", 50)
    np.testing.assert_allclose(game(masks), whole, rtol=1e-13)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(game))(masks), game(masks))


def test_memory_does_not_grow_with_players_times_coalitions():
    game = ngram([f"the {number}" for number in range(5_000)], TESTS)
    masks = np.random.default_rng(0).random((2_000, 5_000)) < 0.01
    tracemalloc.start()
    game(masks)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * masks.size


def test_a_player_is_its_words_and_all_else_is_the_frame():
    game = ngram(PLAYERS, TESTS)
    digests = [game.player_digests()[start : start + 16] for start in range(0, 80, 16)]
    spaced = ngram([PLAYERS[0].replace(" ", "\n  "), *PLAYERS[1:]], TESTS)
    assert spaced.fingerprint == game.fingerprint
    fewer = ngram([PLAYERS[3], PLAYERS[0]], TESTS)
    assert fewer.frame == game.frame
    assert fewer.player_digests() == digests[3] + digests[0]
    # the same coalition has the same value, whoever else is there
    np.testing.assert_allclose(fewer([[False, True]]), game([[True, False, False, False, False]]), rtol=1e-13)
    others = [
        ngram(PLAYERS, TESTS, order=2),
        ngram(PLAYERS, TESTS, per="byte"),
        ngram(PLAYERS, TESTS, trust=0.7),
        ngram(PLAYERS, TESTS, base=["the cat"]),
        ngram(PLAYERS, {**TESTS, "weather": ["rain"]}),
        ngram(PLAYERS, {"pets": TESTS["animals"], "weather": TESTS["weather"]}),
    ]
    frames = [str(each.frame) for each in [game, *others]]
    assert len(set(frames)) == len(frames)


@pytest.mark.parametrize(
    ("documents", "tests", "words"),
    [
        ([], TESTS, "no documents"),
        (["text", " \n"], TESTS, "document 1 has no text"),
        (["text", ["", "\t"]], TESTS, "document 1 has no text"),
        (["text", 5], TESTS, "document 1"),
        ("text", TESTS, "documents must be a list"),
        (["text"], {}, "no test texts"),
        (["text"], {"news": []}, "'news' has no test texts"),
        (["text"], {"news": ["a", " "]}, "test 1 of 'news' has no text"),
        (["text"], {"news": [("a", "b", "c")]}, "test 0 of 'news'"),
        (["text"], {"news": [("a prompt", "")]}, "test 0 of 'news' has no text"),
        (["text", "😀"], {"news": "a text"}, "the tests of 'news' must be a list"),
        (["text"], ["a"], "tests must be a mapping"),
    ],
)
def test_what_cannot_be_used_is_named(documents, tests, words):
    with pytest.raises((ValueError, TypeError), match=words):
        ngram(documents, tests)


@pytest.mark.parametrize(
    "setting", [{"order": 0}, {"per": "word"}, {"trust": 1.0}, {"prior": 0.0}, {"base": "a text"}, {"base": [7]}]
)
def test_settings_out_of_range_are_named(setting):
    with pytest.raises((ValueError, TypeError), match=next(iter(setting))):
        ngram(PLAYERS, TESTS, **setting)


def test_scripts_without_spaces_have_words_too():
    assert words_of("猫坐在垫子上。") == list("猫坐在垫子上。")
    assert words_of("cafe\u0301") == words_of("café") == ["café"]


def test_the_package_loads_without_torch():
    code = "import sys; from fgsv.utilities.language import ngram; print('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    )
