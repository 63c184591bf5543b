"""The types of arrays, once for all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Masks = NDArray[np.bool_]
"""An (m, n) array: row j says which of the n players are in coalition j."""
Images = NDArray[np.uint8]
"""(m, height, width, 3) pixels."""
