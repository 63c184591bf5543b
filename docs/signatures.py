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
            if found := DECORATOR.fullmatch(str(decorator.value)):
                obj.parameters = obj.parent.members[found[1]].parameters
