"""The default method: a Gaussian process over coalitions. `kernel.py` begins with a page of notation."""

from fgsv.methods.gp.gp import GP

__all__ = ["GP"]
