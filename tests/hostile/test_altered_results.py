"""Results changed after they were made: found by verification against the ledger, or named as taken on trust."""

import copy
import json
import zlib
from base64 import b64encode
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.files import decode_array, encode_array
from fgsv.payout import Terms
from fgsv.pipeline import value_data
from fgsv.results import Result
from fgsv.valuation import file
from fgsv.verification import verify_data


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make a folder from a table, with folds of test rows, payout, audit and a second grouping; and its ledger."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=X[:, 0] + 0.2 * rng.normal(size=160))
    frame["provider"] = np.array(["north", "south", "east", "west"])[np.arange(160) % 4]
    frame["site"] = np.array(["old", "new"])[np.arange(160) // 80]
    frame.to_csv(folder / "train.csv", index=False)
    table = fgsv.open_table(
        folder / "train.csv",
        group="provider",
        target="y",
        regroup="site",
        model="ridge",
        metric="neg_mean_squared_error",
        also_metric="r2",
    )
    value_data(
        table,
        budget=200,
        ledger=folder / "run.db",
        payout=Terms("1000.00", "EUR", pay_anyway=True),
        audit=True,
        audit_budget=1600,
        parts=(2,),
        out=folder / "result",
    )
    return folder


def bits(section, name, change):
    """Change an array that is stored as bytes."""
    array = decode_array(section[name])
    change(array)
    section[name] = encode_array(array)


def scale_one(array):
    flat = array.reshape(-1)
    flat[0] = flat[0] * 1.01 + 1e-3


def last_bit(array):
    array[0, 0] = np.nextafter(array[0, 0], np.inf)


def move_value(array):
    array[:2, 0] += np.array([0.01, -0.01])


ALTERED = {
    "standard errors": lambda d: d["estimate"].update(stderr=[[0.0]] * 4),
    "the ends": lambda d: d["ends"].__setitem__(0, d["ends"][0] - 0.1),
    "a player's value": lambda d: bits(d["estimate"], "values", scale_one),
    "two players' values, by as much": lambda d: bits(d["estimate"], "values", move_value),
    "a deviation": lambda d: bits(d["estimate"], "deviations", scale_one),
    "names swapped": lambda d: d["partition"]["names"].reverse(),
    "a player moved": lambda d: bits(d["partition"], "owners", lambda a: a.__setitem__(0, 1 - a[0] % 2)),
    "the seed": lambda d: d["settings"].update(seed=d["settings"]["seed"] + 1),
    "the number of evaluations": lambda d: d.update(n_evaluations=d["n_evaluations"] + 32),
    "weights of the outputs": lambda d: d["weights"].__setitem__(0, d["weights"][0] + 0.01),
    "GSV for FGSV": lambda d: d.update(grouped=True),
    "exact": lambda d: d["estimate"].update(exact=True),
    "efficient": lambda d: d["estimate"].update(efficient=False),
    "predictions or corrected": lambda d: d["estimate"].update(correction=0.25),
    "the end": lambda d: d.update(end={"reason": "interrupted", "detail": "interrupted"}),
    "the reason of the end": lambda d: d["end"].update(reason="target"),
    "the last bit of a value": lambda d: bits(d["estimate"], "values", last_bit),
    "degrees of freedom": lambda d: d["estimate"].update(degrees_of_freedom=d["estimate"]["degrees_of_freedom"] + 50),
    "the model": lambda d: d["settings"].update(model="Ridge(alpha=7)"),
    "the metric": lambda d: d["settings"].update(metric="r3"),
    "the columns": lambda d: d["settings"]["columns"].update(target="z"),
    "the hash of the file": lambda d: d["settings"].update(sha256="0" * 64),
    "the versions": lambda d: d["settings"]["versions"].update(numpy="0.1"),
    "a note": lambda d: d["settings"]["notes"].append("checked by nobody"),
    "the fingerprint": lambda d: d["settings"].update(game="0" * 64),
    "the history": lambda d: d["info"]["history"][0].__setitem__(1, 0.0),
    "warnings": lambda d: d["info"].update(warnings=["all is well"]),
    "the audit": lambda d: d["info"]["audit"].update(warnings=[]) or d["info"]["audit"].update(extra=1),
    "the audit removed": lambda d: d["info"].pop("audit"),
    "the test error": lambda d: d.update(test_rows=None),
    "a payment": lambda d: d["info"]["payout"]["payments"][0].update(payout="999.00"),
    "a field of a payment": lambda d: d["info"]["payout"]["payments"][0].update(payment="999.00"),
    "the budget": lambda d: d["settings"].update(budget=d["settings"]["budget"] + 1),
    "the options": lambda d: d["settings"]["options"].update(unbiased=not d["settings"]["options"]["unbiased"]),
    "confidence": lambda d: d["settings"].update(shown_confidence=0.5),
    "unfinished": lambda d: d.update(finished=False),
}


ADDED = {"warnings"}
"""Kinds that add a field, about which the ledger records nothing."""


def verdict(folder, document):
    """Return how an altered document is found out; None where it is not."""
    path = folder / "altered.json"
    path.write_text(json.dumps(document))
    try:
        result = Result.load(path)
    except ValueError:
        return "refused when loaded"
    try:
        found = fgsv.verify(result.valuation, folder / "run.db", document=file.read(path))
        if result.payout is not None:
            found.extend(fgsv.payout.differences(result.payout, result.valuation))
    except (ValueError, LookupError, RuntimeError) as error:
        return f"refused: {error}"
    return "found" if found else f"on trust: {found.on_trust}" if found.on_trust else None


def test_a_result_as_it_was_made_is_bound_to_its_ledger_in_every_field(made):
    for name in ("valuation.json", "valuation-site.json"):
        path = made / "result" / name
        found = fgsv.verify(Result.load(path).valuation, made / "run.db", document=file.read(path))
        assert found == []
        assert found.on_trust == ()


@pytest.mark.parametrize("kind", ALTERED)
def test_an_altered_field_is_found(made, kind):
    document = file.read(made / "result" / "valuation.json")
    altered = copy.deepcopy(document)
    ALTERED[kind](altered)
    assert json.dumps(altered) != json.dumps(document)
    found = verdict(made, altered)
    assert found in ("found", "refused when loaded") or kind in ADDED
    assert found is not None


PAYOUTS = {
    "a payment": lambda p: p["payments"][0].update(payout="999.00"),
    "two payments, by as much": lambda p: move_money(p["payments"], "0.01"),
    "groups swapped": lambda p: p["payments"][0].update(group="south") or p["payments"][1].update(group="north"),
    "a share": lambda p: p["payments"][0].update(share=p["payments"][0]["share"] + 1e-6),
    "an interval": lambda p: p["payments"][0].update(low=p["payments"][0]["payout"]),
    "the amount": lambda p: p.update(amount="2000.00"),
    "the policy": lambda p: p.update(clip=True),
    "the unit": lambda p: p.update(unit="0.1"),
    "a note": lambda p: p["notes"].append("checked by nobody"),
    "a payment missing": lambda p: p["payments"].pop(),
}


def move_money(payments, moved):
    for payment, sign in zip(payments[:2], (1, -1), strict=True):
        payment["payout"] = str(Decimal(payment["payout"]) + sign * Decimal(moved))


@pytest.mark.parametrize("kind", PAYOUTS)
def test_a_payout_that_its_values_and_terms_do_not_give_is_refused_when_loaded(made, kind):
    document = file.read(made / "result" / "valuation.json")
    payout = document["info"]["payout"]
    PAYOUTS[kind](payout)
    (made / "altered.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"was changed after it was made: |cannot be read"):
        Result.load(made / "altered.json")


def test_no_report_is_written_of_an_altered_payment(made, tmp_path, fgsv_command):
    document = file.read(made / "result" / "valuation.json")
    name, due = (document["info"]["payout"]["payments"][0][each] for each in ("group", "payout"))
    PAYOUTS["a payment"](document["info"]["payout"])
    (tmp_path / "valuation.json").write_text(json.dumps(document))
    notes = fgsv_command.refused("report", tmp_path / "valuation.json")
    words = f"the payment to {name!r} is stated as 999.00, but the values and the terms of the payout give {due}"
    assert words in " ".join(notes.split())
    assert not (tmp_path / "report.html").exists()


def test_any_number_or_text_of_a_result_may_be_altered(made, repeats):
    """A campaign: change one leaf of the document at random."""
    document = file.read(made / "result" / "valuation.json")
    del document["files"]  # what else the folder holds is no statement about the result
    own = np.random.default_rng(1)
    unnoticed = []
    for _ in range(repeats(12, 1000)):
        altered = copy.deepcopy(document)
        where = change_a_leaf(altered, own)
        if json.dumps(altered) != json.dumps(document) and verdict(made, altered) is None:
            unnoticed.append(where)
    assert unnoticed == []


def test_a_sample_is_evaluated_again_from_the_data(made, tmp_path):
    result = Result.load(made / "result" / "valuation.json")
    assert verify_data(result, made / "run.db", made / "train.csv", sample=2) == []
    changed = tmp_path / "train.csv"
    changed.write_text((made / "train.csv").read_text().replace("0.1", "0.2", 1))
    found = verify_data(result, made / "run.db", changed, sample=2)
    assert [each.where for each in found] == ["sha256", "game"]
    changed.write_bytes((made / "train.csv").read_bytes().replace(b"\n", b"\r\n"))
    assert [each.where for each in verify_data(result, made / "run.db", changed, sample=2)] == ["sha256"]


BOMBS = {
    "more than its shape": {"zlib": b64encode(zlib.compress(bytes(2**26), 9)).decode()},
    "objects": {"dtype": "|O"},
    "a negative shape": {"shape": [-1, 2]},
    "nothing": {"zlib": ""},
}


@pytest.mark.parametrize("kind", BOMBS)
def test_an_array_that_expands_beyond_its_shape_is_refused(made, kind):
    document = file.read(made / "result" / "valuation.json")
    document["estimate"]["values"] |= BOMBS[kind]
    (made / "bomb.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"the field 'estimate\.values' cannot be read"):
        Result.load(made / "bomb.json")


def test_an_array_that_states_far_more_than_it_has_is_not_expanded():
    with pytest.raises(ValueError, match="is compressed far more than arrays are"):
        decode_array(encode_array(np.zeros(100)) | {"shape": [2**26]})


def change_a_leaf(document, own):
    """Change one number, text or truth value of a document; return where it is."""
    place, path, inside = document, [], None
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[int(own.integers(len(keys)))]
        path.append(key)
        inner = place[key]
        if isinstance(inner, dict | list) and inner:
            inside, place = place, inner
            continue
        if isinstance(inner, bool):
            place[key] = not inner
        elif isinstance(inner, int | float):
            place[key] = inner + 1
        elif path[-1] == "zlib":
            bits(inside, path[-2], scale_one)
        else:
            place[key] = f"{inner} and more" if isinstance(inner, str) else 1
        return path
