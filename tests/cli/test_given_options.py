"""Options that were given are told from defaults, whatever version of click says so."""

from enum import Enum, IntEnum
from types import SimpleNamespace

import pytest

from fgsv.cli.options import was_given


@pytest.mark.parametrize("kind", [Enum, IntEnum])  # str() of the latter is a number
def test_an_option_at_its_default_was_not_given(kind):
    sources = kind("ParameterSource", ["COMMANDLINE", "DEFAULT"])
    context = SimpleNamespace(get_parameter_source=lambda name: sources[name])
    assert was_given(context, "COMMANDLINE")
    assert not was_given(context, "DEFAULT")
