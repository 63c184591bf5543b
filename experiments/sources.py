"""Python files on this machine: the standard library, and installed open-source projects with their licences."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from itertools import islice
from pathlib import Path

PROJECTS = (
    "numpy", "pandas", "scikit-learn", "matplotlib", "rich", "dask", "scipy", "joblib", "networkx", "sympy", "jinja2",
    "altair", "transformers", "torch",
)  # fmt: skip
"""Looked for in this order."""
LEAST_FILES = 6
"""Projects with fewer files are left out."""
LEAST_CHARACTERS = 500
"""Shorter files have little beside imports."""
MOST_CHARACTERS = 100_000
"""Longer files are mostly tables."""


@dataclass(frozen=True)
class Project:
    """An installed project: its version, its licence and the text of its Python files, in the order of paths."""

    name: str
    version: str
    licence: str
    texts: tuple[str, ...]


def standard_library() -> list[str]:
    """Return the files of the standard library, without its tests and what is installed beside it."""
    root = Path(sysconfig.get_paths()["stdlib"])
    outside = ("site-packages", "dist-packages", "lib2to3", "idlelib", "pip")
    return list(_texts(root.rglob("*.py"), root, outside))


def installed_projects(count: int) -> list[Project]:
    """Return the first `count` of `PROJECTS` that are installed with enough files."""
    found = (_project(name) for name in PROJECTS)
    return list(islice((project for project in found if project is not None), count))


def _project(name: str) -> Project | None:
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return None
    paths = [Path(str(file.locate())) for file in package.files or () if file.suffix == ".py"]
    texts = tuple(_texts(paths, Path(str(package.locate_file("")))))
    return Project(name, package.version, _licence(package), texts) if len(texts) >= LEAST_FILES else None


def _licence(package: Distribution) -> str:
    """Return what a package states as its licence, in a few words."""

    def lines(name: str) -> list[str]:
        return list(package.metadata.get_all(name) or ())

    classified = [line.split(" :: ")[-1] for line in lines("Classifier") if "License ::" in line]
    stated = lines("License-Expression") or classified or [line.splitlines()[0][:60] for line in lines("License")]
    return ", ".join(stated) or "not stated"


def _texts(paths: Iterable[Path], root: Path, outside: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the files that can be read and are neither tests nor very short or long, in the order of their paths."""
    for path in sorted(paths):
        folders = path.relative_to(root).parts if path.is_relative_to(root) else path.parts
        if any(part in outside or part in ("test", "tests", "testing") for part in folders):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if LEAST_CHARACTERS <= len(text) <= MOST_CHARACTERS:
            yield text
