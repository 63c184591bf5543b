"""`fgsv.comparison` of 0.1.0, which is now `fgsv.valuation.comparison`."""

import warnings

from fgsv.valuation.comparison import *  # noqa: F403

warnings.warn("fgsv.comparison has moved to fgsv.valuation.comparison", DeprecationWarning, stacklevel=2)
