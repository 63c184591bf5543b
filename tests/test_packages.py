"""Versions, and objects that users name."""

import pytest

import fgsv
from fgsv.packages import load_object, versions


def test_the_version_stands_once():
    assert versions()["fgsv"] == fgsv.__version__


@pytest.mark.parametrize("name", ["math", "math:", ":pi", "no_such_module_here:x", "math:nothing", "nowhere.py:x"])
def test_an_object_that_cannot_be_loaded_is_named(name):
    with pytest.raises(ValueError, match=r"expected package|cannot be imported|has no|there is no file"):
        load_object(name)
