"""Games whose Shapley values are known in closed form: oracles for tests and benchmarks."""

from fgsv.games.classic import Airport, Glove, WeightedMajority
from fgsv.games.sum_of_unanimity import SumOfUnanimity

__all__ = ["Airport", "Glove", "SumOfUnanimity", "WeightedMajority"]
