"""The recipes of the how-to, with objects of the frameworks' attributes, or the frameworks' own where installed."""

import re
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from fgsv.answers import Answer, Passage

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "answers.md"
RECIPE = re.compile(
    r"^```python\n# not run: [^\n]* of (LangChain|LlamaIndex|Haystack)[^\n]*\n(.*?)^```$", re.M | re.S
)
RECIPES = dict(RECIPE.findall(PAGE.read_text(encoding="utf-8")))


def langchain():
    if find_spec("langchain_core"):
        from langchain_core.documents import Document
    else:
        Document = SimpleNamespace
    return {
        "documents": [Document(page_content="It rained.", metadata={"publisher": "North", "score": 9.0}, id="n1")]
    }


def llama_index():
    if find_spec("llama_index"):
        from llama_index.core.base.response.schema import Response
        from llama_index.core.schema import NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode

        source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="n1")}
        node = TextNode(text="It rained.", metadata={"publisher": "North"}, relationships=source)
        return {"response": Response("yes", source_nodes=[NodeWithScore(node=node, score=9.0)])}
    node = SimpleNamespace(get_content=lambda: "It rained.", metadata={"publisher": "North"}, ref_doc_id="n1")
    return {"response": SimpleNamespace(response="yes", source_nodes=[SimpleNamespace(node=node, score=9.0)])}


def haystack():
    if find_spec("haystack"):
        from haystack import Document, GeneratedAnswer
    else:
        Document = GeneratedAnswer = SimpleNamespace
    document = Document(content="It rained.", meta={"publisher": "North"}, id="n1", score=9.0)
    return {"generated": GeneratedAnswer(data="yes", query="did it rain", documents=[document], meta={})}


@pytest.mark.parametrize(
    ("name", "given"), [("LangChain", langchain), ("LlamaIndex", llama_index), ("Haystack", haystack)]
)
def test_a_recipe_makes_the_answer(name, given):
    names = {"Answer": Answer, "Passage": Passage, "question": "did it rain", "reply": "yes"} | given()
    exec(RECIPES[name], names)
    assert names["answer"] == Answer(
        "did it rain", "yes", [Passage("It rained.", "North", document="n1")], fee="0.002"
    )
    assert len(RECIPES[name].splitlines()) == 5
