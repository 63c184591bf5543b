"""Workers: the same bits wherever the batches are evaluated."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import cloudpickle
import joblib
import numpy as np
import pytest
from joblib.externals.loky import reusable_executor

import fgsv
from fgsv.coalitions import Coalitions, pack, unpack
from fgsv.evaluation import queue, workers
from fgsv.evaluation.evaluator import Evaluator
from fgsv.game import GameError, as_game
from fgsv.ledger import Ledger
from fgsv.testing import check_backend

pytestmark = pytest.mark.slow

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # a cluster's workers cannot import the tests


class Regression:
    """In-sample error of batched least squares: matrix products whose last bits depend on batch and threads."""

    n_players = 40
    fingerprint = "regression"

    def __init__(self):
        rng = np.random.default_rng(0)
        self.X = rng.standard_normal((40, 6))
        self.y = self.X.sum(axis=1) + rng.standard_normal(40)

    def __call__(self, masks):
        weights = masks.astype(float)
        gram = np.einsum("mi,ij,ik->mjk", weights, self.X, self.X, optimize=True) + np.eye(6)
        moments = weights @ (self.X * self.y[:, None])
        fitted = np.linalg.solve(gram, moments[:, :, None])[:, :, 0] @ self.X.T
        return -((self.y - fitted) ** 2).mean(axis=1)


def bits(result):
    return result.values.tobytes(), result.stderr.tobytes()


@pytest.fixture(scope="module")
def alone():
    return bits(fgsv.value(Regression(), budget=700, batch_size=32))


class Alone(Regression):
    """A game that fails if two of its batches are evaluated at a time, as they are not where there is one GPU."""

    def __init__(self, folder):
        super().__init__()
        self.lock = str(Path(folder) / "one GPU")

    def __call__(self, masks):
        os.close(os.open(self.lock, os.O_CREAT | os.O_EXCL))
        values = super().__call__(masks)
        os.unlink(self.lock)
        return values


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_back_ends_of_joblib(backend):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        check_backend()


def test_dask():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        check_backend()


class Roots:
    """A game that evaluates each coalition by itself, and remembers how many it was given at a time."""

    n_players = 40

    def __init__(self, *, independent_rows):
        self.independent_rows, self.given = independent_rows, []

    def __call__(self, masks):
        self.given.append(len(masks))
        return np.sqrt(masks @ np.arange(1.0, 41))


def test_all_workers_share_a_round_of_independent_coalitions():
    alone, shared = Roots(independent_rows=True), Roots(independent_rows=True)
    expected = fgsv.value(alone, budget=100)
    with joblib.parallel_config(backend="threading", n_jobs=4):
        result = fgsv.value(shared, budget=100)
    assert bits(result) == bits(expected)
    assert sum(shared.given) == sum(alone.given) == 100
    assert max(alone.given) >= 14
    assert max(shared.given) == -(-max(alone.given) // 4)


def test_idle_workers_of_a_slow_game_are_noticed(monkeypatch):
    monkeypatch.setattr(queue, "LONG_SECONDS", 0.0)
    with joblib.parallel_config(backend="threading", n_jobs=4):
        with pytest.warns(
            RuntimeWarning, match=r"\d of 4 workers had nothing to do: \d+ coalitions were evaluated at"
        ):
            fgsv.value(Roots(independent_rows=False), budget=40)
        fgsv.value(Roots(independent_rows=False), budget=40, batch_size=1)  # no warning, which would be an error
        fgsv.value(Roots(independent_rows=True), budget=40)


def test_no_more_processes_are_started_than_there_are_batches(monkeypatch):
    monkeypatch.setattr(workers.Workers, "_warm", 2)
    started = []
    with Evaluator(as_game(Regression()), n_jobs=100, batch_size=1) as evaluator:
        for n_batches in (1, 3):
            evaluator(Coalitions.from_masks(np.eye(40, dtype=bool)[:n_batches]))
            started.append(set(reusable_executor._executor._processes))
    assert (evaluator.n_workers, [len(each) for each in started]) == (100, [2, 3])
    assert started[0] < started[1]  # those that were there stay


def test_a_game_that_cannot_be_sent_says_what_to_do():
    class Stubborn(Regression):
        def __reduce__(self):
            raise TypeError("not me")

    with pytest.raises(GameError, match="cannot be sent to other processes"):
        fgsv.value(Stubborn(), budget=100, n_jobs=2)


def test_a_back_end_is_given_to_joblib():
    for method in ("gp", "permutation"):
        with pytest.raises(TypeError, match=r"with joblib\.parallel_config\(backend='dask'\): \.\.\."):
            fgsv.value(fgsv.games.Airport([1, 2, 3]), method=method, budget=50, backend="dask")


RAY = """
    import joblib, ray, sys
    sys.path[:0] = sys.argv[1], sys.argv[1] + "/.."
    import fgsv, test_workers
    from ray.util.joblib import register_ray
    from fgsv.testing import check_backend

    ray.init(num_cpus=2, num_gpus=1, include_dashboard=False, log_to_driver=False)
    register_ray()
    with joblib.parallel_config(backend="ray", ray_remote_args={"num_gpus": 1, "num_cpus": 0}):
        fgsv.value(test_workers.Alone(sys.argv[2]), stderr=0.06, budget=3000, batch_size=8)
        check_backend()
    ray.shutdown()
"""


def test_ray(tmp_path):
    """With one GPU for each evaluation, batches wait for it, and its worker keeps the game."""
    pytest.importorskip("ray")
    # in a process of its own: Ray changes joblib's pools for all that comes after it
    environment = os.environ | {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-c", textwrap.dedent(RAY), str(Path(__file__).parent), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


def test_a_worker_out_of_reach_of_the_game_is_sent_it(alone, monkeypatch):
    monkeypatch.setattr(workers.Workers, "_write_game", lambda self: None)
    assert bits(fgsv.value(Regression(), budget=700, batch_size=32, n_jobs=2)) == alone


def test_the_threads_of_matrix_products_do_not_move_a_bit():
    from threadpoolctl import threadpool_info, threadpool_limits

    seen = []

    def threads(masks):
        seen.extend(pool["num_threads"] for pool in threadpool_info())
        return masks.sum(axis=1)

    with threadpool_limits(2):
        fgsv.value(fgsv.Game(threads, 10), budget=64)
    assert set(seen) == {1}


def test_lists_reach_the_game_in_one_order(tmp_path):
    """A game that adds in the order of its lists has the same bits in a process and in this one."""
    weights = np.random.default_rng(0).standard_normal(40)

    def in_order(coalitions):
        sums = np.zeros(len(coalitions))
        for row, player in zip(coalitions.rows, coalitions.listed, strict=True):
            sums[row] += weights[player]
        return np.where(coalitions.inverted, 1 - sums, sums)

    game = fgsv.Game(lambda masks: masks @ weights, 40, fingerprint="lists", evaluate_lists=in_order)
    one = fgsv.value(game, budget=300)
    assert bits(fgsv.value(game, budget=300, n_jobs=2)) == bits(one)
    with Ledger(tmp_path / "run.db") as ledger:
        assert bits(fgsv.value(game, budget=300, ledger=ledger)) == bits(one)
        number = ledger.game(game)
        batch = next(ledger.batches(number))
        assert pack(unpack(40, batch.coalitions)) == batch.coalitions


INTERRUPTED = """
    import os, signal, sys, threading
    import fgsv

    def slow(masks):
        import time
        time.sleep(0.05)
        return masks.sum(axis=1) ** 0.5

    game = fgsv.Game(slow, 50, fingerprint="slow")
    rounds = fgsv.iterate(game, budget=10**6, n_jobs=2, batch_size=16, ledger=sys.argv[1])
    next(rounds)
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    for result in rounds:
        pass
    print(result.end.reason, result.n_evaluations)
"""


def test_an_interrupt_returns_the_valuation_so_far(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(INTERRUPTED), str(tmp_path / "run.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    stopped, n_evaluations = done.stdout.split()
    assert stopped == "interrupted"
    with Ledger(tmp_path / "run.db", read_only=True) as ledger:
        (run,) = ledger.runs()
        held = sum(len(batch.outcome.values) for batch in ledger.batches())
    assert (run.end.reason, run.n_evaluations) == ("interrupted", int(n_evaluations))
    assert held >= int(n_evaluations)
    assert [path.name for path in tmp_path.iterdir()] == ["run.db"]
