"""An operator who cheats in a sealed run, and files that were made or changed to pass: found at the stated odds."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from test_forged_ledgers import change

import fgsv
from fgsv.coalitions import Coalitions, pack, split
from fgsv.evaluation.evaluator import Evaluator
from fgsv.files import decode_array, encode
from fgsv.game import as_game
from fgsv.ledger import Ledger, WrongLedger
from fgsv.ledger.forgetting import forget
from fgsv.payout import Terms
from fgsv.pipeline import value_data
from fgsv.results import Result, Seal, seal_run
from fgsv.results.seals import Sealed
from fgsv.valuation import INTERRUPTED, file
from fgsv.verification import Proof, challenge, check_proof
from fgsv.verification.merkle import Tree
from fgsv.verification.proofs import Picked, picked_numbers
from fgsv.verification.record_checks import odds_of_missing
from fgsv.verification.replay import Records

N_RECORDS = 20_000


@pytest.mark.parametrize("forged", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("n_picked", [10, 100])
def test_forged_fractions_are_found_at_the_stated_odds(forged, n_picked):
    """A thousand trials: other forged records, another root and another random string in each."""
    rng, trials = np.random.default_rng(0), 1000
    found = 0
    for trial in range(trials):
        wrong = np.zeros(N_RECORDS, dtype=bool)
        wrong[2 + rng.choice(N_RECORDS - 2, round(forged * N_RECORDS), replace=False)] = True
        found += wrong[picked_numbers(rng.bytes(32).hex(), f"dice {trial}", n_picked, N_RECORDS)].any()
    odds = 1 - odds_of_missing(n_picked, forged)
    assert abs(found / trials - odds) < 4 * np.sqrt(odds * (1 - odds) / trials) + 0.002


def rows_of(*providers, n=40, seed=0):
    frame = pd.DataFrame(np.random.default_rng(seed).normal(size=(n, 2)), columns=["a", "b"])
    return frame.assign(y=2 * frame["a"] + frame["b"], provider=np.array(providers)[np.arange(n) % len(providers)])


def run_sealed(table, folder, payout=None, **limits):
    """Seal a run, with the same salt and so the same seed every time, and make it in a folder."""
    seal = Seal(seal_run(table, **limits).contents, bytes(32))
    given = {"seal": seal, "public": "4711", "ledger": folder / "run.db", "payout": payout, "without": False}
    result = value_data(table, **limits, **given)
    result.save(folder / "valuation.json")
    return result


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """Make a sealed result in a folder; return the folder."""
    folder = tmp_path_factory.mktemp("sealed")
    rows_of("n", "s", "e", "w").to_csv(folder / "train.csv", index=False)
    table = fgsv.open_table(folder / "train.csv", group="provider", target="y")
    run_sealed(table, folder, Terms("100", pay_anyway=True), budget=150)
    return folder


def test_grinding_seeds_leaves_nothing_to_choose(sealed, tmp_path, monkeypatch, repeats):
    """Whoever runs with other seeds has ledgers, roots and proofs that fit, and one result that is accepted."""
    right = Result.load(sealed / "valuation.json")
    table, seal = fgsv.open_table(sealed / "train.csv", group="provider", target="y"), right.sealed.seal
    accepted = []
    for seed in [right.valuation.seed, *range(repeats(4, 59))]:
        given = {"budget": 150, "seal": seal, "public": "4711", "ledger": tmp_path / f"{seed}.db", "without": False}
        with monkeypatch.context() as patch:
            patch.setattr(Seal, "seed", lambda self, public, seed=seed: seed)
            value_data(table, **given).save(tmp_path / "ground.json")
        proof = challenge(tmp_path / "ground.json", given["ledger"], random="dice", n_records=20)
        found = check_proof(proof, tmp_path / "ground.json", sealed / "train.csv")
        accepted += [seed] if found.code == 0 else []
        assert {each.where for each in found.differences} <= {"seed", "settings.seed"}
    assert accepted == [seal.seed("4711")]


def _proof(folder, **options):
    return challenge(folder / "valuation.json", folder / "run.db", random="dice", **{"n_records": 20} | options)


@pytest.mark.parametrize("write", [str.upper, " {}\n".format])
def test_a_commitment_may_be_given_as_it_was_copied(sealed, write):
    known = Result.load(sealed / "valuation.json").sealed.commitment
    assert check_proof(_proof(sealed), sealed / "valuation.json", commitment=write(known)).code == 0
    other = known[:-1] + ("0" if known[-1] != "0" else "1")
    assert check_proof(_proof(sealed), sealed / "valuation.json", commitment=write(other)).code == 1
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        check_proof(_proof(sealed), sealed / "valuation.json", commitment=write(known[:8]))


def test_a_provider_under_another_name_is_compared_with_the_sealed_providers(sealed, tmp_path):
    document = file.read(sealed / "valuation.json")
    name, document["partition"]["names"][0] = document["partition"]["names"][0], "Evil"
    file.write(tmp_path / "renamed.json", document)
    with pytest.raises(ValueError, match="was changed after it was made: the group of the payment to 'Evil'"):
        check_proof(_proof(sealed), tmp_path / "renamed.json")
    del document["info"]["payout"]
    file.write(tmp_path / "renamed.json", document)
    found = check_proof(_proof(sealed), tmp_path / "renamed.json")
    [difference] = [each for each in found.differences if each.where.startswith("groups")]
    contents = Result.load(sealed / "valuation.json").sealed.seal.contents
    size = next(iter(contents["groups"].values()))["players"][name]
    assert str(difference) == f"groups.players.Evil: stated {size}, derived nothing, as sealed"


def test_a_ledger_that_forgot_players_says_so_when_it_is_challenged(sealed, tmp_path):
    shutil.copy(sealed / "run.db", tmp_path / "run.db")
    forget(tmp_path / "run.db", providers=["n"])
    with pytest.raises(WrongLedger, match="players were forgotten, and their evaluations erased"):
        challenge(sealed / "valuation.json", tmp_path / "run.db", random="dice")


def double(document, name):
    estimate = document["estimate"]
    estimate[name] = encode(2 * decode_array(estimate[name]))


LIES = {
    "values of players": lambda document: double(document, "values"),
    "other errors": lambda document: double(document, "deviations"),
    "other names": lambda document: document["partition"]["names"].reverse(),
    "another seed": lambda document: document["settings"].update(seed=1),
    "another budget": lambda document: document["settings"].update(budget=151),
    "another metric": lambda document: document["settings"].update(metric="neg_mean_squared_error"),
    "other versions": lambda document: document["settings"]["versions"].update(numpy="1.0"),
    "another public value": lambda document: document["info"]["sealed"].update(public="4712"),
    "another seal": lambda document: document["info"]["sealed"]["seal"]["contents"]["settings"].update(budget=151),
    "another salt": lambda document: document["info"]["sealed"]["seal"].update(salt="11" * 32),
    "fewer records": lambda document: document["info"]["sealed"].update(n_records=100),
    "another end": lambda document: (
        document["end"].update(detail="all is well"),
        document.update(stopped="all is well"),
    ),
    "other payments": lambda document: document["info"]["payout"].update(currency="USD"),
}


@pytest.mark.parametrize("careful", [False, True], ids=["after the proof", "before it"])
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_no_field_of_a_sealed_result_can_be_changed(sealed, lie, careful):
    """Whether the result is changed after the proof, or by an operator who makes the proof for the change."""
    document = file.read(sealed / "valuation.json")
    lie(document)
    (sealed / "lie.json").write_text(json.dumps(document))
    proof = _proof(sealed)
    if careful:
        proof = replace(proof, statement=file.statement(document))
    try:
        code = check_proof(proof, sealed / "lie.json").code
    except ValueError:  # the file contradicts itself
        code = 2
    assert code in (1, 2)


def test_an_end_that_was_chosen_is_a_difference(sealed):
    result = Result.load(sealed / "valuation.json")
    replace(result, valuation=replace(result.valuation, end=INTERRUPTED), payout=None).save(sealed / "stopped.json")
    proof = replace(_proof(sealed), statement=file.statement(file.read(sealed / "stopped.json")))
    assert "end" in {each.where for each in check_proof(proof, sealed / "stopped.json").differences}


def coalition(n_players, *members):
    return split(pack(Coalitions.from_masks(np.isin(np.arange(n_players), members)[None, :])))[0]


def first(proof, **changes):
    return replace(proof, records=(replace(proof.records[0], **changes), *proof.records[1:]))


BAD_PROOFS = {
    "another value": lambda proof: first(proof, values=(0.5,)),
    "a value that is no number": lambda proof: first(proof, values=(float("nan"),)),
    "another coalition": lambda proof: first(proof, coalition=coalition(30, 3)),
    "bytes that are no coalition": lambda proof: first(proof, coalition=b"\7"),
    "a shorter path": lambda proof: first(proof, path=proof.records[0].path[1:]),
    "a longer path": lambda proof: first(proof, path=(*proof.records[0].path, bytes(32))),
    "a number out of range": lambda proof: first(proof, number=10**9),
    "a record twice": lambda proof: replace(proof, records=(*proof.records, proof.records[-1])),
    "records left out": lambda proof: replace(proof, records=proof.records[:5] + proof.records[6:]),
    "no record": lambda proof: replace(proof, records=()),
    "records that somebody liked": lambda proof: replace(proof, random="other dice"),
    "values in another order": lambda proof: replace(proof, values=proof.values[::-1]),
    "one value moved": lambda proof: replace(
        proof, values=proof.values + 1e-9 * (np.arange(len(proof.values)) == 9)[:, None]
    ),
    "too few values": lambda proof: replace(proof, values=proof.values[:-1]),
    "values beyond those that were drawn": lambda proof: replace(
        proof, values=np.concatenate([proof.values, proof.values[:1]])
    ),
    "no values": lambda proof: replace(proof, values=proof.values[:0]),
    "values without a column": lambda proof: replace(proof, values=proof.values[:, 0]),
    "too many columns": lambda proof: replace(proof, values=np.tile(proof.values, 2)),
    "an infinite value": lambda proof: replace(proof, values=proof.values + np.inf),
}


@pytest.mark.parametrize("change", BAD_PROOFS.values(), ids=BAD_PROOFS)
def test_a_proof_that_was_changed_is_not_the_same(sealed, change):
    found = check_proof(change(_proof(sealed)), sealed / "valuation.json", random="dice")
    assert found.code == 1


def test_a_file_that_is_no_proof_is_refused(sealed):
    _proof(sealed).save(sealed / "proof.json")
    document = json.loads((sealed / "proof.json").read_text())
    for name in document:
        (sealed / "bad.json").write_text(json.dumps({key: part for key, part in document.items() if key != name}))
        with pytest.raises(ValueError, match="is not a proof"):
            Proof.load(sealed / "bad.json")
    for name, wrong in (
        ("records", [{}]),
        ("values", {"dtype": "<f8"}),
        ("schema", 2),
        ("laws", [1]),
        ("statement", 1),
    ):
        (sealed / "bad.json").write_text(json.dumps(document | {name: wrong}))
        with pytest.raises(ValueError, match="is not a proof"):
            Proof.load(sealed / "bad.json")


def test_laws_that_an_operator_chose_change_next_to_nothing(tmp_path):
    """A ledger may hold laws that resemble the right ones: values stay within a hundredth of their errors."""
    rows = rows_of("n", "s", n=24, seed=1)
    table = fgsv.open_table(rows, group="provider", target="y", model="sklearn.linear_model:BayesianRidge")
    right = run_sealed(table, tmp_path, budget=120)
    with Ledger(tmp_path / "run.db", read_only=True) as opened:
        laws = opened.laws(1)
    for number, law in laws.items():
        law["parameters"] = [each + 9e-4 for each in law["parameters"]]
        change(tmp_path / "run.db", "law", number + 2, content=json.dumps(law))
    chosen = run_sealed(table, tmp_path, budget=120)
    moved = np.abs(chosen.valuation.values - right.valuation.values)
    assert (moved < right.valuation.estimate.stderr_of(right.valuation.partition)[:, 0] / 100).all()
    found = check_proof(_proof(tmp_path), tmp_path / "valuation.json")
    assert found.differences == []
    assert ("they follow recorded laws" in str(found)) == bool(moved.any())  # whoever checks learns of it
    assert found.code == (2 if moved.any() else 0)


def test_fewer_records_than_were_asked_for_are_not_enough(sealed):
    """An operator whose forged record is the tenth of those picked could answer with nine, all of them right."""
    proof = _proof(sealed)
    short = replace(proof, records=proof.records[:11])
    found = check_proof(short, sealed / "valuation.json", random="dice", n_records=20)
    assert [(each.where, each.stated, each.derived) for each in found.differences] == [("records", 9, 20)]
    assert check_proof(proof, sealed / "valuation.json", random="dice", n_records=20).code == 0
    all_of_them = _proof(sealed, n_records=10**6)
    assert check_proof(all_of_them, sealed / "valuation.json", random="dice", n_records=10**6).code == 0


def test_payments_in_larger_units_than_the_currency_has_are_a_difference(sealed):
    """Rounded to 50 EUR, a share of 38% of 100 EUR is paid as 50."""
    result = Result.load(sealed / "valuation.json")
    coarse = fgsv.payout.split(result.valuation, 100, unit=50, pay_anyway=True)
    assert coarse.payments != result.payout.payments
    replace(result, payout=coarse).save(sealed / "coarse.json")
    proof = replace(_proof(sealed), statement=file.statement(file.read(sealed / "coarse.json")))
    assert [each.where for each in check_proof(proof, sealed / "coarse.json").differences] == ["unit of the payout"]


@pytest.fixture(scope="module")
def two_scales(tmp_path_factory):
    """Make a function that seals a table with r2 beside squared errors of 1e10, and the table of data."""
    frame = rows_of("n", "s", seed=2).assign(y=lambda rows: 1e5 * rows["y"])

    def make(name, change=lambda table: table):
        folder = tmp_path_factory.mktemp(name)
        opened = {"group": "provider", "target": "y", "metric": "r2,neg_mean_squared_error"}
        run_sealed(change(fgsv.open_table(frame, **opened)), folder, budget=60)
        return folder, frame

    return make


def test_values_of_a_small_output_are_compared_with_that_output(two_scales):
    """A rounding error of squared errors of 1e10 is a hundred times the largest r2."""
    folder, _ = two_scales("altered")
    result = Result.load(folder / "valuation.json")
    valuation, codes = result.valuation, result.valuation.partition.codes
    players = valuation.player_values.copy()
    players[np.flatnonzero(codes == 0)[0], 0] += 0.2
    players[np.flatnonzero(codes == 1)[0], 0] -= 0.2
    moved = replace(valuation, estimate=replace(valuation.estimate, values=players))
    replace(result, valuation=moved).save(folder / "lie.json")
    proof = replace(_proof(folder), statement=file.statement(file.read(folder / "lie.json")))
    found = check_proof(proof, folder / "lie.json")
    assert {each.where.split()[0] for each in found.differences} == {"values", "player_values"}


def test_forged_records_of_a_small_output_are_found(two_scales):
    def forged(table):
        honest = as_game(table.game)

        def lifted(masks):
            return honest(masks) + np.outer(0.2 * (masks[:, 0] & ~masks.all(axis=1)), np.arange(honest.width) == 0)

        return replace(table, game=replace(honest, function=lifted, evaluate_lists=None))

    folder, frame = two_scales("forged", forged)
    assert check_proof(_proof(folder), folder / "valuation.json").code == 0
    found = check_proof(_proof(folder), folder / "valuation.json", frame)
    assert {each.where.split()[0] for each in found.differences} == {"record"}


def ended_elsewhere(table, result, n_evaluations, path):
    """Save a result that ends as another one says, but after other evaluations; return a proof that fits it."""
    used, stated = Records(), result.valuation.settings
    given = {"budget": stated.budget, "confidence": stated.confidence, "seed": stated.seed}
    with Evaluator(as_game(table.game)) as evaluator:
        for valuation in fgsv.iterate(used.watch(evaluator), table.partition, **given):
            if valuation.n_evaluations >= n_evaluations:
                break
    valuation = valuation.regroup(result.valuation.partition)
    tree, seal = Tree(used.leaves()), result.sealed
    sealed = Sealed(seal.commitment, seal.seal, seal.public, tree.root.hex(), len(tree))
    valuation = replace(valuation, settings=stated, end=result.valuation.end, finished=True)
    replace(result, valuation=valuation, sealed=sealed).save(path)
    chosen = picked_numbers(sealed.root, "dice", 20, len(tree))
    records = [Picked(i, used.row(i), tuple(used.values[i].tolist()), tuple(tree.path(i))) for i in chosen]
    statement = file.statement(file.read(path))
    return Proof(sealed.commitment, sealed.root, "dice", tuple(records), statement, used.values)


@pytest.fixture(scope="module")
def with_sites(tmp_path_factory):
    """Make a function that seals and makes a run by providers and by sites."""

    def make(**limits):
        folder = tmp_path_factory.mktemp("sites")
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(rng.normal(size=(36, 2)), columns=["a", "b"])
        frame = frame.assign(y=frame["a"] + rng.normal(size=36), site=np.array(["old", "new"])[np.arange(36) // 18])
        frame = frame.assign(provider=np.array(["n", "s", "e"])[np.arange(36) % 3])
        table = fgsv.open_table(frame, group="provider,site", target="y")
        result = run_sealed(table, folder, **limits)
        return folder, table, {"provider": result, **result.of_others()}

    return make


@pytest.mark.parametrize(
    ("grouping", "limits", "found"),
    [
        ("provider", {"precision": 0.5}, ["root over the records"]),
        ("provider", {"budget": 200}, ["end"]),
        ("site", {"budget": 200}, ["end"]),
    ],
    ids=["after the target", "before the budget", "by other groups before the budget"],
)
def test_an_operator_who_ends_a_run_where_it_pleases_is_found(with_sites, grouping, limits, found):
    folder, table, results = with_sites(**limits)
    n = results[grouping].valuation.n_evaluations
    elsewhere = 2 * n if "precision" in limits else n // 2
    proof = ended_elsewhere(table, results[grouping], elsewhere, folder / "lie.json")
    assert [each.where for each in check_proof(proof, folder / "lie.json").differences] == found


def test_nobody_can_tell_by_other_groups_whether_a_target_was_met(with_sites):
    """The target is about providers, and the file of the sites does not say who they are."""
    folder, table, results = with_sites(precision=0.5)
    n = results["site"].valuation.n_evaluations
    proof = ended_elsewhere(table, results["site"], 2 * n, folder / "lie.json")
    found = check_proof(proof, folder / "lie.json")
    assert found.code == 2
    assert "the target refers to the first grouping" in found.doubts[0]


@pytest.mark.parametrize("name", ["groups", "outputs", "settings", "versions", "columns", "policy", "weights"])
@pytest.mark.parametrize("wrong", [5, "x", [1], {}])
def test_contents_of_other_kinds_are_a_difference(sealed, name, wrong):
    document = file.read(sealed / "valuation.json")
    contents = document["info"]["sealed"]["seal"]["contents"] | {name: wrong}
    commitment = Seal(contents, bytes(32)).commitment
    document["info"]["sealed"] |= {"contents": contents, "commitment": commitment}
    (sealed / "odd.json").write_text(json.dumps(document))
    assert check_proof(replace(_proof(sealed), commitment=commitment, statement={}), sealed / "odd.json").code == 1
