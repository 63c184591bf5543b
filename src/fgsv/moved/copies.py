"""`fgsv.copies` of 0.1.0, which is now `fgsv.audit.copies`."""

import warnings

from fgsv.audit.copies import *  # noqa: F403

warnings.warn("fgsv.copies has moved to fgsv.audit.copies", DeprecationWarning, stacklevel=2)
