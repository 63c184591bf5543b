"""Commands take several files, and what stands before a pipe."""

import io
import json
import sys

from cli_cases import providers


def test_several_files_without_a_provider_column(fgsv_command, tmp_path):
    frame = providers().drop(columns="site")
    for name, part in frame.groupby("provider"):
        part.drop(columns="provider").to_csv(tmp_path / f"{name}.csv", index=False)
    files = [tmp_path / f"{name}.csv" for name in ("north", "south", "east", "west")]
    code, text, notes = fgsv_command("value", *files, "--target", "y", "--budget", 200, "--json")
    assert code == 0, notes
    assert [row["group"] for row in json.loads(text)["groupings"]["file"]] == ["north", "south", "east", "west"]
    code, _, notes = fgsv_command("value", files[0], "--target", "y")
    assert (code, "--group COLUMN, or give a file for each provider" in notes) == (2, True)


def test_stdin(fgsv_command, train, monkeypatch):
    options = ["--group", "provider", "--target", "y", "--ignore", "site", "--budget", 200, "--json"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(train.read_bytes())))
    assert fgsv_command("value", "-", *options) == fgsv_command("value", train, *options)
