"""What a run passes through: `python tests/tracing.py` prints files and functions, and the path of `fgsv value`."""

import io
import os
import sys
import tempfile
from contextlib import chdir, redirect_stdout, suppress
from pathlib import Path

import numpy as np
import pandas as pd

import fgsv
from fgsv.cli import main

SOURCE = str(Path(fgsv.__file__).parent) + os.sep
PIPELINE = SOURCE + os.path.join("pipeline", "pipeline.py")
COMMAND = "value train.csv --target y --group provider --budget 400 --out result --force --json"
EVERYTHING = f"{COMMAND} --payout 1000 --pay-anyway --audit --ledger run.db"


def file_of(code):
    return Path(code.co_filename.removeprefix(SOURCE)).as_posix()


def is_attribute(code, of):
    """Say whether a function is an attribute of the object that it is called of."""
    return isinstance(getattr(type(of), code.co_name, None), property)


def traced(call):
    """Return the functions of fgsv that a call passes through, and the steps that pipeline.py takes, in order.

    A step is a call of another file, `room.function`; attributes of objects are no steps.
    """
    passed, steps = set(), []

    def look(frame, event, _):
        code, caller = frame.f_code, frame.f_back and frame.f_back.f_code
        if event != "call" or not code.co_filename.startswith(SOURCE) or code.co_name.startswith("<"):
            return
        passed.add(code)
        of_pipeline = caller is not None and caller.co_filename == PIPELINE != code.co_filename
        if of_pipeline and not is_attribute(code, frame.f_locals.get("self")):
            steps.append((file_of(code).split("/")[0].removesuffix(".py"), code.co_qualname))

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return passed, steps


def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "c"])
    frame["y"] = (frame["a"] + 0.3 * rng.normal(size=200) > 0).astype(int)
    return frame.assign(provider=rng.choice(["north", "south", "east"], 200))


def command(words):
    """Return a call of a command, in a folder with a table."""

    def call():
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            table().to_csv("train.csv", index=False)
            with suppress(SystemExit):
                main(words.split())
            assert Path("result", "report.html").exists(), words

    return call


def value(**options):
    return lambda: fgsv.value(fgsv.games.SumOfUnanimity(16), np.arange(16) % 4, budget=200, **options)


RUNS = {
    'fgsv.value(game, groups, budget=200, method="permutation")': value(method="permutation"),
    "fgsv.value(game, groups, budget=200)": value(),
    "fgsv value": command(COMMAND),
    "fgsv value --payout --audit --ledger": command(EVERYTHING),
}


def counts(name):
    """Return how many files and functions of fgsv a run passes through, once all is imported and known."""
    RUNS[name]()
    passed, steps = traced(RUNS[name])
    return len({each.co_filename for each in passed}), len(passed), steps


if __name__ == "__main__":
    for name in RUNS:
        with redirect_stdout(io.StringIO()):
            files, functions, steps = counts(name)
        print(f"{files} files and {functions} functions: {name}")
    for room, step in steps:
        print(f"  {room}: {step}")
