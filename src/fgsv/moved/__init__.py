"""Documented modules of 0.1.0 that have moved: still found under `fgsv`, with a warning that says where they are."""
