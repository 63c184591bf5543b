"""Running: value, iterate and exact, the loop, stopping rules, the evaluator and its workers."""
