"""Answers made from retrieved passages: what each publisher's sentences were worth to an answer, and pay for it."""

import lazy_loader

# The names stand in __init__.pyi. Each is imported when first used: a reader of answers does not wait for torch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
