"""Payouts: from values to shares to money that adds up to the cent."""

from fgsv.payout.money import Money, round_to
from fgsv.payout.policy import Policy
from fgsv.payout.splitting import Payout, Terms, differences, royalty_shares, split, terms

__all__ = ["Money", "Payout", "Policy", "Terms", "differences", "round_to", "royalty_shares", "split", "terms"]
