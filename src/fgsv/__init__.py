"""Faithful Group Shapley Values: what each group's data is worth, whatever the grouping."""

import lazy_loader

__version__ = "0.2.0.dev0"

# The public names stand in __init__.pyi. Each is imported when first used: `fgsv --help` does not wait for numpy.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
