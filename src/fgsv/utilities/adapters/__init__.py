"""Stacks of LoRA adapters over one frozen model, trained at once."""
