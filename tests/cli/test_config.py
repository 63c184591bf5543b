"""Options in a file: --config takes what --save-config writes, the command line comes first, mistakes are named."""

import tomllib

import pytest
from cli_cases import COLUMNS

from fgsv.results import Seal

RUN = ["--budget", 100, "--metric", "accuracy,neg_log_loss", "--max-time", "1.5h", "--no-without", "--empty", "0,-1"]


@pytest.fixture
def document(fgsv_command, train):
    """Return what a command prints about the table, without the command itself and the date."""

    def run(*options):
        found = fgsv_command.json("value", train, *options)
        return {name: part for name, part in found.items() if name not in ("command", "made", "seconds")}

    return run


def test_a_saved_file_repeats_the_run(fgsv_command, train, document, tmp_path):
    path = tmp_path / "run.toml"
    by_hand = document(*COLUMNS, *RUN, "--save-config", path)
    given = tomllib.loads(path.read_text(encoding="utf-8"))
    assert given == {
        "target": "y",
        "group": ["provider"],
        "ignore": ["site"],
        "metric": ["accuracy,neg_log_loss"],
        "empty": ["0,-1"],
        "budget": 100,
        "max-time": "1.5h",
        "no-without": True,
    }
    repeated = document("--config", path)
    assert repeated["groupings"] == by_hand["groupings"]
    assert repeated["without"] is by_hand["without"] is None
    assert repeated == by_hand


def test_every_option_is_in_the_file_with_its_words(fgsv_command, train, tmp_path):
    path = tmp_path / "run.toml"
    assert fgsv_command("value", train, *COLUMNS, "--budget", 100, "--save-config", path)[0] == 0
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith(f"# fgsv value {train} --group provider")
    place = lines.index("budget = 100")
    assert lines[place - 2].startswith("# Evaluations in total")
    for words in ("# precision = FRACTION", "# confidence = 0.95", "# clip = false", '# parts = ["2,3,5"]'):
        assert words in lines
    assert not any("force" in line.partition("=")[0] for line in lines)
    again = fgsv_command("value", train, "--config", path, "--save-config", path)
    assert (again[0], "already exists: remove it" in again[2]) == (2, True)


def test_any_text_is_kept(fgsv_command, train, tmp_path):
    path, name = tmp_path / "run.toml", 'a\n"b" = \\ \x7f\t\u2028 # ü'
    options = [*COLUMNS, "--budget", 100, "--no-without", "--group-missing", name]
    assert fgsv_command("value", train, *options, "--save-config", path)[0] == 0
    assert tomllib.loads(path.read_text(encoding="utf-8"))["group-missing"] == name


def test_the_command_line_comes_first(document, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('target = "y"\ngroup = "provider"\nignore = "site"\nbudget = 60\nseed = 3\n')
    alone = document("--config", path)
    assert document(*COLUMNS, "--budget", 60, "--seed", 3) == alone
    assert document("--config", path, "--seed", 0) == document(*COLUMNS, "--budget", 60) != alone


def test_a_plan_and_a_seal_take_the_file_of_a_run(fgsv_command, train, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('target = "y"\ngroup = ["provider"]\nignore = ["site"]\npayout = 100000\nclip = true\n')
    fgsv_command.done("plan", train, "--config", path, "--pilot", 100)
    fgsv_command.done("seal", "make", train, "--config", path, "--out", tmp_path / "s.json", "--json")
    assert Seal.load(tmp_path / "s.json").contents["policy"]["clip"] is True


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("bugdet = 5", "has 'bugdet', which is no option for a file; did you mean 'budget'?"),
        ("force = true", "has 'force', which is no option for a file"),
        ("max_time = 5", "did you mean 'max-time'?"),
        ("[data]", "has 'data', which is no option for a file"),
        ("budget = true", "budget must be a text or a number, got True"),
        ("clip = 1", "clip must be true or false, got 1"),
        ("group = [[1]]", "group must be a text or a number, got [[1]]"),
        ("budget = 0.5", "--budget"),
        ('max-time = "soon"', "must be like 90s, 10m or 2h, got 'soon'"),
        ("pay-anyway = true", "--pay-anyway can only be used with --payout"),
        ("budget =", "is not TOML"),
        (None, "cannot read"),
    ],
)
def test_a_mistake_in_the_file_is_one_line(fgsv_command, tmp_path, line, words):
    path = tmp_path / "run.toml"
    if line is not None:
        path.write_text(line)
    code, text, notes = fgsv_command("value", "no-such-file.csv", *COLUMNS, "--config", path)
    assert (code, text, len(notes.splitlines())) == (2, "", 1), notes
    assert words in notes
