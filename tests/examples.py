"""Modules of the package with examples, and which of them import torch."""

import re
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
TORCH = re.compile(r'^ *import torch$|^optional\("torch"', re.MULTILINE)


def has_examples(path):
    return ">>>" in path.read_text(encoding="utf-8")


def imports_torch(path):
    """Tell whether a module or its package imports torch, which takes seconds."""
    return any(TORCH.search(file.read_text(encoding="utf-8")) for file in (path, path.with_name("__init__.py")))


def with_torch():
    """Return the names of the modules whose examples need torch."""
    found = [path for path in sorted(SOURCE.rglob("fgsv/**/*.py")) if has_examples(path) and imports_torch(path)]
    return [".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in found]
