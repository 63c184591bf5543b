"""The motivating example: what splitting changes, and what it does not."""

import numpy as np

from experiments.motivation import make_groups


def test_motivation_splits_change_the_group_value_and_not_the_faithful_one(experiment, tmp_path):
    table, record = experiment("motivation", tmp_path / "new" / "folder", "--budget", 2000)
    assert record["findings"]["GSV of A falls with every split"]
    assert record["findings"]["FGSV of A moves by"] == 0
    totals = table.groupby(["method", "groups"])["value"].sum()
    np.testing.assert_allclose(totals, totals.iloc[0], atol=1e-12)
    assert [make_groups(4).count(name) for name in ("A", "B1", "B2", "B3")] == [100, 34, 33, 33]
