"""`fgsv.tabular` of 0.1.0, which is now `fgsv.data.opening`."""

import warnings

from fgsv.data.opening import *  # noqa: F403

warnings.warn("fgsv.tabular has moved to fgsv.data.opening", DeprecationWarning, stacklevel=2)
