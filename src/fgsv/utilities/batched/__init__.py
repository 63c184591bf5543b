"""Batched twins of scikit-learn models: fitted to many coalitions at once."""
