"""Which modules pytest imports to run their examples."""

from pathlib import Path

from examples import has_examples, imports_torch  # type: ignore[import-not-found]  # of the tests


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out modules without examples, and those that import torch: `test_torch.py` runs theirs."""
    if collection_path.suffix != ".py":
        return None
    return True if not has_examples(collection_path) or imports_torch(collection_path) else None
