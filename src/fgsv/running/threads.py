"""One thread for numerical libraries: the last bits of a matrix product depend on the number of threads."""

from __future__ import annotations

import sys
from typing import Any

from threadpoolctl import ThreadpoolController


class _OneThread:
    """Limits BLAS and OpenMP to one thread, so that results have the same bits everywhere."""

    def __init__(self) -> None:
        self._n_modules = 0

    def __call__(self) -> Any:
        if len(sys.modules) != self._n_modules:  # an import may have loaded another library
            self._controller = ThreadpoolController()
            self._n_modules = len(sys.modules)
        return self._controller.limit(limits=1)


one_thread = _OneThread()
