"""Names of the hub: models are found in its cache, and one that is nowhere is refused at once."""

import json
import shutil
import time

import pandas as pd
import pytest
import tiny_language as tiny
from heavy import Lazy, needs

import fgsv

pytestmark = [pytest.mark.torch, needs("torch", "transformers", "huggingface_hub")]
torch, hub, language = Lazy("torch"), Lazy("huggingface_hub"), Lazy("fgsv.utilities.language")


NAME, HASH = "somebody/tiny", "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def folder(tmp_path):
    """Save a model and its tokenizer in a folder."""
    tiny.llama().save_pretrained(tmp_path / "folder")
    tiny.tokenizer().save_pretrained(tmp_path / "folder")
    return tmp_path / "folder"


@pytest.fixture
def cached(folder, tmp_path, monkeypatch):
    """Put a snapshot of the same model into a cache of the hub, which cannot be reached."""
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    repository = tmp_path / "hub" / f"models--{NAME.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(HASH)
    return shutil.copytree(folder, repository / "snapshots" / HASH)


def test_a_name_in_the_cache_is_the_model_of_the_folder(folder, cached):
    given = {"documents": tiny.TEXTS[:2], "tests": tiny.TESTS, "steps": 1}
    named, local = (language.fine_tuned(model=model, **given) for model in (NAME, folder))
    assert named.fingerprint == local.fingerprint
    masks = [[True, False], [True, True]]
    assert named(masks).tolist() == local(masks).tolist()
    other = tiny.llama()
    with torch.no_grad():
        other.lm_head.weight += 1
    other.save_pretrained(cached)
    changed = language.fine_tuned(model=NAME, **given)
    assert changed.fingerprint != local.fingerprint  # it is about the weights, not the name


def test_commands_take_names(cached, fgsv_command, tmp_path):
    rows = pd.DataFrame({"body": ["the dog", "the fox", "it was", "not to be"], "by": ["a", "a", "b", "b"]})
    rows.to_csv(tmp_path / "texts.csv", index=False)
    rows[1:3].to_csv(tmp_path / "test.csv", index=False)
    columns = {"text": "body", "group": "by", "test": tmp_path / "test.csv"}
    opened = fgsv.open_text(tmp_path / "texts.csv", **columns, model=NAME, training={"steps": 1})
    assert opened.source.model.startswith(f"{NAME}, fine-tuned")
    options = [word for name, given in columns.items() for word in (f"--{name}", given)]
    code, printed, errors = fgsv_command(
        "value", tmp_path / "texts.csv", *options, "--model", NAME, "--training", "steps=1", "--budget", 16, "--json"
    )
    assert code == 0, errors
    rows = json.loads(printed)["groupings"]["by"]
    assert sum(row["value"] for row in rows) == pytest.approx(opened.game([[1] * 4])[0] - opened.game([[0] * 4])[0])


@pytest.mark.parametrize("name", ["nobody/nothing", "nowhere", "/no/such/folder", "no name"])
def test_a_model_that_is_nowhere_is_refused_at_once(name, cached, fgsv_command, tmp_path):
    pd.DataFrame({"body": ["the dog", "the fox"], "by": ["a", "b"]}).to_csv(tmp_path / "texts.csv", index=False)
    began = time.monotonic()
    code, _, errors = fgsv_command(
        "value", tmp_path / "texts.csv", "--text", "body", "--group", "by", "--test", tmp_path / "texts.csv",
        "--model", name, "--ledger", tmp_path / "run.db",
    )  # fmt: skip
    assert time.monotonic() - began < 5
    assert code == 2
    assert all(words in errors for words in ("cannot load", name, "hf download"))
    assert "Traceback" not in errors
    assert not (tmp_path / "run.db").exists()


def test_half_of_a_model_in_the_cache_is_refused(cached):
    (cached / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="offline mode"):
        language.fine_tuned(tiny.TEXTS[:2], tiny.TESTS, model=NAME)
