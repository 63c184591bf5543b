"""Clusters as people have them: workers join, nobody has what is asked for, the scheduler goes."""

import os
import signal
import subprocess
import sys
import threading
import time

import cloudpickle
import joblib
import numpy as np
import pytest

import fgsv
from fgsv.evaluation import queue

pytestmark = pytest.mark.slow

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # a cluster's workers cannot import the tests
distributed = pytest.importorskip("distributed")


def slow(masks):
    time.sleep(0.2)
    return np.sqrt(masks.sum(axis=1))


GAME = fgsv.Game(slow, 30, fingerprint="slow", batch_size=2)


@pytest.fixture
def cluster():
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster),
    ):
        yield cluster


def test_workers_that_join_are_used(cluster):
    threading.Timer(0.5, cluster.scale, (4,)).start()
    start = time.monotonic()
    with joblib.parallel_config(backend="dask"):
        result = fgsv.value(GAME, budget=62)
    assert time.monotonic() - start < 31 * 0.2  # what one worker takes
    assert result.values.tobytes() == fgsv.value(GAME, budget=62).values.tobytes()


def test_a_cluster_without_what_is_asked_for_says_so(cluster, monkeypatch):
    monkeypatch.setattr(queue, "PATIENCE", 0.5)
    threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with (
        joblib.parallel_config(backend="dask", resources={"GPU": 1}),
        pytest.warns(RuntimeWarning, match="asks for 1 threads and 1 GPU; the cluster's workers: 1 threads"),
        pytest.raises(KeyboardInterrupt),
    ):
        fgsv.value(GAME, budget=62)


def test_a_scheduler_that_is_gone_is_named_and_what_is_safe(tmp_path):
    file = tmp_path / "scheduler.json"
    command = [sys.executable, "-m"]
    quiet = ["--no-dashboard", "--scheduler-file", str(file)]
    programs = [
        subprocess.Popen([*command, f"distributed.cli.{name}", *more, *quiet], stderr=subprocess.DEVNULL)
        for name, more in (("dask_scheduler", ["--port", "0"]), ("dask_worker", ["--nthreads", "2", "--no-nanny"]))
    ]
    try:
        with distributed.Client(scheduler_file=str(file), timeout=60) as client:
            client.wait_for_workers(1)
            threading.Timer(2, programs[0].kill).start()
            with (
                joblib.parallel_config(backend="dask"),
                pytest.raises(
                    fgsv.GameError, match=r"scheduler at tcp://.* is gone; .* in .*run\.db: the same command"
                ),
            ):
                fgsv.value(GAME, budget=200, ledger=tmp_path / "run.db")
    finally:
        for program in programs:
            program.kill()
            program.wait()
    assert fgsv.value(GAME, budget=30, ledger=tmp_path / "run.db").n_evaluations == 30
