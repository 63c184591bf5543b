"""Types of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Masks = NDArray[np.bool_]
"""An (m, n) array: row j marks the players in coalition j."""
Images = NDArray[np.uint8]
"""(m, height, width, 3) pixels."""
