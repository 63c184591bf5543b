"""The code experiment at a tiny size: what it writes, finds again, and reports."""

import json

import numpy as np
import pytest
from heavy import Lazy, needs

from fgsv.experiments.code import sources

pytestmark = [pytest.mark.torch, needs("torch", "transformers", "matplotlib")]
experiment = Lazy("fgsv.experiments.code.experiment")
base_model = Lazy("fgsv.experiments.code.base_model")

NAMES = ["north", "south"]


def tiny_scale():
    model = base_model.BaseModel(
        vocabulary=300, hidden=16, layers=1, heads=2, context=24, sequences=32, epochs=1, batch=16, rate=1e-2
    )
    sizes = {"projects": 2, "pieces": 3, "sequences": 1, "large": 2, "tests": 2, "budget": 22, "round_size": 8}
    return experiment.Scale(**sizes, model=model, epochs=1, learning_rate=1e-2, stderr=1e-9)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run the experiment with two made-up projects and a small standard library."""
    texts = {
        "north": [f"def north_{k}(x):\n    return [x + j for j in range({k})]\n" * 8 for k in range(9)],
        "south": [f"class South{k}:\n    '''The south, number {k}.'''\n    value = {k * 7}\n" * 8 for k in range(9)],
    }
    projects = [sources.Project(name, "1.0", "MIT", tuple(texts[name])) for name in NAMES]
    library = [f"import sys\n\ndef main_{k}(argv):\n    print(argv[{k}], file=sys.stderr)\n" * 6 for k in range(12)]
    out = tmp_path_factory.mktemp("code")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fgsv.experiments.code.experiment.installed_projects", lambda count: projects)
        patch.setattr("fgsv.experiments.code.experiment.standard_library", lambda: library)
        yield out, experiment.run(out, scale=tiny_scale(), device="cpu", quiet=True)


def test_the_experiment_writes_everything(finished):
    out, tables = finished
    names = {path.name for path in out.iterdir()}
    assert names >= {"shares.json", "shares.csv", "code.png", "valuation.json", "ledger.db", "model"}
    shares = json.loads((out / "shares.json").read_text())
    assert [each["licence"] for each in shares["sources"]] == ["MIT", "MIT"]
    assert list(shares["fsrs_split"]["north"]) == ["northlarge", "northsmall", "south"]
    assert shares["split_minus_whole"] < 1e-9 * max(map(abs, shares["gain"].values()))
    assert any("1 epochs (steps grow with the tokens)" in line for line in shares["game"])
    for q, project in enumerate(NAMES):
        assert shares["gain"][project] > 0
        for table in tables.values():
            assert table.shares[q].sum() == pytest.approx(1)
        split, whole = tables["fsrs_split"].shares[q], tables["fsrs_whole"].shares[q]
        np.testing.assert_allclose([split[0] + split[1], split[2]], whole, rtol=1e-9)


def test_a_second_run_finds_everything_again(finished, monkeypatch):
    from fgsv.utilities.language.network import FineTuned

    out, tables = finished

    def no(*_):
        raise AssertionError("trained again")

    monkeypatch.setattr(FineTuned, "__call__", no)
    monkeypatch.setattr("fgsv.experiments.code.experiment.train_model", no)
    again = experiment.run(out, scale=tiny_scale(), device="cpu", quiet=True)
    for name, table in tables.items():
        np.testing.assert_array_equal(again[name].shares, table.shares)


def test_what_is_missing_is_reported_before_training(tmp_path, monkeypatch):
    import torch

    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="finds no CUDA GPU, and at full size"):
            experiment.run(tmp_path)
    one = [sources.Project("north", "1.0", "MIT", ("x = 1",))]
    monkeypatch.setattr("fgsv.experiments.code.experiment.installed_projects", lambda count: one)
    with pytest.raises(ValueError, match="1 projects with enough Python files are installed here"):
        experiment.run(tmp_path, small=True)


def test_sources_are_read_with_their_licences():
    numpy, rich = (sources._project(name) for name in ("numpy", "rich"))
    assert "BSD" in numpy.licence
    assert rich.licence == "MIT License" or "MIT" in rich.licence
    assert len(numpy.texts) > 50
    assert not any("def test_" in text and "assert_equal" in text for text in rich.texts)
    assert sources._project("not-there") is None
    library = sources.standard_library()
    assert len(library) > 200
    assert any("class JSONDecoder" in text for text in library)


def test_the_command_passes_its_options_on(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from fgsv.cli import app

    given = {}

    def run(out, **options):
        given.update(options)
        (out / "shares.json").write_text('{"gain": {"north": 1.0}}')

    monkeypatch.setattr("fgsv.experiments.code.experiment.run", run)
    arguments = ["example", "code", "--out", str(tmp_path / "new"), "--small", "--seed", "3", "--json"]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert json.loads(done.stdout)["gain"] == {"north": 1.0}
    assert (given["small"], given["seed"], given["device"]) == (True, 3, "auto")
