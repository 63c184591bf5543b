"""What a release promises, as far as no build is needed: `make check-release` does the rest."""

import pickle
import tomllib
from pathlib import Path

import pytest

import fgsv
from tools import check_release, other_peoples_data, smoke

ROOT = Path(__file__).parents[1]


def test_every_public_name_is_there_and_listed_once():
    stub = (ROOT / "src" / "fgsv" / "__init__.pyi").read_text()
    assert sorted(line.split()[-1] for line in stub.splitlines() if line.startswith("from ")) == sorted(fgsv.__all__)
    imported = {}
    exec("from fgsv import *", imported)
    assert set(fgsv.__all__) <= set(imported)
    assert all(hasattr(fgsv, name) for name in fgsv.__all__)


def test_public_classes_can_be_pickled():
    for name in ("Game", "Partition", "Valuation"):
        assert pickle.loads(pickle.dumps(getattr(fgsv, name))) is getattr(fgsv, name)


def test_the_version_stands_in_the_package_alone():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in project
    assert not [line for line in (ROOT / "CITATION.cff").read_text().splitlines() if line.startswith("version")]


def test_every_dependency_has_a_lowest_version():
    lowest = check_release.lowest_dependencies()
    assert len(lowest) >= len(check_release.PROJECT["dependencies"])
    assert all("==" in line for line in lowest)


@pytest.mark.parametrize("part", smoke.PARTS, ids=lambda part: part.__name__)
def test_smoke(part, tmp_path, monkeypatch, fgsv_command):
    monkeypatch.setattr(smoke, "command_line", lambda *words: fgsv_command(*words)[0] == 0 or pytest.fail(words[0]))
    part(tmp_path)


def test_a_table_that_is_not_there_is_named():
    """Not examined, it would have had no failures."""
    with pytest.raises(SystemExit, match="there is no table 'titanik': choose from titanic"):
        other_peoples_data.main(["titanik"])
