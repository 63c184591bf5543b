"""Verification: runs repeated from their ledgers, and what that proves.

Here a saved result is opened again and checked against ledger and data, a sample of a ledger's records is evaluated
again, and sealed runs answer challenges with proofs (Merkle trees).
"""

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
