"""Language models as games: players are documents, and utilities are log-likelihoods of test texts."""

import lazy_loader

# The names stand in __init__.pyi. Each is imported when first used: the n-gram model does not wait for torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
