"""Imports go one way, and `import fgsv` stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "fgsv"
LAYERS = [
    {"types", "environment"},
    {"coalitions", "partition", "semivalue"},
    {"game"},
    {"valuation"},
    {"estimators", "games", "utilities", "ledger"},
    {"running"},
    {"payout", "planning", "diagnosis", "plots", "audit", "tables"},
    {"report", "experiments"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def part(module):
    """Return the part of the package that `fgsv.part.anything` belongs to."""
    return module.split(".")[1] if module.startswith("fgsv.") else None


def imported(tree):
    """Modules imported when the module is loaded: those inside functions or for type checkers do not count."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module == "fgsv":
                yield from (f"fgsv.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", [path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py"], ids=str)
def test_a_module_imports_nothing_above_it(path):
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    tree = ast.parse(path.read_text())
    for module in imported(tree):
        other = part(module)
        if other is not None and (SOURCE / other).with_suffix(".py").exists() | (SOURCE / other).is_dir():
            assert LEVEL[other] <= LEVEL[own], f"{own} imports {module}, which stands above it"


def test_importing_fgsv_loads_no_optional_package():
    code = "import fgsv, sys; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    heavy = {"torch", "diffusers", "transformers", "peft", "ray", "dask", "matplotlib", "altair", "pyarrow"}
    assert not heavy & {name.split(".")[0] for name in loaded.split()}


def test_every_public_name_is_there():
    import fgsv

    for name in fgsv.__all__:
        assert getattr(fgsv, name) is not None
