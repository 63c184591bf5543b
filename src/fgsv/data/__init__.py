"""Data: tables and texts, from a file to a game.

Here are formats, roles of columns, players and units, test rows, preprocessing, models and metrics by name, leaks.
"""
