"""Real outputs meet the JSON schemas of the package, and damaged ones do not."""

import json
from functools import cache
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.cli import command_line
from fgsv.payout import Terms
from fgsv.payout.refusal import Doubt
from fgsv.pipeline import value_data
from fgsv.results.as_json import document_of, plain
from fgsv.results.verdicts import Decision
from fgsv.valuation import Reason

SCHEMAS = files("fgsv.report") / "schemas"


@cache
def validator(command):
    jsonschema = pytest.importorskip("jsonschema")
    name = "valuation.schema.json" if command is None else "commands.schema.json"
    schema = json.loads((SCHEMAS / name).read_text(encoding="utf-8"))
    schema |= {} if command is None else {"$ref": f"#/$defs/{command}"}
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


ENUMS = {
    ("end", "reason"): Reason,
    ("verdict", "decision"): Decision,
    ("objection", "doubt"): Doubt,
}


@pytest.mark.parametrize("name", ["valuation", "commands"])
@pytest.mark.parametrize(("part", "field"), ENUMS)
def test_schemas_list_all_that_a_field_may_say(name, part, field):
    definitions = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))["$defs"]
    assert definitions[part]["properties"][field]["enum"] == list(ENUMS[part, field])


def check(document, command=None):
    """Raise an error if a document does not meet the schema of valuation.json, or of what a command prints."""
    validator(command).validate(json.loads(json.dumps(document)))


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(100, 3)), columns=["a", "b", "c"])
    frame["y"] = (frame["a"] + 0.5 * rng.normal(size=100) > 0).astype(int)
    return frame.assign(provider=rng.choice(["n", "s"], 100), area=np.where(np.arange(100) % 2, "city", "land"))


@pytest.mark.parametrize(
    ("of_table", "of_run"),
    [
        ({}, {"audit": True, "parts": (2,), "audit_budget": 1200, "payout": Terms("100", pay_anyway=True)}),
        ({"monte_carlo_only": True}, {}),
        ({"metric": "accuracy,neg_log_loss"}, {"payout": Terms(["1", "2"])}),
        ({"also_metric": "neg_log_loss", "also_slice": "area", "ignore": "area"}, {}),
        ({"training_seeds": "fresh", "model": "sklearn.tree:ExtraTreeClassifier"}, {}),
    ],
)
def test_what_value_and_audit_print_and_write(frame, of_table, of_run):
    result = value_data(fgsv.open_table(frame, group="provider", target="y", **of_table), budget=60, **of_run)
    check(plain(document_of(result) | {"files": []}), "value")
    check(result.to_document())


def printed(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        command_line.main([*map(str, arguments), "--json"])
    assert not end.value.code
    return json.loads(capsys.readouterr().out)


def test_what_other_commands_print(frame, tmp_path, capsys):
    path = tmp_path / "train.csv"
    frame.to_csv(path, index=False)
    table = [path, "--group", "provider", "--target", "y"]
    saved, other = tmp_path / "first" / "valuation.json", tmp_path / "second" / "valuation.json"
    run = ["value", *table, "--budget", 60, "--ledger", tmp_path / "run.db", "--out"]
    check(printed(capsys, *run, saved.parent), "value")
    check(printed(capsys, *run, other.parent, "--seed", 1), "value")
    check(printed(capsys, "plan", *table, "--pilot", 100), "plan")
    check(printed(capsys, "payout", saved, "--amount", 50, "--clip", "--pay-anyway"), "payout")
    check(printed(capsys, "compare", saved, other), "compare")
    check(printed(capsys, "sensitivity", saved, other), "sensitivity")
    check(printed(capsys, "verify", saved, "--ledger", tmp_path / "run.db"), "verify")


def test_valuations_of_games_and_damaged_ones(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    fgsv.exact(fgsv.games.Airport([1, 2, 3]), [("a", 1), ("a", 1), "b"]).save(tmp_path / "v.json")
    document = json.loads((tmp_path / "v.json").read_text(encoding="utf-8"))
    check(document)
    for key, wrong in (("partition", "north"), ("schema", 1), ("estimate", None), ("finished", "yes")):
        with pytest.raises(jsonschema.ValidationError):
            check(document | {key: wrong})
