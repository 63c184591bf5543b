"""Batches that kill their workers, and more workers than a machine can run."""

import os
import time

import joblib
import pytest

import fgsv


class Deadly:
    """Kills its process for coalitions of three."""

    n_players = 4
    fingerprint = "deadly"

    def __call__(self, masks):
        if (masks.sum(axis=1) == 3).any():
            os._exit(1)
        return masks.sum(axis=1) * 1.0


def test_a_batch_that_kills_workers_of_dask_fails_and_nothing_hangs():
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    with (
        dask.config.set(
            {"distributed.scheduler.allowed-failures": 0, "distributed.admin.large-graph-warning-threshold": "1GB"}
        ),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        result = fgsv.exact(fgsv.Game(Deadly(), 4), on_error=0.0)
    assert result.failures.kinds["died"] == result.failures.coalitions
    assert "KilledWorker" in result.failures.first


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_a_million_workers_are_refused_at_once(backend):
    start = time.monotonic()
    with joblib.parallel_config(backend=backend), pytest.raises(ValueError, match=r"n_jobs is 1000000"):
        fgsv.value(fgsv.games.Airport([1, 2, 4]), n_jobs=10**6)
    assert time.monotonic() - start < 5
