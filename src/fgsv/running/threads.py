"""One thread for numerical libraries: the bits of a product depend on how many there are."""

from __future__ import annotations

import sys
from typing import Any

from threadpoolctl import ThreadpoolController


class _OneThread:
    """Pins the threads of BLAS and OpenMP to one: a matrix product on two of them has other last bits."""

    def __init__(self) -> None:
        self._n_modules = 0

    def __call__(self) -> Any:
        if len(sys.modules) != self._n_modules:  # an import may have loaded another library
            self._controller = ThreadpoolController()
            self._n_modules = len(sys.modules)
        return self._controller.limit(limits=1)


one_thread = _OneThread()
