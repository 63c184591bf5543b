"""The recipes of the how-to, with objects that have the frameworks' attributes."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from fgsv.answers import Answer, Passage

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "answers.md"
RECIPE = re.compile(
    r"^```python\n# not run: [^\n]* of (LangChain|LlamaIndex|Haystack)[^\n]*\n(.*?)^```$", re.M | re.S
)
RECIPES = dict(RECIPE.findall(PAGE.read_text(encoding="utf-8")))


DOCUMENT = SimpleNamespace(page_content="It rained.", metadata={"publisher": "North"}, id="n1")
NODE = SimpleNamespace(get_content=lambda: "It rained.", metadata={"publisher": "North"}, ref_doc_id="n1")
FOUND = SimpleNamespace(content="It rained.", meta={"publisher": "North"}, id="n1", score=9.0)
GIVEN = {
    "LangChain": {"documents": [DOCUMENT]},
    "LlamaIndex": {"response": SimpleNamespace(response="yes", source_nodes=[SimpleNamespace(node=NODE, score=9.0)])},
    "Haystack": {"generated": SimpleNamespace(data="yes", query="did it rain", documents=[FOUND])},
}


@pytest.mark.parametrize("name", GIVEN)
def test_a_recipe_makes_the_answer(name):
    names = {"Answer": Answer, "Passage": Passage, "question": "did it rain", "reply": "yes"} | GIVEN[name]
    exec(RECIPES[name], names)
    expected = Answer("did it rain", "yes", [Passage("It rained.", "North", document="n1")], fee="0.002")
    assert names["answer"] == expected
    assert len(RECIPES[name].splitlines()) == 5
