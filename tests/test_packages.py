"""Versions, and objects that users name."""

import sys

import pytest

import fgsv
from fgsv.packages import load_object, versions


def test_the_version_stands_once():
    assert versions()["fgsv"] == fgsv.__version__


@pytest.mark.parametrize("name", ["math", "math:", ":pi", "no_such_module_here:x", "math:nothing", "nowhere.py:x"])
def test_an_object_that_cannot_be_loaded_is_named(name):
    with pytest.raises(ValueError, match=r"expected package|cannot be imported|has no|there is no file"):
        load_object(name)


def test_a_module_in_the_current_folder_does_not_take_the_place_of_an_installed_one(tmp_path, monkeypatch):
    (tmp_path / "colorsys.py").write_text("rgb_to_hsv = 'mine'\n")
    (tmp_path / "only_here.py").write_text("thing = 'mine'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    assert load_object("colorsys:rgb_to_hsv") != "mine"
    assert load_object("only_here:thing") == "mine"
    assert load_object(f"{tmp_path / 'only_here.py'}:thing") == "mine"
