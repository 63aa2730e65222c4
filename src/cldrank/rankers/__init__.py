"""Rankers: the result of a fit. A scaling and a scorer, which can score, be saved, and be loaded again.

A saved ranker is a folder: `ranker.json` says what it is, `weights.safetensors` holds its numbers and remembers what it
was trained on, and `README.md` is its model card.
Loading reads data only; nothing in a folder can make code run.
"""

from cldrank.rankers.base import Ranker
from cldrank.rankers.base import ScalingRanker as ScalingRanker
from cldrank.rankers.base import check_features as check_features
from cldrank.rankers.card import model_card
from cldrank.rankers.groups import BlendRanker, BordaRanker, blended
from cldrank.rankers.groups import GroupRanker as GroupRanker
from cldrank.rankers.linear_ranker import LinearRanker
from cldrank.rankers.network_ranker import Layer as Layer
from cldrank.rankers.network_ranker import NetworkRanker
from cldrank.rankers.provenance import Provenance
from cldrank.rankers.ranker_folder import check_replaceable as check_replaceable
from cldrank.rankers.ranker_folder import load_ranker, record_evaluation
from cldrank.rankers.ranker_folder import ranker_fingerprint as ranker_fingerprint
from cldrank.rankers.tree_ranker import TreeRanker

__all__ = [
    "BlendRanker", "BordaRanker", "LinearRanker", "NetworkRanker", "Provenance", "Ranker", "TreeRanker", "blended",
    "load_ranker", "model_card", "record_evaluation",
]  # fmt: skip
