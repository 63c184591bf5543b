"""The audit: what splitting, copying and regrouping would earn, and where a valuation should not be relied on."""

from fgsv.audit.auditing import Audit, audit, close_calls, least_budget, policy_gains
from fgsv.audit.copies import Copies, find_copies
from fgsv.audit.shells import shell_companies

__all__ = [
    "Audit",
    "Copies",
    "audit",
    "close_calls",
    "find_copies",
    "least_budget",
    "policy_gains",
    "shell_companies",
]
