"""`python -m fgsv` is the command `fgsv`."""

from fgsv.cli import main

main()
