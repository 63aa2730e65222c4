"""Simulated clicks: a production ranker shows pages, a policy varies them, a click model clicks on them.

>>> from cldrank.data.dataset import RankingDataset
>>> data = RankingDataset.from_arrays([[3], [2], [1]], [7, 7, 7], labels=[0, 4, 1])
>>> simulation = Simulation(data, scores=data.features[:, 0], model=PositionBased(eta=1, noise=0.1), depth=2)
>>> simulation.draw(1e9, seed=0)
ClickTable(1 query, 3 candidates, 2 shown at positions 1…2; 2 cells, 2,000,000,000 impressions, ... clicks)
"""

from cldrank.clicks.simulate.click_models import Cascade, ClickModel, DependentClicks, PositionBased, TrustBiased
from cldrank.clicks.simulate.policies import FirstSwaps, NeighbourSwaps, Policy, ShuffledShare, TopK
from cldrank.clicks.simulate.simulation import Simulation
from cldrank.clicks.simulate.truth import load_truth, truth_of

__all__ = [
    "Cascade", "ClickModel", "DependentClicks", "FirstSwaps", "NeighbourSwaps", "Policy", "PositionBased",
    "ShuffledShare", "Simulation", "TopK", "TrustBiased", "load_truth", "truth_of",
]  # fmt: skip
