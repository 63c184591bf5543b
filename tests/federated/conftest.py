"""Tests with Flower itself run where it is installed: `make federated` makes that environment."""

import importlib.util

collect_ignore = [] if importlib.util.find_spec("flwr") else ["flower"]
