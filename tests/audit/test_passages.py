"""Copied documents and passages are found, whatever their marks and case; boilerplate is not called a copy."""

import numpy as np
import pytest

from fgsv.audit import find_passages
from fgsv.audit.passages import SHINGLE


def prose(length, seed):
    """Return a text of so many words that shares no run of words with another seed's."""
    return " ".join(f"w{number}" for number in np.random.default_rng(seed).integers(0, 10**6, size=length))


def test_equal_and_nearly_equal_documents_are_copies():
    texts = [prose(200, seed) for seed in range(4)]
    changed = texts[1].split()
    changed[50] = changed[120] = "another"
    texts += [texts[0].upper().replace(" ", ",\n"), " ".join(changed)]
    found = find_passages(texts, ["a", "a", "b", "b", "thief", "thief"])
    (pair,) = found.copies.table.to_dict("records")
    assert (pair["provider"], pair["other"], pair["exact"], pair["near"]) == ("a", "thief", 1, 1)
    assert found.copies.kept.tolist() == [True] * 4 + [False] * 2
    assert found.copies.clusters[4] == found.copies.clusters[0]
    assert found.copies.remedy("share").ownership[:2].tolist() == [[0.5, 0.0, 0.5]] * 2
    assert not found.shared


def test_a_provider_may_repeat_its_own_documents():
    text = prose(100, 0)
    found = find_passages([text, text, prose(100, 1)], ["a", "a", "b"])
    assert found.copies.n_copies == 0


def test_a_passage_in_another_document_is_shown_and_its_document_kept():
    passage = prose(60, 0)
    texts = [f"{prose(100, 1)} {passage} {prose(50, 2)}", prose(80, 3), f"{passage} {prose(200, 4)}"]
    found = find_passages(texts, ["a", "b", "c"])
    assert found.copies.n_copies == 0
    ((first, second, words, excerpt),) = found.shared
    assert (first, second, words) == (0, 2, 60)
    assert passage.startswith(excerpt)


@pytest.mark.parametrize("holders", ["many", "repeated"])
def test_boilerplate_is_not_called_a_copy(holders):
    licence = prose(150, 99)
    providers = list("abcde") if holders == "many" else list("aabbc")
    texts = [f"{licence} {prose(40, seed)}" for seed in range(5)]
    more = [prose(100, seed) for seed in range(10, 15)]
    found = find_passages(
        [*texts, *more], [*providers, *"fghij"] if holders == "repeated" else [*providers, *"abcde"]
    )
    assert found.copies.n_copies == 0
    assert not found.shared
    count, words = found.boilerplate
    assert count == 5
    assert words in licence


def test_two_long_documents_that_both_have_are_copies_and_not_boilerplate():
    text = prose(1000, 0)
    other = f"{text} {prose(5, 1)}"
    found = find_passages([text, other, text, other], ["a", "a", "thief", "thief"])
    assert found.copies.n_copies == 2


def test_test_texts_that_are_in_documents_are_found():
    texts = [prose(300, seed) for seed in range(3)]
    tests = [prose(100, 7), " ".join(texts[1].split()[100:160]), f"{prose(100, 8)} {prose(20, 9)}"]
    assert find_passages(texts, ["a", "b", "c"], tests).tested.tolist() == [1]


def test_short_documents_and_those_of_marks_alone_are_compared_whole():
    texts = ["yes", "YES!", "no", "...", "...", "yes yes"]
    found = find_passages(texts, ["a", "b", "c", "d", "e", "f"])
    assert found.copies.table[["provider", "other", "exact"]].to_numpy().tolist() == [["a", "b", 1], ["d", "e", 1]]


def test_jaccard_similarity_is_that_of_sets(monkeypatch):
    """Against sets of shingles, one pair at a time."""
    rng = np.random.default_rng(0)
    base = prose(60, 0).split()
    texts = []
    for _ in range(12):
        words = [word if rng.random() > 0.03 else "changed" for word in base]
        texts.append(" ".join(words))
    monkeypatch.setattr("fgsv.audit.passages.MANY", 99)
    found = find_passages(texts, list(range(12)))

    def shingles(text):
        words = text.split()
        return {tuple(words[i : i + SHINGLE]) for i in range(len(words) - SHINGLE + 1)}

    sets = [shingles(text) for text in texts]
    near = {(i, j) for i in range(12) for j in range(i) if len(sets[i] & sets[j]) >= 0.7 * len(sets[i] | sets[j])}
    assert near
    for i in range(12):
        for j in range(i):
            if (i, j) in near:
                assert found.copies.clusters[i] == found.copies.clusters[j]
    lonely = [i for i in range(12) if not any(i in pair for pair in near)]
    assert all((found.copies.clusters == found.copies.clusters[i]).sum() == 1 for i in lonely)
