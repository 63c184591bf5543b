"""Texts become the same game from a file, a folder, a data frame or a dataset, and bad input is named."""

import gzip
import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import sem

import fgsv
from fgsv.data.documents import Documents
from fgsv.data.folders import read_folder
from fgsv.data.folds import folds_of
from fgsv.data.players import Players
from fgsv.data.reading import TableError, listed_names
from fgsv.payout import Doubt, Terms
from fgsv.pipeline import value_data
from fgsv.results import Decision
from fgsv.utilities import language
from fgsv.valuation import t_quantile

pytestmark = pytest.mark.torch

WORDS = "the cat sat on a mat while rain fell over dark hills and one dog slept near old stones"


def corpus(n=24, seed=0):
    """Return documents of three publishers, some marked for testing, in two domains."""
    rng = np.random.default_rng(seed)
    words = rng.choice(WORDS.split(), size=(n, 12))
    return pd.DataFrame(
        {
            "body": [f"{' '.join(row)}." for row in words],
            "publisher": np.array(["North", "South", "East"])[np.arange(n) % 3],
            "author": np.array(["a", "b", "c", "d", "e", "f"])[np.arange(n) % 6],
            "split": np.where(np.arange(n) % 4 == 0, "test", "train"),
            "domain": np.where(np.arange(n) // 4 % 2 == 0, "news", "law"),
        }
    )


COLUMNS = {"text": "body", "group": "publisher", "test_by": "split"}


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "frame", "dataset"])
def test_every_form_of_the_same_documents_is_the_same_game(tmp_path, kind):
    frame = corpus()
    path = tmp_path / f"corpus.{kind}"
    given = path
    if kind == "jsonl":
        path.write_text("\n".join(json.dumps(row) for row in frame.to_dict("records")))
    elif kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    elif kind == "dataset":
        given = pytest.importorskip("datasets").Dataset.from_pandas(frame)
    else:
        given = frame
    opened = fgsv.open_text(given, **COLUMNS, monte_carlo_only=True)
    train = frame[frame["split"] == "train"]
    expected = language.ngram(train["body"].tolist(), {"all": frame.loc[frame["split"] == "test", "body"].tolist()})
    assert opened.game.fingerprint == expected.fingerprint
    assert opened.partition.names == ("North", "South", "East")
    assert [opened.partition.names[code] for code in opened.partition.codes] == train["publisher"].tolist()
    assert opened.source.task == "text"


def test_a_folder_has_a_folder_for_each_provider(tmp_path):
    frame = corpus()
    for number, row in enumerate(frame.to_dict("records")):
        folder = tmp_path / "texts" / row["publisher"] / row["split"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:02}.txt").write_text(row["body"])
    (tmp_path / "texts" / "README").write_text("about")
    (tmp_path / "texts" / "East" / ".hidden").write_bytes(b"\xff")
    (tmp_path / "texts" / "East" / "logo.png").write_bytes(b"\x89PNG\xff")
    with pytest.raises(TableError, match=r"it out with ignore=\"East/logo.png\", or all .*ignore=\"\*.png\""):
        fgsv.open_text(tmp_path / "texts")
    opened = fgsv.open_text(tmp_path / "texts", ignore="*.png", test=frame.rename(columns={"body": "text"})[:3])
    assert opened.partition.names == ("East", "North", "South")
    assert opened.game.n_players == len(frame)
    assert opened.rows.names[0] == "East/test/08.txt"
    again = fgsv.open_text(tmp_path / "texts", ignore="*.png", test_fraction=0.3)
    assert again.source.sha256 == opened.source.sha256
    (tmp_path / "texts" / "West").mkdir()
    with pytest.raises(TableError, match="provider 'West' has no documents"):
        fgsv.open_text(tmp_path / "texts", ignore="*.png")


def folder_of(path, providers=("East", "North", "South")):
    rng = np.random.default_rng(0)
    for provider in providers:
        (path / provider).mkdir(parents=True)
        for number in range(4):
            (path / provider / f"{number}.txt").write_text(" ".join(rng.choice(["wheat", "barley", "rye"], 20)))
    return path


@pytest.mark.parametrize("name", ["1.txt", "a [1].txt", 'x, "y".txt', "it's.txt"])
def test_the_advice_of_an_error_leaves_out_one_document_of_one_provider(tmp_path, name):
    texts = folder_of(tmp_path / "texts")
    whole = read_folder(texts).frame
    (texts / "East" / name).write_bytes(b"caf\xe9")
    with pytest.raises(TableError) as raised:
        fgsv.open_text(texts)
    advice = json.loads(re.search(r'leave it out with ignore=(".*"), or all', str(raised.value))[1])
    opened = fgsv.open_text(texts, ignore=advice)
    kept = read_folder(texts, ignore=listed_names(advice)).frame
    expected = whole[(whole["provider"] != "East") | (whole["file"] != name)]
    assert kept.to_numpy().tolist() == expected.to_numpy().tolist()
    assert f"left out 1 file of texts matching East/{name}" in opened.notes


def test_files_in_several_encodings_are_counted_and_never_garbled_in_silence(tmp_path):
    texts = folder_of(tmp_path / "texts")
    (texts / "East" / "4.txt").write_bytes("café rye".encode())
    for name in ("5.txt", "6.txt", "7.txt"):
        (texts / "East" / name).write_bytes("café wheat".encode("latin-1"))
    with pytest.raises(
        TableError, match=r"5\.txt is not utf-8 .* save this one as utf-8\. 2 more files cannot be read, either$"
    ):
        read_folder(texts)
    (note,) = read_folder(texts, encoding="latin-1").notes
    assert note.startswith("read as latin-1, but also valid utf-8: 1 file of texts, such as East/4.txt.")
    (texts / "East" / "8.txt").write_bytes(gzip.compress("café oats".encode()))
    assert "2 files of texts, such as East/4.txt" in read_folder(texts, encoding="latin-1").notes[0]
    (texts / "East" / "8.txt").write_bytes("café oats".encode("utf-8-sig"))
    for encoding in ("utf-8", "utf8", "UTF_8"):
        kept = read_folder(texts, ignore=["5.txt", "6.txt", "7.txt"], encoding=encoding)
        assert (kept.notes[3:], kept.frame["text"][5]) == ((), "café oats")
    assert kept.frame["text"][4] == "café rye"
    with pytest.raises(TableError, match=r"^unknown encoding 'latin-99': try utf-8 or latin-1$"):
        read_folder(texts, encoding="latin-99")


def test_what_a_folder_leaves_out_is_said(tmp_path):
    texts = folder_of(tmp_path / "texts", [".NET Foundation", "East", "North"])
    (texts / "East" / "link.txt").symlink_to(texts / "North" / "0.txt")
    (texts / "East" / "more").symlink_to(texts / "North", target_is_directory=True)
    (texts / "North" / ".git").mkdir()
    (texts / "North" / ".git" / "config").write_text("wheat")
    read = read_folder(texts, ignore=["3.*", "*.png"])
    assert read.frame["provider"].tolist() == ["East"] * 3 + ["North"] * 3
    assert read.notes == (
        "left out 4 hidden files, hidden folders or links of texts, such as .NET Foundation",
        "left out 2 files of texts matching 3.*",
        "left out 0 files of texts matching *.png",
    )


def test_one_entry_is_not_many_and_a_link_to_a_provider_is_followed_and_said(tmp_path):
    texts, elsewhere = folder_of(tmp_path / "texts", ["East"]), folder_of(tmp_path / "elsewhere", ["North"])
    (texts / "North").symlink_to(elsewhere / "North", target_is_directory=True)
    (texts / "East" / "link.txt").symlink_to(elsewhere / "North" / "0.txt")
    (texts / "readme.txt").write_text("wheat")
    read = read_folder(texts)
    assert set(read.frame["provider"]) == {"East", "North"}
    assert read.notes == (
        "left out 1 file of texts in no provider's folder",
        "left out 1 hidden file, hidden folder or link of texts, such as East/link.txt",
        "followed 1 link of texts to the folder of a provider: North",
    )


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path, monkeypatch):
    texts = folder_of(tmp_path / "texts")
    listed = os.scandir

    def scandir(path):
        if Path(path).name == "North":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(TableError, match=r"cannot read the folder .*North: Permission denied"):
        read_folder(texts)


@pytest.mark.parametrize("cell", [["rain", "fell"], [{"role": "user", "content": "rain"}], {"content": "rain"}])
@pytest.mark.parametrize("kind", ["jsonl", "frame"])
def test_a_text_that_is_a_list_is_refused(tmp_path, cell, kind):
    rows = [*corpus().to_dict("records"), {"body": cell, "publisher": "East", "author": "a", "split": "train"}]
    given = pd.DataFrame(rows)
    if kind == "jsonl":
        given = tmp_path / "corpus.jsonl"
        given.write_text("\n".join(json.dumps(row) for row in rows))
    with pytest.raises(TableError, match=f"column 'body' has a {type(cell).__name__} in row 25: expected text"):
        fgsv.open_text(given, **COLUMNS)


def test_units_join_documents_and_domains_are_outputs():
    frame = corpus()
    opened = fgsv.open_text(frame, **COLUMNS, unit="author", output_by="domain")
    train, test = (frame[frame["split"] == which] for which in ("train", "test"))
    players = [train.loc[train["author"] == author, "body"].tolist() for author in train["author"].unique()]
    tests = {domain: test.loc[test["domain"] == domain, "body"].tolist() for domain in test["domain"].unique()}
    assert opened.game.fingerprint == language.ngram(players, tests).fingerprint
    assert opened.game.outputs == ("news", "law")
    assert opened.partition.n_players == 6


def test_only_test_documents_need_a_domain():
    frame = corpus()
    expected = fgsv.open_text(frame, **COLUMNS, output_by="domain").game.fingerprint
    frame.loc[frame["split"] == "train", "domain"] = None
    assert fgsv.open_text(frame, **COLUMNS, output_by="domain").game.fingerprint == expected
    frame.loc[0, "domain"] = None
    with pytest.raises(TableError, match=r"column 'domain' \(the domain\) .* missing values in 1 of 6 rows"):
        fgsv.open_text(frame, **COLUMNS, output_by="domain")


def test_prompts_precede_test_texts():
    frame = corpus().assign(question="who slept?")
    opened = fgsv.open_text(frame, **COLUMNS, prompt="question")
    test = frame.loc[frame["split"] == "test", "body"]
    assert opened.rows.tests == {"all": [("who slept?", text) for text in test]}


def test_test_documents_chosen_by_their_text_stay_whoever_comes_or_goes():
    frame = corpus(60)
    chosen = set(fgsv.open_text(frame, text="body", group="publisher").rows.test_texts)
    rest = frame[frame["publisher"] != "East"].sample(frac=1, random_state=1)
    assert set(fgsv.open_text(rest, text="body", group="publisher").rows.test_texts) == chosen & set(rest["body"])
    assert 0 < len(chosen) < 30


def test_a_mask_of_documents_makes_the_game_of_their_players():
    opened = fgsv.open_text(corpus(), **COLUMNS, unit="author", monte_carlo_only=True)
    units, texts = opened.units, opened.rows.texts
    rows = np.ones(len(texts), dtype=bool)
    rows[units == units[0]] = False
    rows[np.flatnonzero(rows)[0]] = False  # the first document of another unit, which then comes later
    kept = pd.Series(texts[rows]).groupby(pd.factorize(units[rows])[0]).apply(list).tolist()
    assert opened.game_of(rows).fingerprint == language.ngram(kept, opened.rows.tests).fingerprint


def test_a_model_is_fine_tuned_with_the_settings_given(monkeypatch):
    seen = {}

    def fine_tuned(documents, tests, *, model, rank=8, per="token", device=None):
        seen.update(documents=documents, tests=tests, model=model, rank=rank)
        return language.ngram(documents, tests)

    monkeypatch.setattr(language, "fine_tuned", fine_tuned, raising=False)
    opened = fgsv.open_text(corpus(), **COLUMNS, model="folder", training={"rank": 4}, monte_carlo_only=True)
    assert (seen["model"], seen["rank"]) == ("folder", 4)
    assert seen["tests"] == opened.rows.tests
    assert opened.source.model == "folder, fine-tuned by LoRA (rank=4, per=token)"
    assert opened.twin.fingerprint == opened.game.fingerprint
    with pytest.raises(TableError, match="unknown training setting 'ranks'"):
        fgsv.open_text(corpus(), **COLUMNS, model="folder", training={"ranks": 4})


def test_a_proxy_of_the_same_texts_leaves_nothing_to_sample():
    opened = fgsv.open_text(corpus(), **COLUMNS)
    found = fgsv.value(opened.game, opened.partition, proxy=opened.twin, budget=200)
    alone = fgsv.value(opened.game, opened.partition, budget=200)
    assert found.stderr.max() < alone.stderr.max()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"text": "bdy"}, "did you mean 'body'"),
        ({"group": "publishr"}, "did you mean 'publisher'"),
        ({"unit": "nobody"}, "no column 'nobody'"),
        ({"output_by": "domian"}, "did you mean 'domain'"),
        ({"prompt": "question"}, "no column 'question'"),
        ({"ignore": "nothing"}, "no column 'nothing'"),
        ({"group": ()}, "no provider column"),
        ({"group": "body"}, "column 'body' is both the provider and the text"),
        ({"test": corpus()}, "give the test texts with test or test_by, not both"),
        ({"text_missing": "unknown"}, "drop"),
        ({"training": {"order": 3, "steps": 5}}, "unknown training setting 'steps'"),
    ],
)
def test_bad_arguments_are_named(changed, words):
    with pytest.raises(TableError, match=words):
        fgsv.open_text(corpus(), **COLUMNS | changed)


def test_a_document_without_words_is_named_or_dropped():
    frame = corpus()
    frame.loc[[5, 6, 7], "body"] = ["", " \n\t", None]
    with pytest.raises(TableError, match=r"3 of 24 documents .* such as row 6: .*text_missing=.drop.$"):
        fgsv.open_text(frame, **COLUMNS)
    opened = fgsv.open_text(frame, **COLUMNS, text_missing="drop")
    assert opened.game.n_players == fgsv.open_text(corpus(), **COLUMNS).game.n_players - 3
    assert any("left out 3 of 24 documents" in note for note in opened.notes)
    rows = [int(name.removeprefix("row ")) - 1 for name in opened.rows.names]
    assert frame["body"][rows].tolist() == opened.rows.texts.tolist()
    frame.loc[frame["publisher"] == "East", "body"] = ""
    with pytest.raises(TableError, match="provider 'East' has no documents with text"):
        fgsv.open_text(frame, **COLUMNS, text_missing="drop")


def test_tests_that_cannot_be_used_are_named():
    frame = corpus()
    with pytest.raises(TableError, match="there are no test documents"):
        fgsv.open_text(frame.assign(split="train"), **COLUMNS)
    with pytest.raises(TableError, match="all documents are test documents"):
        fgsv.open_text(frame.assign(split="test"), **COLUMNS)
    rare = frame.assign(domain=["rare", *frame["domain"][1:]])
    with pytest.raises(TableError, match="no test documents of domain 'rare'"):
        fgsv.open_text(rare, text="body", group="publisher", output_by="domain", test_fraction=0.3)


def test_a_line_of_json_may_contain_any_character_that_ends_lines_elsewhere(tmp_path):
    frame = corpus()
    frame.loc[1, "body"] = "one\u2028two\u0085three\x0cfour"
    path = tmp_path / "odd.jsonl"
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in frame.to_dict("records")), "utf-8")
    assert fgsv.open_text(path, **COLUMNS).rows.texts[0] == frame.loc[1, "body"]


def test_a_player_is_described_by_its_name_and_first_words():
    documents = Documents(
        np.array(["one\n two " + "x" * 100, "three"], dtype=object),
        np.array(["row 1", "row 2"], dtype=object),
        {"all": ["one"]},
        players=Players(None, {"by": fgsv.Partition.of(["a", "b"])}),
        test_groups={},
    )
    name, words = documents.describe_player(0)
    assert name == "row 1"
    assert words.startswith("one two xxx")
    assert len(words) == 60
    assert documents.describe_player(1) == ("row 2", "three")


@pytest.mark.parametrize("output_by", [None, "domain"])
@pytest.mark.parametrize("per", ["token", "byte"])
def test_the_score_without_a_fold_of_the_test_texts_is_that_of_the_others(per, output_by):
    frame = corpus(96)
    frame["body"] = [f"{body} stones" * (number % 3 + 1) for number, body in enumerate(frame["body"])]
    given = {**COLUMNS, "training": {"per": per}, "output_by": output_by}
    whole, cut = (fgsv.open_text(frame, **given, monte_carlo_only=only) for only in (True, False))
    q = len(whole.rows.tests)
    masks = np.random.default_rng(0).random((50, whole.game.n_players)) < 0.5
    found = cut.game(masks).reshape(50, 11, q)
    np.testing.assert_allclose(found[:, 0], whole.game(masks).reshape(50, q), rtol=1e-12)
    for number, texts in enumerate(cut.rows.tests.values()):
        folds = folds_of([repr(text).encode() for text in texts])
        kept = {"rest": [text for text, fold in zip(texts, folds, strict=True) if fold != 3]}
        rest = language.ngram(cut.rows.by_player(), kept, per=per)(masks)
        np.testing.assert_allclose(found[:, 1 + 3, number], rest, rtol=1e-12)
    assert cut.game.outputs == whole.game.outputs
    assert cut.twin.outputs == cut.game.outputs


def test_the_noise_of_test_texts_is_that_of_a_ratio():
    frame = corpus(96)
    opened = fgsv.open_text(frame, **COLUMNS)
    tests, players = opened.rows.test_texts, opened.rows.by_player()
    scores = language.ngram(players, {str(number): [text] for number, text in enumerate(tests)})
    gains = np.subtract(*scores(np.array([[True], [False]]) & np.ones(len(players), dtype=bool)))
    spread = t_quantile(0.95, 9) * sem(gains)
    assert 0.6 < value_data(opened, budget=16).test_noise / spread < 1.6  # from ten folds


@pytest.mark.parametrize(("n_taught", "is_noise"), [(6, False), (1, True)])
def test_a_total_within_the_noise_of_the_test_texts_is_unresolvable(n_taught, is_noise, tmp_path):
    taught, known = "the cat sat on a mat", "rain fell over dark hills"
    frame = pd.DataFrame({"body": [f"{taught} {word}" for word in WORDS.split()[:8]], "by": list("abababab")})
    tests = pd.DataFrame({"body": [taught] * n_taught + [known] * (6 - n_taught)})
    opened = fgsv.open_text(frame, text="body", group="by", test=tests, training={"base": [WORDS]})
    made = value_data(opened, budget=300, payout=Terms("100.00"), ledger=tmp_path / "run.db")
    assert (made.verdict.decision is Decision.UNRESOLVABLE) == is_noise
    doubts = [] if made.unpaid is None else [objection.doubt for objection in made.unpaid.objections]
    assert (Doubt.WITHIN_NOISE in doubts) == is_noise


def test_few_texts_tell_no_noise():
    opened = fgsv.open_text(corpus(), text="body", group="publisher", test=corpus()[:4])
    assert value_data(opened, budget=16).test_noise is None
    assert "4 test texts are too few" in opened.notes[-1]
