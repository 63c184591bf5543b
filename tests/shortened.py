"""A shorter opening of the default method, and shorter audits: both take long, and have tests of their own."""

from fgsv.audit import splits, table_audit
from fgsv.methods.covariance import opening, proxy


def shorten(patch):
    """Let the opening end early, with half as many fits of two steps, and a proxy's own run be shorter."""
    patch.setattr(proxy, "AHEAD", 32)
    patch.setattr(opening, "HAND_OVER", ((512, 128),))
    patch.setattr(opening, "FOLDS_OF_FEW", 2)
    shorten_fits(patch)


def shorten_fits(patch):
    """Let fits of the opening have two steps: nothing but the precision depends on them."""
    for name in ("STEPS", "STEPS_AGAIN", "STEPS_CAUTIOUS"):
        patch.setattr(opening, name, 2)


def shorten_audits(patch):
    """Let an audit try fewer splits, with fewer evaluations for all it looks at."""
    patch.setattr(splits, "SEARCHED", 4)
    patch.setattr(table_audit, "LEAST_OF_DIAGNOSIS", 200)
    patch.setattr(table_audit, "DEFAULT_BUDGET", 1000)
    patch.setattr(table_audit, "SPARE", 200)
