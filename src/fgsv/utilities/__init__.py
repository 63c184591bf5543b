"""Utilities: from data and a model to a game."""
