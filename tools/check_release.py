"""Check a release as users meet it: `make check-release`.

1. Builds the sdist and, from it, the wheel, in an environment of its own.
2. Compares both with what is under version control; in the unpacked sdist `make` finds its files, pytest its tests.
3. Installs the wheel into clean environments: one for each supported Python, and one of the oldest with the lowest
   dependencies that pyproject.toml declares. In each: `fgsv --help`, `fgsv version`, the demo, and tools/smoke.py.

Prints what failed and a table of what passed. Exit code 0 if everything passed; then the two archives are left in
dist/. Extras with large packages (torch, diffusion, language, dask, ray) are not installed: `make test` has these.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [line.split()[-1] for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", line)]
EXTRAS = ("report", "plots", "parquet")
NOT_IN_SDIST = {".gitignore"}
TARGETS = ("demo", "test", "docs", "torture", "bench", "bench-peers", "check-release")
# nothing of the checkout, or of an environment that is active, may be found by what is checked
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


class CheckFailed(Exception):
    """What a check found; its words are shown below the table."""


def run(*command: str | Path, folder: Path) -> str:
    """Run a command in a folder and return what it printed; an exit code other than 0 fails the check."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=folder, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise CheckFailed(f"$ {shlex.join(words)}\n{done.stdout[-3_000:].rstrip()}\n(exit code {done.returncode})")
    return done.stdout


@dataclass
class Column:
    """The checks of one environment or archive, in order: name to outcome."""

    name: str
    outcomes: dict[str, str] = field(default_factory=dict)

    def check(self, name: str, function: Callable[[], object]) -> bool:
        """Note whether a function runs without a failed check."""
        try:
            function()
        except CheckFailed as failed:
            self.outcomes[name] = str(failed) or "failed"
        else:
            self.outcomes[name] = ""
        print(f"{self.name}: {name}: {'FAILED' if self.outcomes[name] else 'passed'}", flush=True)
        return not self.outcomes[name]


# Environments


def find_python(version: str) -> Path:
    """Return the interpreter of a version: that of the path or, where this one is but pyenv's shim, pyenv's own."""
    on_path = shutil.which(f"python{version}")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for found in [*([Path(on_path)] if on_path else []), *sorted(pyenv.glob(f"{version}.*/bin/python"))]:
        said = subprocess.run([found, "--version"], capture_output=True, text=True).stdout
        if said.startswith(f"Python {version}."):
            return found
    raise CheckFailed(f"there is no python{version} on the path or in {pyenv}")


def make_environment(version: str, folder: Path) -> Path:
    """Make a virtual environment and return its bin."""
    run(find_python(version), "-m", "venv", folder, folder=folder.parent)
    return folder / "bin"


def pip_install(binaries: Path, *what: str | Path) -> None:
    """Install packages, from wheels alone: building an old one takes long and fails for reasons of its own."""
    run(binaries / "python", "-m", "pip", "install", "--quiet", "--only-binary=:all:", *what, folder=binaries)


def lowest_dependencies() -> list[str]:
    """Return the lowest versions that pyproject.toml allows, as constraints: numpy>=1.26 gives numpy==1.26."""
    extras = [line for name in EXTRAS for line in PROJECT["optional-dependencies"][name]]
    declared = [*PROJECT["dependencies"], *extras]
    for line in declared:
        if not re.fullmatch(r"[\w-]+>=[\d.]+", line):
            raise CheckFailed(f"the dependency {line!r} is not of the form name>=version")
    return [line.replace(">=", "==") for line in declared]


def check_environment(column: Column, version: str, wheel: Path, folder: Path, lowest: bool = False) -> None:
    """Install the wheel into a clean environment and do there what users do first."""
    folder.mkdir()
    binaries, out = folder / "venv" / "bin", folder / "demo"
    fgsv = binaries / "fgsv"

    def install() -> None:
        constraints = folder / "constraints-lowest.txt"
        constraints.write_text("\n".join(lowest_dependencies() if lowest else []) + "\n", encoding="utf-8")
        make_environment(version, folder / "venv")
        pip_install(binaries, f"{wheel}[{','.join(EXTRAS)}]", "--constraint", constraints)
        run(binaries / "python", "-m", "pip", "check", folder=folder)

    def show_version() -> None:
        said, expected = run(fgsv, "version", folder=folder).strip(), wheel.name.split("-")[1]
        if said != expected:
            raise CheckFailed(f"fgsv version says {said}, the wheel is {expected}")

    def demo() -> None:
        run(fgsv, "demo", "--out", out, folder=folder)
        missing = [name for name in ("valuation.json", "valuation.csv", "report.html") if not (out / name).exists()]
        if missing:
            raise CheckFailed(f"the demo has not written {', '.join(missing)}")

    if column.check("install", install):
        column.check("fgsv --help", lambda: run(fgsv, "--help", folder=folder))
        column.check("fgsv version", show_version)
        column.check("fgsv demo", demo)
        column.check("smoke test", lambda: run(binaries / "python", ROOT / "tools" / "smoke.py", folder=folder))


# Archives


def build(folder: Path) -> tuple[Path, Path]:
    """Build the sdist and, from it, the wheel; return the two files."""
    binaries = make_environment(PYTHONS[0], folder / "build")
    pip_install(binaries, "build")
    run(binaries / "python", "-m", "build", "--outdir", folder / "dist", ROOT, folder=folder)
    (sdist,), (wheel,) = (list((folder / "dist").glob(kind)) for kind in ("*.tar.gz", "*.whl"))
    return sdist, wheel


def tracked_files(*where: str) -> set[str]:
    """Return the files under version control, relative to the repository's root."""
    return set(run("git", "ls-files", "-z", *where, folder=ROOT).rstrip("\0").split("\0"))


def check_wheel(column: Column, wheel: Path) -> None:
    """Compare the wheel with the package: all files of it, and the licences, are in it."""

    def compare() -> None:
        names = set(zipfile.ZipFile(wheel).namelist())
        expected = {name.removeprefix("src/") for name in tracked_files("src/fgsv")}
        metadata = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
        expected |= {f"{metadata}/licenses/{name}" for name in PROJECT["license-files"]}
        if expected - names:
            raise CheckFailed(f"not in the wheel: {', '.join(sorted(expected - names))}")

    column.check("wheel has every file", compare)


def check_sdist(column: Column, sdist: Path, wheel: Path, folder: Path) -> None:
    """Unpack the sdist and look whether one can work in it."""
    folder.mkdir()
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()

    def compare() -> None:
        missing = {name for name in tracked_files() if not (unpacked / name).exists()} - NOT_IN_SDIST
        if missing:
            raise CheckFailed(f"not in the sdist: {', '.join(sorted(missing))}")

    def collect_tests() -> None:
        binaries = make_environment(PYTHONS[0], folder / "venv")
        pip_install(binaries, f"{wheel}[{','.join(EXTRAS)}]", "pytest", "hypothesis")
        run(binaries / "python", "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", "tests", folder=unpacked)

    column.check("sdist has every file", compare)
    column.check("sdist: make finds its files", lambda: run("make", "--dry-run", *TARGETS, folder=unpacked))
    column.check("sdist: pytest finds its tests", collect_tests)


# All of it


def print_table(columns: list[Column]) -> None:
    """Print what the failed checks said; then a row for each check and a column for each environment."""
    for column in columns:
        for row, words in column.outcomes.items():
            if words:
                print(f"\n{column.name}, {row}:\n{words}")
    rows = list(dict.fromkeys(name for column in columns for name in column.outcomes))
    first = max(map(len, rows))
    print("\n" + " " * first, *(f"{column.name:>12}" for column in columns))
    for row in rows:
        shown = {None: "", "": "passed"}
        cells = (shown.get(column.outcomes.get(row), "FAILED") for column in columns)
        print(f"{row:<{first}}", *(f"{cell:>12}" for cell in cells))


def main() -> None:
    """Build, check everything, print the table."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        print(f"Building fgsv with Python {PYTHONS[0]}", flush=True)
        try:
            sdist, wheel = build(folder)
        except CheckFailed as failed:
            sys.exit(f"the build failed: {failed}")
        archives = Column("archives")
        check_wheel(archives, wheel)
        check_sdist(archives, sdist, wheel, folder / "sdist")
        columns = [archives]
        for version, lowest in [*((version, False) for version in PYTHONS), (PYTHONS[0], True)]:
            columns.append(Column(f"{version} lowest" if lowest else version))
            check_environment(columns[-1], version, wheel, folder / columns[-1].name.replace(" ", "-"), lowest)
        print_table(columns)
        if any(words for column in columns for words in column.outcomes.values()):
            sys.exit(1)
        (ROOT / "dist").mkdir(exist_ok=True)
        for archive in (sdist, wheel):
            shutil.copy(archive, ROOT / "dist")
        print(f"\n{sdist.name} and {wheel.name} are in dist/")


if __name__ == "__main__":
    main()
