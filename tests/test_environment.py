"""What surrounds a run: moved modules, objects by name, files written whole."""

import importlib
import sys

import pytest

import fgsv
from fgsv.environment import MOVED, load_object, versions, write_whole


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("fgsv.comparison", "compare"),
        ("fgsv.copies", "find_copies"),
        ("fgsv.shells", "shell_companies"),
        ("fgsv.tabular", "open_file"),
    ],
)
def test_the_documented_modules_of_0_1_0_are_found_where_they_are_now(module, name):
    sys.modules.pop(module, None)
    with pytest.warns(DeprecationWarning, match=f"{module} has moved to {MOVED[module]}"):
        old = importlib.import_module(module)
    assert getattr(old, name) is getattr(importlib.import_module(MOVED[module]), name)


def test_other_names_are_not_found():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("fgsv.nothing")


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


def test_a_file_is_whole_or_not_there(tmp_path):
    path = write_whole(tmp_path / "a.txt", "one\n")
    assert path.read_bytes() == b"one\n"
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_whole(tmp_path / "folder", "two\n")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.txt", "folder"]
