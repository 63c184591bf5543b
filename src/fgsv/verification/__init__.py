"""Verification: repeating runs from ledgers and data, challenges and proofs."""

from fgsv.verification.proof_checks import Check, check_proof
from fgsv.verification.proofs import Proof, challenge
from fgsv.verification.result_checks import verify_data, verify_result, withdrawn_players

__all__ = [
    "Check",
    "Proof",
    "challenge",
    "check_proof",
    "verify_data",
    "verify_result",
    "withdrawn_players",
]
