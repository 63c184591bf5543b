"""How coalitions get their values: from the ledger if known, otherwise from the workers, their queue and pools."""
