"""Clusters as people have them: workers join, leave and die, scale by themselves, lack what is asked for."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import cloudpickle
import joblib
import numpy as np
import pytest

import fgsv
from fgsv.evaluation import queue
from fgsv.ledger import Ledger

pytestmark = pytest.mark.slow

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # a cluster's workers cannot import the tests
distributed = pytest.importorskip("distributed")


def slow(masks):
    time.sleep(0.2)
    return np.sqrt(masks.sum(axis=1))


GAME = fgsv.Game(slow, 30, fingerprint="slow", batch_size=2)


class Logged:
    """A game that writes down which worker evaluated a batch, and when."""

    n_players, fingerprint, batch_size = 30, "logged", 2

    def __init__(self, folder, seconds=0.1):
        self.log, self.seconds = str(folder / "log"), seconds
        Path(self.log).touch()

    def __call__(self, masks):
        begun = time.time()
        time.sleep(self.seconds)
        line = f"{distributed.get_worker().address} {begun} {time.time()}\n"
        file = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line.encode())
        os.close(file)
        return np.sqrt(masks.sum(axis=1))

    def read(self):
        """Return a (worker, begun, done) for each batch."""
        lines = [line.split() for line in Path(self.log).read_text().splitlines()]
        return [(worker, float(begun), float(done)) for worker, begun, done in lines]

    def workers(self):
        """Return the workers that have evaluated something."""
        return {worker for worker, _, _ in self.read()}


def most_at_a_time(batches):
    """Return how many of them were evaluated at a time at the most."""
    return max(sum(b <= begun < d for _, b, d in batches) for _, begun, _ in batches)


def bits(result):
    return result.values.tobytes(), result.stderr.tobytes(), result.n_evaluations


def alone(**options):
    return bits(fgsv.value(GAME_AT_ONCE, **options))


GAME_AT_ONCE = fgsv.Game(lambda masks: np.sqrt(masks.sum(axis=1)), 30, batch_size=2)


def cluster_of(n_workers, **options):
    return distributed.LocalCluster(
        n_workers=n_workers, processes=False, dashboard_address=":0", silence_logs=50, **options
    )


@pytest.fixture
def cluster():
    with cluster_of(1, threads_per_worker=1) as cluster, distributed.Client(cluster):
        yield cluster


def test_workers_that_join_are_used(cluster):
    threading.Timer(0.5, cluster.scale, (4,)).start()
    start = time.monotonic()
    with joblib.parallel_config(backend="dask"):
        result = fgsv.value(GAME, budget=62)
    assert time.monotonic() - start < 31 * 0.2  # what one worker takes
    assert bits(result) == alone(budget=62)


def test_a_cluster_that_scales_itself_has_as_many_workers_as_the_run_may_use(tmp_path):
    game = Logged(tmp_path)
    with cluster_of(0, threads_per_worker=1) as cluster, distributed.Client(cluster):
        cluster.adapt(minimum=0, maximum=3, interval="100ms", target_duration="200ms", wait_count=50)
        with joblib.parallel_config(backend="dask", n_jobs=3):
            result = fgsv.value(game, budget=62)
    assert bits(result) == alone(budget=62)
    assert len(game.workers()) == 3


def test_workers_that_leave_are_not_missed(tmp_path):
    game = Logged(tmp_path)
    with cluster_of(3, threads_per_worker=1) as cluster, distributed.Client(cluster):
        threading.Timer(0.5, cluster.scale, (1,)).start()
        with joblib.parallel_config(backend="dask"):
            result = fgsv.value(game, budget=62)
    assert bits(result) == alone(budget=62)
    batches = game.read()
    assert most_at_a_time(batches) == 3
    assert len({worker for worker, begun, _ in batches if begun > batches[0][1] + 1.0}) == 1


def test_each_evaluation_has_the_resource_that_it_asks_for(tmp_path):
    game = Logged(tmp_path)
    with (
        cluster_of(2, threads_per_worker=3, resources={"GPU": 1}) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask", resources={"GPU": 1}),
    ):
        result = fgsv.value(game, budget=62)
    assert bits(result) == alone(budget=62)
    batches = game.read()
    at_a_time = [most_at_a_time([each for each in batches if each[0] == worker]) for worker in game.workers()]
    assert at_a_time == [1, 1]


def test_a_cluster_without_what_is_asked_for_says_so(cluster, monkeypatch):
    monkeypatch.setattr(queue, "PATIENCE", 0.5)
    threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with (
        joblib.parallel_config(backend="dask", resources={"GPU": 1}),
        pytest.warns(RuntimeWarning, match="asks for 1 threads and 1 GPU; the cluster's workers: 1 threads"),
        pytest.raises(KeyboardInterrupt),
    ):
        fgsv.value(GAME, budget=62)


def test_a_worker_that_dies_costs_its_batches_and_a_scheduler_that_is_gone_is_named(tmp_path):
    file = tmp_path / "scheduler.json"
    programs = []

    def start(name, *options):
        command = [sys.executable, "-m", f"distributed.cli.{name}", "--no-dashboard", "--scheduler-file", str(file)]
        programs.append(subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL))
        return programs[-1]

    def worker():
        return start("dask_worker", "--nthreads", "1", "--no-nanny")

    game, ledger = Logged(tmp_path), tmp_path / "run.db"

    def kill_when_both_have_begun(worker):
        while len(game.workers()) < 2:
            time.sleep(0.05)
        worker.kill()

    try:
        scheduler, first, _ = start("dask_scheduler", "--port", "0"), worker(), worker()
        with (
            distributed.Client(scheduler_file=str(file), timeout=60) as client,
            joblib.parallel_config(backend="dask"),
        ):
            client.wait_for_workers(2)
            threading.Thread(target=kill_when_both_have_begun, args=(first,), daemon=True).start()
            assert bits(fgsv.value(game, budget=102)) == alone(budget=102)
            assert first.poll() is not None
            assert len(game.read()) <= 51 + 2  # what the dead one had done and not delivered
            threading.Timer(2, scheduler.kill).start()
            with pytest.raises(
                fgsv.GameError, match=r"scheduler at tcp://.* is gone; .* in .*run\.db: the same command"
            ):
                fgsv.value(GAME, budget=200, ledger=ledger)
    finally:
        for program in programs:
            program.kill()
            program.wait()
    with Ledger(ledger, read_only=True) as opened:
        assert sum(1 for _ in opened.batches()) >= 2  # what was evaluated is safe
