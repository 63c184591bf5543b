"""Running: value, iterate and exact, stopping rules, progress, verification."""
