"""Data: tables and texts, from a file to a game."""
