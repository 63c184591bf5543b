"""The paper's experiments, from the public API alone."""
