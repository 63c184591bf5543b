"""docs/how-it-is-built.md: the order of imports that tests/test_house.py enforces, and the files that it names."""

import re

from test_house import LAYERS, ROOT, SOURCE

PAGE = (ROOT / "docs" / "how-it-is-built.md").read_text(encoding="utf-8")
LEVEL = re.compile(r"^(\d+)\. (.*\n(?:    - .*\n)*)", re.MULTILINE)
ROOM = re.compile(r"^(?:    - )?`(\w+)`: ", re.MULTILINE)
FILE = re.compile(r"`([\w/]+\.py)`")
DEFAULT = SOURCE / "methods" / "gp"


def test_the_list_of_rooms_is_the_order_of_imports():
    section = PAGE.partition("## The rooms")[2].partition("\n## ")[0]
    found = [(int(level), ROOM.findall(lines)) for level, lines in LEVEL.findall(section)]
    assert found == list(enumerate(LAYERS, start=1))


def test_the_files_that_the_page_names_exist():
    paths = [f"/{path.relative_to(ROOT)}" for room in ("src", "tests") for path in (ROOT / room).rglob("*.py")]
    named = set(FILE.findall(PAGE))
    assert len(named) > 10
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in paths)] == []


def test_the_reading_list_has_the_whole_default_method():
    modules = {path.name for path in DEFAULT.glob("*.py")}
    named = FILE.findall(PAGE.partition("## Then the default method")[2])
    assert set(named) >= modules - {"__init__.py"}
