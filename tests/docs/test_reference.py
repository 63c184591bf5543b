"""The generated references in docs/cli.md and docs/api.md are up to date, and readable in a clone."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "write"), [("cli.md", "with_commands"), ("api.md", "with_names")])
def test_python_docs_hooks_would_change_nothing(hooks, name, write):
    page = (DOCS / name).read_text(encoding="utf-8")
    assert getattr(hooks, write)(page) == page, "run python docs/hooks.py"


def test_the_pages_have_commands_names_and_sentences():
    assert "| `--split-seed NUMBER` |" in (DOCS / "cli.md").read_text(encoding="utf-8")
    assert "**`fgsv.compare(first, second" in (DOCS / "api.md").read_text(encoding="utf-8")


def test_the_site_has_the_full_reference_instead(hooks):
    page = hooks.on_page_markdown((DOCS / "api.md").read_text(encoding="utf-8"))
    assert "\n::: fgsv.value\n" in page
    assert "**`fgsv.value" not in page
