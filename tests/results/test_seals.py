"""Sealed runs: what is fixed by a seal, what a proof shows with and without the data, and who is told what."""

import hashlib
import json
from dataclasses import fields, replace
from inspect import signature

import numpy as np
import pandas as pd
import pytest

import fgsv
from fgsv.game import as_game
from fgsv.payout import Terms
from fgsv.pipeline import value_data
from fgsv.results import Result, Seal, seal_run
from fgsv.results.seals import first_difference
from fgsv.valuation import Limits, RunSettings, file
from fgsv.valuation.differences import Difference
from fgsv.valuation.settings import LIMITS
from fgsv.verification import challenge, check_proof
from fgsv.verification.merkle import Tree
from fgsv.verification.proofs import picked_numbers
from fgsv.verification.replay import record_leaf

OPENED = {"group": "provider", "target": "y", "ignore": "site"}


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    frame["y"] = (frame["a"] + 0.3 * rng.normal(size=n) > 0).astype(int)
    frame["provider"] = np.array(["north", "south", "east", "west"])[np.arange(n) % 4]
    return frame.assign(site=np.array(["old", "new"])[np.arange(n) % 2])


def opened(frame=None, **options):
    return fgsv.open_table(rows() if frame is None else frame, **OPENED | options)


class Run:
    """A sealed run in a folder: its data, seal, ledger and result."""

    def __init__(self, folder, table=None, **options):
        folder.mkdir(exist_ok=True)
        self.folder, self.ledger, self.path = folder, folder / "run.db", folder / "valuation.json"
        table = opened() if table is None else table
        terms = {name: options.pop(name) for name in ("payout",) if name in options}
        options = {"budget": 200} | options
        self.seal = Seal(seal_run(table, **options).contents, bytes(32))  # the same salt, so the same seed every time
        self.result = value_data(
            table, **options, **terms, seal=self.seal, public="1.0854", ledger=self.ledger, without=False
        )
        self.result.save(self.path)

    def proof(self, random="dice", **options):
        return challenge(self.path, self.ledger, random=random, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return Run(tmp_path_factory.mktemp("sealed"), payout=Terms("1000", pay_anyway=True))


def altered(run, change, name="altered.json"):
    """Save the result of a run with a change to its document, and return where."""
    document = file.read(run.path)
    change(document)
    path = run.folder / name
    path.write_text(json.dumps(document))
    return path


def test_a_commitment_is_salted_and_fixes_its_contents(tmp_path):
    table = opened()
    one, two = seal_run(table, budget=200), seal_run(table, budget=200)
    assert one.contents == two.contents
    assert one.commitment != two.commitment
    text = json.dumps(one.contents, sort_keys=True, separators=(",", ":"))
    assert one.commitment == hashlib.sha256(one.salt + text.encode()).hexdigest()
    digest = hashlib.sha256(bytes.fromhex(one.commitment) + b"1.0854").digest()
    assert one.seed("1.0854") == int.from_bytes(digest[:4], "big")
    one.save(tmp_path / "seal.json")
    assert Seal.load(tmp_path / "seal.json") == one
    content = (tmp_path / "seal.json").read_text()
    (tmp_path / "seal.json").write_text(content.replace('"budget": 200', '"budget": 201'))
    with pytest.raises(ValueError, match="seal was altered"):
        Seal.load(tmp_path / "seal.json")
    with pytest.raises(ValueError, match="is not a seal"):
        Seal.load(__file__)


OTHER_RUNS = {
    "another budget": ({"budget": 199}, {}, "settings.budget was sealed as 200, but is 199"),
    "a precision": ({"precision": 0.1}, {}, "settings.precision"),
    "another confidence": ({"confidence": 0.9}, {}, "settings.confidence"),
    "failures that count": ({"on_error": 0.0}, {}, "settings.on_error"),
    "another policy": ({"payout": Terms("100", clip=True)}, {}, "policy.clip was sealed as false, but is true"),
    "another metric": ({}, {"metric": "roc_auc"}, 'metric was sealed as "accuracy", but is "roc_auc"'),
    "another model": ({}, {"model": "knn"}, "model was sealed as"),
    "another column": ({}, {"ignore": "site,c"}, "columns.ignored"),
    "other test rows": ({}, {"split_seed": 1}, "rows was sealed as"),
    "more groupings": ({}, {"group": "provider,site", "ignore": ""}, "columns.group"),
    "another row": (
        {},
        {"frame": rows().assign(a=lambda f: f["a"].where(f.index != 3, 0.1))},
        "players was sealed as another hash: the training rows or documents, or their order, changed",
    ),
    "providers of two rows exchanged": (
        {},
        {"frame": rows().assign(provider=lambda f: f["provider"].iloc[[*range(8), 9, 8, *range(10, 60)]].to_numpy())},
        "groups.provider.sha256 was sealed as another hash: the providers of rows or documents, or the order",
    ),
    "rows in another order": ({}, {"frame": rows()[::-1].reset_index(drop=True)}, "or the order of these, changed"),
    "another provider": ({}, {"frame": rows().replace({"provider": {"west": "west inc"}})}, "groups.provider"),
}


@pytest.mark.parametrize(
    ("sealed", "found", "where", "stated", "derived"),
    [
        ([*"abcdefg", "old"], [*"abcdefg", "new"], "features.7", "old", "new"),
        (["a", "b"], ["a", "b", "c"], "features", "2 entries", "3 entries"),
        ([None], [], "features", "1 entries", "0 entries"),
        ([{"rows": [1, 2]}], [{"rows": [1, 3]}], "features.0.rows.1", 2, 3),
    ],
)
def test_the_entry_of_a_list_that_differs_is_named(sealed, found, where, stated, derived):
    difference = Difference(where, stated, derived)
    assert first_difference({"features": sealed}, {"features": found}) == difference
    assert first_difference({"features": sealed}, {"features": list(sealed)}) is None


@pytest.mark.parametrize(("of_run", "of_table", "words"), OTHER_RUNS.values(), ids=OTHER_RUNS)
def test_only_the_run_that_was_sealed_is_made(tmp_path, of_run, of_table, words):
    seal = seal_run(opened(), budget=200)
    with pytest.raises(ValueError, match="the seal does not fit: ") as raised:
        value_data(opened(**of_table), **{"budget": 200} | of_run, seal=seal, public="1", ledger=tmp_path / "run.db")
    assert words in str(raised.value)
    assert not (tmp_path / "run.db").exists()


NOT_IN_A_SEALED_RUN = [
    ({"public": None}, "needs the public value"),
    ({"public": "  "}, "needs the public value"),
    ({"seed": 5}, "leave out seed"),
    ({"start": "march.db"}, "leave out start"),
    ({"max_seconds": 60}, "leave out max_seconds"),
    ({"ledger": None}, "needs a ledger"),
    ({"seal": None}, "needs the seal"),
]


@pytest.mark.parametrize(("options", "words"), NOT_IN_A_SEALED_RUN)
def test_a_sealed_run_has_no_other_source_of_chance(tmp_path, options, words):
    table = opened()
    given = {"seal": seal_run(table, budget=200), "public": "1", "ledger": tmp_path / "run.db", "budget": 200}
    with pytest.raises(ValueError, match=words):
        value_data(table, **given | options)


def test_every_option_that_is_a_setting_of_the_run_is_sealed_or_refused():
    """Each is above in a run that was refused: a new one would otherwise be free in a run that says it is sealed."""
    refused = {name for of_run, *_ in OTHER_RUNS.values() for name in of_run}
    refused |= {name for options, _ in NOT_IN_A_SEALED_RUN for name in options}
    assert {each.name for each in fields(RunSettings)} & set(signature(value_data).parameters) <= refused
    assert {"budget", *LIMITS} - {"stderr"} == {each.name for each in fields(Limits)}


def test_a_table_opened_with_a_seed_of_its_own_is_not_sealed():
    with pytest.raises(ValueError, match=r"^seed cannot be sealed"):
        seal_run(opened(seed=3))


def test_no_choice_is_left_that_moves_a_share(tmp_path, run):
    """An earlier ledger, more evaluations, money: what an operator may still choose changes no bit."""
    ways = [{"without": True}, {"without": False}, {"payout": Terms("1", pay_anyway=True)}]
    seal, table = run.seal, opened()
    value_data(table, budget=300, seed=7, ledger=tmp_path / "1.db", without=False)  # known before the sealed run
    for number, way in enumerate(ways):
        made = value_data(table, budget=200, seal=seal, public="1.0854", ledger=tmp_path / f"{number}.db", **way)
        assert made.sealed == run.result.sealed
        assert np.array_equal(made.valuation.values, run.result.valuation.values)


def test_the_root_is_that_of_the_records_in_draw_order(run):
    sealed, proof = run.result.sealed, run.proof(n_records=1000)
    assert Result.load(run.path).sealed == sealed
    assert sealed.n_records == run.result.valuation.n_evaluations == len(proof.values)
    in_order = sorted(proof.records, key=lambda each: each.number)
    leaves = [record_leaf(each.number, each.coalition, np.array(each.values)) for each in in_order]
    assert Tree(leaves).root.hex() == sealed.root
    masks = np.array([np.unpackbits(np.frombuffer(each.coalition, np.uint8)[1:]) for each in in_order])
    game = opened().game
    assert np.allclose(game(masks[:, : game.n_players]), proof.values, atol=1e-12)
    assert masks[0].sum() == 0
    assert masks[1].sum() == game.n_players


@pytest.mark.parametrize(
    ("of_table", "of_run"),
    [
        ({"also_metric": "neg_log_loss", "frame": rows(100)}, {}),
        ({"metric": "accuracy,neg_log_loss"}, {}),
        ({"group": "provider,site", "ignore": ""}, {"precision": 0.7, "budget": None}),
        ({"model": "sklearn.discriminant_analysis:LinearDiscriminantAnalysis"}, {"budget": 40, "on_error": 0.0}),
        ({"unit": "c", "frame": rows().assign(c=lambda f: f.index % 10), "shared_units": "co-own"}, {}),
    ],
    ids=["questions", "outputs", "groupings and a target", "one by one", "few players, owned together"],
)
def test_every_kind_of_run_can_be_challenged(tmp_path, of_table, of_run):
    frame = of_table.pop("frame", rows())
    made = Run(tmp_path, opened(frame, **of_table), **of_run)
    for column, other in made.result.of_others().items():
        other.save(tmp_path / f"valuation-{column}.json")
    for path in tmp_path.glob("*.json"):
        found = check_proof(challenge(path, made.ledger, random="dice", n_records=10), path, frame)
        unknown = "precision" in of_run and path != made.path  # whether the target was met, by the first grouping
        assert (found.code, found.lines()) == (2 if unknown else 0, found.lines()), path


def test_the_weights_of_outputs_are_sealed(tmp_path):
    """Other weights of the outputs give other shares, from the same records."""
    made = Run(tmp_path, opened(rows(100), also_metric="neg_log_loss"))
    raw = made.result.valuation
    both = fgsv.value(opened(rows(100), also_metric="neg_log_loss").game, raw.partition, budget=200, seed=raw.seed)
    tilted = both.combined([1.0, 0.1])
    assert not np.allclose(tilted.shares(), raw.shares())
    replace(made.result, valuation=tilted).save(tmp_path / "tilted.json")
    proof = replace(made.proof(), statement=file.statement(file.read(tmp_path / "tilted.json")))
    found = check_proof(proof, tmp_path / "tilted.json")
    assert [each.where for each in found.differences] == ["weights.1"]


def test_texts_can_be_sealed(tmp_path):
    frame = pd.DataFrame({"text": [f"the {a} {b} sat" for a in "xyz" for b in ("cat", "dog")], "by": list("aabbcc")})
    corpus = fgsv.open_text(frame, group="by", test=[frame[:2]])
    made = Run(tmp_path, corpus, budget=50)
    assert check_proof(made.proof(), made.path, frame, test=[frame[:2]]).code == 0


def test_a_forged_value_is_found_by_who_has_the_data(tmp_path):
    table = opened()
    honest = as_game(table.game)

    def forged(masks):
        return honest(masks) + 0.2 * masks[:, :1]

    made = Run(tmp_path, replace(table, game=replace(honest, function=forged, evaluate_lists=None)))
    proof = made.proof(n_records=10)
    assert check_proof(proof, made.path).code == 0
    found = check_proof(proof, made.path, rows())
    assert found.code == 1
    assert all(each.where.startswith("record ") for each in found.differences)


def test_a_proof_of_another_result_is_no_proof(run, tmp_path):
    other = Run(tmp_path, budget=150)
    with pytest.raises(ValueError, match="the proof is of another result: its commitment is"):
        check_proof(other.proof(), run.path)
    with pytest.raises(ValueError, match="the proof is of another result: its root is 00"):
        check_proof(replace(run.proof(), root="00"), run.path)
    with pytest.raises(ValueError, match="belongs to another game"):
        challenge(run.path, Run(tmp_path / "other", opened(metric="roc_auc")).ledger, random="dice")
    saved = fgsv.exact(fgsv.games.Airport([1, 2, 3]))
    saved.save(tmp_path / "v.json")
    with pytest.raises(ValueError, match="not the result of a sealed run"):
        challenge(tmp_path / "v.json", run.ledger, random="dice")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"random": 7}, "expected a text as random, got int: the verifier's random string"),
        ({"n_records": "x"}, "n_records must be a whole number, got 'x'"),
        ({"n_records": 0}, "a challenge picks at least one record, got 0"),
    ],
)
def test_a_challenge_of_a_wrong_type(wrong, words, run):
    with pytest.raises((TypeError, ValueError), match=f"^{words}$"):
        run.proof(**wrong)


def test_picks_are_fair():
    numbers = np.array([picked_numbers(f"{number:064x}", "x", 3, 9) for number in range(2000)])
    assert all(len(set(each)) == 5 for each in numbers.tolist())
    assert (numbers[:, :2] == [0, 1]).all()
    counts = np.bincount(numbers[:, 2:].reshape(-1), minlength=9)[2:]
    assert np.abs(counts - 6000 / 7).max() < 4 * np.sqrt(6000 / 7)
    assert picked_numbers("00" * 32, "x", 99, 9) == list(range(9))
