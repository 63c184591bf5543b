"""griffe extension: examples in docstrings become code blocks, so that `[1, 2]` in them is not read as a link."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"((?:^>>> .*\n?)(?:^(?!\s*$).*\n?)*)", re.MULTILINE)


class Doctests(griffe.Extension):
    """Put fences around every doctest."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object as it is collected."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(
                lambda found: f"```pycon\n{found[1].rstrip()}\n```\n", obj.docstring.value
            )
