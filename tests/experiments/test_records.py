"""What an experiment says of the files that it leaves."""

import pandas as pd

from experiments.records import save


def test_a_table_without_figures_is_named_with_its_record(tmp_path, capsys):
    save(tmp_path, "answers", pd.DataFrame({"players": [8]}), {}, seed=1)
    assert capsys.readouterr().out.endswith(f"in {tmp_path}: answers.csv, answers.json\n")
    assert {path.name for path in tmp_path.iterdir()} == {"answers.csv", "answers.json"}
