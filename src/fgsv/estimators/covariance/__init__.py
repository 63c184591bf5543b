"""The default method: every evaluation serves every player."""

from fgsv.estimators.covariance.covariance import Covariance

__all__ = ["Covariance"]
