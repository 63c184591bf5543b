"""`fgsv.tabular` of 0.1.0, which is now `fgsv.tables.opening`."""

import warnings

from fgsv.tables.opening import *  # noqa: F403

warnings.warn("fgsv.tabular has moved to fgsv.tables.opening", DeprecationWarning, stacklevel=2)
