"""Payouts: from values to shares to money that adds up to the cent; terms, refusals and settlements."""

from fgsv.payout.money import Money, round_to
from fgsv.payout.refusal import Doubt, Objection, PayoutRefused
from fgsv.payout.settlement import Settlement, settle
from fgsv.payout.splitting import Payout, differences, royalty_shares, split
from fgsv.payout.terms import Terms

__all__ = [
    "Doubt",
    "Money",
    "Objection",
    "Payout",
    "PayoutRefused",
    "Settlement",
    "Terms",
    "differences",
    "round_to",
    "royalty_shares",
    "settle",
    "split",
]
