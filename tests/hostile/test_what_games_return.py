"""Games that answer in odd ways: what is no number is a failure, and what is one is not changed afterwards."""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

import fgsv
from fgsv.cli import command_line
from fgsv.game import GameError
from fgsv.ledger import Ledger

N = 12
WEIGHTS = np.linspace(0.2, 1.7, N)


def honest(masks):
    return np.sqrt(masks @ WEIGHTS)


def small(masks):
    """Say which coalitions the games below fail for: about one in twelve."""
    return masks.sum(axis=1) == 1


class Reused:
    """A game that returns the same array for every batch."""

    n_players = N

    def __init__(self):
        self.out = np.empty(4096)

    def __call__(self, masks):
        out = self.out[: len(masks)]
        out[:] = honest(masks)
        return out


@pytest.mark.parametrize("run", [fgsv.exact, lambda game: fgsv.value(game, method="permutation", budget=300)])
def test_a_reused_array_is_copied_before_the_next_batch_fills_it(run):
    np.testing.assert_array_equal(run(Reused()).values, run(fgsv.Game(honest, N)).values)


def masked(masks):
    return np.ma.array(honest(masks), mask=small(masks))


def masked_integers(masks):
    return np.ma.array(masks.sum(axis=1), mask=small(masks))


def list_of_masked(masks):
    return [np.ma.array([value], mask=[bad]) for value, bad in zip(honest(masks), small(masks), strict=True)]


@pytest.mark.parametrize("answer", [masked, masked_integers, list_of_masked])
def test_a_masked_entry_is_a_failure_and_not_the_number_below_it(answer):
    result = fgsv.exact(fgsv.Game(answer, N), on_error=-1.0)
    assert result.failures.kinds == {"not finite": N}
    with pytest.raises(GameError, match="size 1 with members"):
        fgsv.exact(fgsv.Game(answer, N))


WORDS = {
    "strings": lambda masks: [f"{size}" for size in masks.sum(axis=1)],
    "bytes": lambda masks: np.array([b"%d" % size for size in masks.sum(axis=1)]),
    "strings among objects": lambda masks: np.array([1.0] * (len(masks) - 1) + ["2.5"], dtype=object),
    "dates": lambda masks: np.datetime64("2020-01-01") + masks.sum(axis=1),
    "durations": lambda masks: masks.sum(axis=1).astype("m8[s]"),
    "dates among objects": lambda masks: np.array([np.datetime64("2020-01-01", "D")] * len(masks), dtype=object),
    "complex among objects": lambda masks: np.array([np.complex128(1j)] * len(masks), dtype=object),
    "masked strings": lambda masks: np.ma.array(["1.5"] * len(masks)),
    "too large": lambda masks: [10**400] * len(masks),
}


@pytest.mark.parametrize("kind", WORDS)
def test_words_and_dates_are_not_scores(kind):
    with pytest.raises(GameError, match="did not return numbers"):
        fgsv.exact(fgsv.Game(WORDS[kind], 4))
    assert fgsv.exact(fgsv.Game(WORDS[kind], 4), on_error=0.0).failures.kinds == {"wrong shape": 16}


def test_numbers_of_other_types_stay_numbers():
    from decimal import Decimal
    from fractions import Fraction

    votes = fgsv.exact(fgsv.Game(lambda masks: masks[:, 0], 3)).values
    np.testing.assert_array_equal(votes, [1, 0, 0])
    for kind in (Decimal, Fraction, int):
        found = fgsv.exact(fgsv.Game(lambda masks, kind=kind: [kind(int(size)) for size in masks.sum(axis=1)], 3))
        np.testing.assert_allclose(found.values, [1, 1, 1])


def test_a_tensor_may_need_gradients():
    torch = pytest.importorskip("torch")
    weights = torch.tensor(WEIGHTS, requires_grad=True)

    def whole(masks):
        return torch.sqrt(torch.tensor(masks, dtype=torch.float64) @ weights)

    expected = fgsv.exact(fgsv.Game(honest, N)).values
    for answer in (whole, lambda masks: list(whole(masks))):
        np.testing.assert_allclose(fgsv.exact(fgsv.Game(answer, N)).values, expected, rtol=1e-12)
    halves = fgsv.exact(fgsv.Game(lambda masks: whole(masks).bfloat16(), N)).values
    np.testing.assert_allclose(halves, expected, atol=0.05)


class Unprintable(ValueError):
    """An error whose message raises another."""

    def __str__(self):
        raise RuntimeError("no words")

    __repr__ = __str__


class Deaf(BaseException):
    """An error that `except Exception` does not catch."""


ERRORS = [SystemExit(3), SystemExit, GeneratorExit(), Deaf("deaf"), Unprintable(), ValueError("\udcff in a message")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: getattr(error, "__name__", type(error).__name__))
def test_whatever_a_game_raises_obeys_the_policy(tmp_path, error):
    def game(masks):
        if small(masks).any():
            raise error
        return honest(masks)

    named = fgsv.Game(game, N, fingerprint="raises", independent_rows=True)
    result = fgsv.value(named, budget=400, method="permutation", on_error=-1.0, ledger=tmp_path / "run.db")
    assert set(result.failures.kinds) == {"raised"}
    with pytest.raises(GameError, match="raised: "):
        fgsv.value(named, budget=400, method="permutation", ledger=tmp_path / "run.db")
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        assert any(batch.outcome.failures for batch in ledger.batches())


def test_an_interrupt_is_the_users_and_no_failure():
    def game(masks):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fgsv.value(fgsv.Game(game, N), budget=400, on_error=0.0)


FORKING = """
    import os, sys, fgsv

    def game(masks):
        child = os.fork()
        if child == 0:
            match way:
                case "raises": raise ValueError("in the child")
                case "exits": sys.exit(3)
                case "returns": return masks.sum(axis=1)
        found.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return masks.sum(axis=1)

    for way in ("raises", "exits", "returns"):
        found = set()
        print(way, fgsv.exact(fgsv.Game(game, 3)).values.tolist(), found, flush=True)
"""


def test_a_forked_child_does_not_continue_the_run():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(FORKING)], capture_output=True, text=True, timeout=60
    )
    values = "[1.0, 1.0, 1.0]"
    assert done.stdout.splitlines() == [f"raises {values} {{1}}", f"exits {values} {{3}}", f"returns {values} {{0}}"]
    assert "ValueError: in the child" in done.stderr


TALKER = """
    import ctypes, os
    from sklearn.linear_model import Ridge

    print("imported")

    class Talker(Ridge):
        def fit(self, X, y):
            print("fitting")
            os.write(1, b"written\\n")
            ctypes.CDLL(None).printf(b"by C\\n")
            return super().fit(X, y)

    model = Talker()
"""


def test_what_a_model_prints_is_no_part_of_the_json(tmp_path, capfd):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X.assign(y=y, who=np.arange(len(X)) % 3, patient=np.arange(len(X)) % 9)[:90].to_csv(
        tmp_path / "train.csv", index=False
    )
    (tmp_path / "talker.py").write_text(textwrap.dedent(TALKER))
    words = ["value", str(tmp_path / "train.csv"), "--group", "who", "--target", "y", "--unit", "patient", "--json"]
    with pytest.raises(SystemExit):
        command_line.main([*words, "--model", f"{tmp_path / 'talker.py'}:model"])
    out, err = capfd.readouterr()
    assert len(json.loads(out)["groupings"]["who"]) == 3
    assert {"imported", "fitting", "written", "by C"} <= set(err.split("\n"))


def noisy(size):
    rng = np.random.default_rng(0)
    return lambda masks: honest(masks) + size * rng.normal(size=len(masks))


@pytest.mark.parametrize("method", ["permutation", "kernelshap"])
@pytest.mark.parametrize(("size", "independent_rows"), [(0.2, False), (1e-9, True)])
def test_a_game_that_answers_differently_is_noticed(method, size, independent_rows):
    """Where coalitions are drawn again: the default method draws each of them once."""
    game = fgsv.Game(noisy(size), N, independent_rows=independent_rows)
    with pytest.warns(RuntimeWarning, match="not deterministic"):
        result = fgsv.value(game, budget=500, method=method)
    assert "the game is not deterministic" in result.end.detail
    assert "the coalition of size" in result.end.detail


def test_last_digits_of_a_batch_and_batches_that_fail_are_no_other_answers():
    assert "deterministic" not in fgsv.value(fgsv.Game(noisy(1e-6), N), budget=500).end.detail

    def fails_together(masks):
        if (masks.sum(axis=1) == 4).any():
            raise ValueError
        return honest(masks)

    result = fgsv.value(fgsv.Game(fails_together, N), budget=500, batch_size=8, on_error=0.0)
    assert 0 < result.failures.coalitions < 500
    assert "deterministic" not in result.end.detail


def test_a_noticed_game_is_noticed_again_by_verify(tmp_path):
    game = fgsv.Game(noisy(0.2), N, fingerprint="noisy")
    with pytest.warns(RuntimeWarning, match="not deterministic"):
        result = fgsv.value(game, budget=500, method="permutation", ledger=tmp_path / "run.db")
    with pytest.warns(RuntimeWarning, match="not deterministic"):
        assert fgsv.verify(result, tmp_path / "run.db") == []
