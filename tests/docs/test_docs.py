"""Every code block of the documentation runs, every command is in it, and the site builds."""

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fgsv.cli import command_line as cli

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("README.md")])
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BUDGETS = {"value": ["--budget", "100"]}
BUDGETS["plan"] = ["--pilot", "100"]
BUDGETS["seal make"] = BUDGETS["value"]
FORCED = ("value", "report", "payout", "seal make", "seal challenge")
ELSEWHERE = ("demo", "ledger", "verify")
"""Commands that have tests of their own."""


def blocks(page):
    """Return (language, code) of the page's code blocks; one that says `# not run` says why.

    Examples from the commands' own help name files that only their reader has.
    """
    found = FENCE.findall(page.read_text(encoding="utf-8").partition("<!-- commands: ")[0])
    return [(language, code) for language, code in found if "# not run" not in code]


def shortened(arguments):
    """Return a command with a budget that suits a test: the page shows what one would type."""
    name = " ".join(arguments[: 2 if arguments[0] == "seal" else 1])
    options = {"--budget", "--audit-budget", "--precision", "--pilot"} if name in BUDGETS else set()
    kept = [a for k, a in enumerate(arguments) if a not in options and (k == 0 or arguments[k - 1] not in options)]
    # with so few evaluations nobody should pay
    paying = ["--pay-anyway"] if name == "payout" or "--payout" in arguments else []
    return [*kept, *BUDGETS.get(name, []), *paying, *(["--force"] if name in FORCED else [])]


def run_commands(code):
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if not line.startswith("$ ") or words[0] != "fgsv" or words[1] in ELSEWHERE:
            continue
        with pytest.raises(SystemExit) as end:
            cli.main(shortened(words[1:]))
        assert not end.value.code, line


def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=["a", "b", "c"])
    frame["y"] = (frame["a"] + 0.3 * rng.normal(size=120) > 0).astype(int)
    return frame.assign(provider=rng.choice(["north", "south", "east"], 120))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table().to_csv("train.csv", index=False)
    names = {"__name__": "__main__"}
    for language, code in blocks(page):
        if language == "python" and code.startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), 0)
            assert doctest.DocTestRunner(verbose=False).run(test, clear_globs=False).failed == 0
            names.update(test.globs)
        elif language == "python":
            exec(compile(code, str(page), "exec"), names)
        elif language in ("console", "bash", "sh"):
            run_commands(code)


def test_the_site_builds_strictly(tmp_path):
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-3000:]
    assert (tmp_path / "site" / "cli" / "index.html").exists()


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_lists_stay_lists_on_the_site(page):
    """Blocks of a list item need four spaces there, and a blank line after them: or the next item is plain text."""
    markdown = pytest.importorskip("markdown")
    html = markdown.markdown(page.read_text(encoding="utf-8"), extensions=["tables", "pymdownx.superfences"])
    paragraphs = re.findall(r"<p>(.*?)</p>", html, re.DOTALL)
    lost = [each for each in paragraphs if re.search(r"^(\d+\.|[-*]) ", each, re.MULTILINE)]
    assert lost == []
