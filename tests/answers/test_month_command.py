"""`fgsv royalties`: the same as the function, with a model in a folder."""

import json
from decimal import Decimal

import pytest
from utilities.tiny_language import llama, tokenizer

from fgsv.answers import HF, read_answers, royalties

pytestmark = pytest.mark.torch


@pytest.fixture
def month(tmp_path):
    """Return the files of a month, and of a model."""
    model = tmp_path / "model"
    llama(max_position_embeddings=1024).save_pretrained(model)
    tokenizer().save_pretrained(model)
    lines = []
    for number in range(10):
        texts = {"North": f"The quick brown fox {number} jumps.", "South": f"It was the best of {number} times."}
        passages = [{"text": text, "publisher": name} for name, text in texts.items()]
        said = "the quick brown fox" if number % 2 else "it was the best of times"
        fee = "0.75" if number % 3 else "1.50"
        lines.append({"query": f"what of {number}?", "text": said, "fee": fee, "passages": passages})
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path, model


def test_the_command_pays_what_the_function_pays(month, tmp_path, fgsv_command):
    path, model = month
    options = ("--model", model, "--seed-from", "1.0854", "--ledger", tmp_path / "m.db", "--pay-anyway")
    code, out, errors = fgsv_command("royalties", path, *options, "--out", tmp_path / "november", "--json")
    assert code == 0
    document = json.loads(out)
    paid = royalties(read_answers(path).answers, HF(model), seed_from="1.0854", pay_anyway=True).payout
    expected = {str(name): str(money) for name, money in zip(paid.names, paid.payments, strict=True)}
    assert {row["group"]: row["payout"] for row in document["payout"]["payments"]} == expected
    assert 0 < sum(map(Decimal, expected.values())) <= Decimal("10.50")
    assert (tmp_path / "november" / "publisher-North.csv").exists()
    code, _, errors = fgsv_command("royalties", path, *options, "--out", tmp_path / "november")
    assert code == 2
    assert "has a finished valuation" in errors


def test_bad_lines_are_named_before_the_model_is_asked(month, fgsv_command):
    path, model = month
    path.write_text(path.read_text() + '{"query": "why?"}\n')
    options = ("--model", model, "--seed-from", "1.0854", "--pay-anyway")
    code, _, errors = fgsv_command("royalties", path, *options)
    assert code == 2
    assert "line 11" in errors
    code, out, errors = fgsv_command("royalties", path, *options, "--drop")
    assert code == 0, errors
    assert "left out: line 11" in out + errors


def test_the_seed_is_required(month, fgsv_command):
    code, _, errors = fgsv_command("royalties", month[0], "--model", month[1])
    assert code == 2
    assert "--seed-from" in errors
