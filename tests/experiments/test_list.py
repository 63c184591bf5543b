"""`python -m experiments`: every experiment is listed, and has a docstring for its help."""

import pytest

from experiments import __main__ as experiments


def test_all_are_listed_and_another_name_is_an_error(capsys):
    for name, code in (("--help", 0), ("figure6", 1)):
        with pytest.raises(SystemExit) as end:
            experiments.main(name)
        shown = capsys.readouterr().out
        assert end.value.code == code
        assert all(each in shown for each in experiments.EXPERIMENTS)


@pytest.mark.parametrize(
    "name", ["motivation", "sou", "diabetes", "published", "federated"]
)  # the others import torch
def test_each_shows_its_options(name, capsys):
    with pytest.raises(SystemExit) as end:
        experiments.main(name, "--help")
    shown = capsys.readouterr().out
    assert end.value.code == 0
    assert f"python -m experiments {name}" in shown
    assert "--out" in shown
