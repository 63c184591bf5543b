"""Shorter runs of a proxy, and shorter audits: both take long, and have tests of their own."""

from fgsv.audit import splits, table_audit
from fgsv.methods.gp import proxy


def shorten(patch):
    """Let a proxy's own run be shorter."""
    patch.setattr(proxy, "AHEAD", 32)


def shorten_audits(patch):
    """Let an audit try fewer splits, with fewer evaluations for all it looks at."""
    patch.setattr(splits, "SEARCHED", 4)
    patch.setattr(table_audit, "DEFAULT_BUDGET", 1000)
    patch.setattr(table_audit, "SPARE", 200)
