"""`python -m fgsv` is the command `fgsv`."""

import os
import sys

here = os.getcwd()
if sys.path[0] == here and not os.path.isdir(os.path.join(here, "fgsv")):
    del sys.path[0]  # Python's habit for -m: a file that lies about would be imported for a package

from fgsv.cli import main  # noqa: E402

main()
