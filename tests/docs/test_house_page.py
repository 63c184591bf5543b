"""docs/how-it-is-built.md: the order of imports that tests/test_house.py enforces, and how long the files are."""

import re

import pytest
from test_house import LAYERS, ROOT, SOURCE

PAGE = (ROOT / "docs" / "how-it-is-built.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+) \| `(\w+)` \|", re.MULTILINE)
FILE = re.compile(r"`([\w/]+\.py)`")
READING = re.compile(r"^\| (`[\w/]+\.py`.*) \| .* \| ([\d,]+) \|$", re.MULTILINE)
DEFAULT = SOURCE / "methods" / "gp"


def test_the_table_of_rooms_is_the_order_of_imports():
    expected = [(str(level), room) for level, rooms in enumerate(LAYERS, start=1) for room in rooms]
    assert ROW.findall(PAGE) == expected


def test_the_files_that_the_page_names_exist():
    paths = [f"/{path.relative_to(ROOT)}" for room in ("src", "tests") for path in (ROOT / room).rglob("*.py")]
    named = set(FILE.findall(PAGE))
    assert len(named) > 10
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in paths)] == []


def length(name):
    """Return the lines of a file that is named from the package, or from the folder of the default method."""
    found = DEFAULT / name if (DEFAULT / name).exists() else SOURCE / name
    return len(found.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize(("files", "lines"), READING.findall(PAGE))
def test_the_reading_list_says_how_long_it_is(files, lines):
    assert int(lines.replace(",", "")) == pytest.approx(sum(map(length, FILE.findall(files))), rel=0.1)


def test_the_core_takes_an_afternoon_and_the_rest_is_the_whole_default_method():
    core, _, default = PAGE.partition("## Read the core in an afternoon")[2].partition("## Then the default method")
    first = FILE.findall("".join(files for files, _ in READING.findall(core.partition("Three parts can wait")[0])))
    assert len(first) > 15
    assert sum(map(length, first)) == pytest.approx(4100, rel=0.1)
    modules = {path.name for path in DEFAULT.glob("*.py")}
    named = FILE.findall("".join(files for files, _ in READING.findall(default)))
    assert sorted(named) == sorted(modules - {"__init__.py"} | {"semivalue.py", "methods/target.py"})
    assert sum(map(length, modules)) == pytest.approx(2200, rel=0.1)
