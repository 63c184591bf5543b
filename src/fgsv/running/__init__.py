"""Running: value, iterate and exact.

Here are a run's arguments made into a task, its rounds, stopping rules, progress, bars, and the cost measured first.
"""
