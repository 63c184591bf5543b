"""The paper's experiments, and the demonstration."""
