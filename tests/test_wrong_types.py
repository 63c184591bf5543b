"""Arguments of a wrong type: the error names the argument or what was expected, before anything is evaluated."""

import pytest

import fgsv
from fgsv import audit, payout, report


@pytest.fixture
def game():
    asked = []

    def count(masks):
        asked.extend(masks)
        return masks.sum(axis=1)

    yield fgsv.Game(count, 6, fingerprint="count")
    assert not asked


VALUED = {
    "value": fgsv.value,
    "exact": fgsv.exact,
    "plan": fgsv.plan,
    "diagnose": fgsv.diagnose,
    "shell_companies": lambda game, **options: audit.shell_companies(game, [0, 0, 0, 1, 1, 1], **options),
}


@pytest.mark.parametrize("wrong", [3, 2.5, True, b"run.db", ["run.db"]])
@pytest.mark.parametrize("function", VALUED.values(), ids=VALUED)
def test_a_ledger_that_is_no_path(function, wrong, game):
    with pytest.raises(TypeError, match=f"^ledger must be given as a path, got {type(wrong).__name__}$"):
        function(game, ledger=wrong)


def test_other_paths_that_are_none(tmp_path):
    valuation = fgsv.exact(fgsv.games.Airport([1, 2]))
    for call, name in (
        (lambda: fgsv.load(3), "a saved valuation"),
        (lambda: fgsv.fit_cost(3), "a ledger"),
        (lambda: fgsv.verify(valuation, 3), "a ledger"),
        (lambda: report.write_result(3, report.Result(valuation)), "folder"),
        (lambda: report.check_file(3, force=False), "a file"),
    ):
        with pytest.raises(TypeError, match=f"^{name} must be given as a path, got int$"):
            call()
    report.check_file(str(tmp_path / "new.json"), force=False)
    report.check_folder(str(tmp_path), force=False)


WITH_VALUATION = {
    "compare": lambda wrong: fgsv.compare(wrong, wrong),
    "verify": lambda wrong: fgsv.verify(wrong, "run.db"),
    "split": lambda wrong: payout.split(wrong, 100),
    "royalty_shares": payout.royalty_shares,
    "verdict": payout.verdict,
    "audit": lambda wrong: audit.audit(fgsv.games.Airport([1, 2]), wrong),
    "close_calls": audit.close_calls,
    "policy_gains": lambda wrong: audit.policy_gains(wrong, 100),
    "render": report.render,
}
WITH_TABLE = {
    "make_result": report.make_result,
    "seal_run": report.seal_run,
    "audit_table": lambda wrong: audit.audit_table(wrong, wrong),
}
WITH_RESULT = {
    "compare_results": lambda wrong: report.compare_results(wrong, wrong),
    "sensitivity": report.sensitivity,
    "verify_data": lambda wrong: report.verify_data(wrong, "run.db", "train.csv"),
    "withdrawn_players": lambda wrong: report.withdrawn_players(wrong, "run.db", "train.csv", "rows.csv"),
    "write_result": lambda wrong: report.write_result("folder", wrong),
}
WITH_PAYOUT = {
    "settle": lambda wrong: payout.settle(wrong, wrong),
    "differences": lambda wrong: payout.differences(wrong, wrong),
    "write_payout": lambda wrong: report.write_payout("payments.csv", wrong),
}
EXPECTED = {
    "a valuation, got {}: fgsv.load(path) opens a saved one": WITH_VALUATION,
    "a table or texts, got {}: fgsv.open_table or fgsv.open_text opens them": WITH_TABLE,
    "a result, got {}: fgsv.report.Result.load(path) opens a saved one": WITH_RESULT,
    "payout": WITH_PAYOUT,
}


@pytest.mark.parametrize("wrong", ["x", 3, None])
@pytest.mark.parametrize(
    ("words", "function"),
    [(words, each) for words, functions in EXPECTED.items() for each in functions.values()],
    ids=[name for functions in EXPECTED.values() for name in functions],
)
def test_an_object_of_another_type(words, function, wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError, match=r"^expected ") as error:
        function(wrong)
    assert words.format(type(wrong).__name__) in str(error.value)
    assert not list(tmp_path.iterdir())
