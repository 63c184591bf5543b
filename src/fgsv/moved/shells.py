"""`fgsv.shells` of 0.1.0, which is now `fgsv.audit.shells`."""

import warnings

from fgsv.audit.shells import *  # noqa: F403

warnings.warn("fgsv.shells has moved to fgsv.audit.shells", DeprecationWarning, stacklevel=2)
