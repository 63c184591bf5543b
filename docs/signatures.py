"""griffe extension: a function decorated with `same_arguments(source)` is shown with the arguments of `source`."""

from __future__ import annotations

import re
from typing import Any

import griffe

DECORATOR = re.compile(r"same_arguments\((\w+)\)")


class Signatures(griffe.Extension):
    """Put the real arguments where the code has `*args, **kwargs`."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the parameters of a function as it is collected."""
        if not isinstance(obj, griffe.Function) or obj.parent is None:
            return
        for decorator in obj.decorators:
            found = DECORATOR.fullmatch(str(decorator.value))
            source = None if found is None else obj.parent.members[found[1]]
            if isinstance(source, griffe.Function):
                obj.parameters = source.parameters
