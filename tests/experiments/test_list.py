"""`python -m experiments`: every experiment is listed."""

import pytest

from experiments import __main__ as experiments


def test_all_are_listed_and_another_name_is_an_error(capsys):
    for name, code in (("--help", 0), ("figure6", 1)):
        with pytest.raises(SystemExit) as end:
            experiments.main(name)
        shown = capsys.readouterr().out
        assert end.value.code == code
        assert all(each in shown for each in experiments.EXPERIMENTS)
