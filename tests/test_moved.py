"""Modules of 0.1.0 are found where they were, with a warning that names the caller's line."""

import importlib
import runpy
import sys

import pytest

MODULES = [
    ("fgsv.comparison", "fgsv.valuation.comparison", "compare"),
    ("fgsv.copies", "fgsv.audit.copies", "find_copies"),
    ("fgsv.shells", "fgsv.audit.shells", "shell_companies"),
    ("fgsv.tabular", "fgsv.data.opening", "open_file"),
]


@pytest.mark.parametrize(("module", "place", "name"), MODULES)
def test_the_documented_modules_of_0_1_0_are_found_where_they_are_now(module, place, name, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, module, raising=False)
    script = tmp_path / "script.py"
    script.write_text(f"from {module} import {name}\n")
    with pytest.warns(DeprecationWarning, match=f"^{module} has moved to {place}$") as warned:
        found = runpy.run_path(str(script))[name]
    assert [each.filename for each in warned] == [str(script)]
    assert found is getattr(importlib.import_module(place), name)


def test_other_names_are_not_found():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("fgsv.nothing")
