"""The audit: what splitting and copying would earn, copies and shared passages, and when not to rely on a result."""

from fgsv.audit.auditing import Audit, audit, least_budget
from fgsv.audit.copies import Copies, find_copies
from fgsv.audit.passages import Passages, find_passages
from fgsv.audit.policies import policy_gains
from fgsv.audit.shells import shell_companies
from fgsv.audit.table_audit import AuditPlan, audit_table
from fgsv.game import with_precedence
from fgsv.valuation.display import Section

__all__ = [
    "Audit",
    "AuditPlan",
    "Copies",
    "Passages",
    "Section",
    "audit",
    "audit_table",
    "find_copies",
    "find_passages",
    "least_budget",
    "policy_gains",
    "shell_companies",
    "with_precedence",
]
