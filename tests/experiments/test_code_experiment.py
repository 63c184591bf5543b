"""The code experiment at a tiny size: what it writes, finds again, and reports."""

import numpy as np
import pytest
from heavy import Lazy, needs

from experiments import sources

pytestmark = [pytest.mark.torch, needs("torch", "transformers", "matplotlib")]
code = Lazy("experiments.code")
base_model = Lazy("experiments.language_model")

NAMES = ["north", "south"]


def tiny_scale():
    model = base_model.BaseModel(
        vocabulary=300, hidden=16, layers=1, heads=2, context=24, sequences=32, epochs=1, batch=16, rate=1e-2
    )
    sizes = {"projects": 2, "pieces": 3, "sequences": 1, "large": 2, "tests": 2, "budget": 22}
    return code.Scale(**sizes, model=model, epochs=1, learning_rate=1e-2, stderr=1e-9)


@pytest.fixture(scope="module")
def finished(experiment, tmp_path_factory):
    """Run the experiment with two made-up projects and a small standard library."""
    texts = {
        "north": [f"def north_{k}(x):\n    return [x + j for j in range({k})]\n" * 8 for k in range(9)],
        "south": [f"class South{k}:\n    '''The south, number {k}.'''\n    value = {k * 7}\n" * 8 for k in range(9)],
    }
    projects = [sources.Project(name, "1.0", "MIT", tuple(texts[name])) for name in NAMES]
    library = [f"import sys\n\ndef main_{k}(argv):\n    print(argv[{k}], file=sys.stderr)\n" * 6 for k in range(12)]
    out = tmp_path_factory.mktemp("code")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.code.installed_projects", lambda count: projects)
        patch.setattr("experiments.code.standard_library", lambda: library)
        patch.setattr("experiments.code.SMALL", tiny_scale())
        yield out, *experiment("code", out, "--small", "--device", "cpu")


def test_the_experiment_writes_everything(finished):
    out, table, record = finished
    names = {path.name for path in out.iterdir()}
    assert names >= {"code.json", "code.csv", "code.png", "valuation.json", "ledger.db", "model"}
    assert [each["licence"] for each in record["sources"]] == ["MIT", "MIT"]
    assert list(dict.fromkeys(table[table.scenario == "split"].player)) == ["northlarge", "northsmall", "south"]
    assert record["split minus whole"] < 1e-9 * max(map(abs, record["gain"].values()))
    assert any("1 epochs (steps grow with the tokens)" in line for line in record["game"])
    assert min(record["gain"].values()) > 0
    np.testing.assert_allclose(table.groupby(["rule", "scenario", "prompt"])["share"].sum(), 1)


def test_a_second_run_finds_everything_again(finished, experiment, monkeypatch):
    from fgsv.utilities.language.fine_tuning import FineTuned

    out, table, _ = finished

    def no(*_):
        raise AssertionError("trained again")

    monkeypatch.setattr(FineTuned, "__call__", no)
    monkeypatch.setattr("experiments.code.train_model", no)
    again, _ = experiment("code", out, "--small", "--device", "cpu")
    np.testing.assert_array_equal(again.share, table.share)


def test_too_few_projects_are_reported_before_training(tmp_path, monkeypatch):
    one = [sources.Project("north", "1.0", "MIT", ("x = 1",))]
    monkeypatch.setattr("experiments.code.installed_projects", lambda count: one)
    with pytest.raises(ValueError, match="1 projects with enough Python files are installed here"):
        code.run(tmp_path, small=True)


def test_sources_are_read_with_their_licences():
    numpy, rich = (sources._project(name) for name in ("numpy", "rich"))
    assert "BSD" in numpy.licence
    assert rich.licence == "MIT License" or "MIT" in rich.licence
    assert len(numpy.texts) > 50
    assert sources._project("not-there") is None
    assert any("class JSONDecoder" in text for text in sources.standard_library())
