"""The experiment on answers: its questions are about the library that is there, and its parts work together."""

import numpy as np
import pandas as pd
import pytest

from experiments import answers

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def library():
    return answers.definitions(answers.Sizes())


@pytest.mark.parametrize("count", [1, 2])
def test_an_answer_stands_in_the_sources_that_it_needs_and_in_no_other(library, count):
    asked = list(answers.questions(library, count, 5, seed=0))
    assert len(asked) == 5
    for answer, needed in asked:
        name = answer.query.split()[-1].rstrip("?")
        stated = {each.publisher for each in answer.passages if f"{name} " in each.text}
        assert stated == needed
        assert len(needed) == count
        assert len(answer.publishers) == answers.PUBLISHERS
        assert all(f"{name} {module}" in answer.text for module in needed)


def test_a_lesson_asks_for_what_its_sources_say(library):
    rng = np.random.default_rng(0)
    for _ in range(20):
        sources, *questions = answers.lesson(library, rng).split("Question: where is ")
        for question in questions:
            asked, answer = question.strip().split("?\nAnswer:\n")
            stated = {line for line in sources.splitlines() if line.split()[0] == asked}
            assert {f"{part.rstrip('.')}." for part in answer.split(" and ")} == stated


def test_its_parts_work_together(tmp_path):
    table = answers.run(tmp_path, small=True)
    assert list(table.columns) == answers.COLUMNS
    assert list(pd.read_csv(tmp_path / "answers.csv").columns) == answers.COLUMNS
    assert np.allclose(table.groupby("query")["share"].sum(), 1)
