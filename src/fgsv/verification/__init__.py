"""Verification: repeating runs from ledgers and data, challenges and proofs."""

from fgsv.verification.checking import verify_data, verify_result, withdrawn_players
from fgsv.verification.proof_checks import Check, check_proof
from fgsv.verification.proofs import Proof, challenge

__all__ = [
    "Check",
    "Proof",
    "challenge",
    "check_proof",
    "verify_data",
    "verify_result",
    "withdrawn_players",
]
