"""Payouts: from values to shares to money that adds up to the cent."""

from fgsv.payout.money import Money, round_to
from fgsv.payout.policy import Policy
from fgsv.payout.refusal import Doubt, Objection, PayoutRefused
from fgsv.payout.settlement import Settlement, settle
from fgsv.payout.splitting import Payout, Terms, differences, royalty_shares, split, terms

__all__ = [
    "Doubt",
    "Money",
    "Objection",
    "Payout",
    "PayoutRefused",
    "Policy",
    "Settlement",
    "Terms",
    "differences",
    "round_to",
    "royalty_shares",
    "settle",
    "split",
    "terms",
]
