"""Unbiased top-k learning to rank from click logs.

>>> import cldrank as cr
>>> data = cr.RankingDataset.from_arrays([[0.1], [0.9], [0.4]], [1, 1, 1], labels=[0, 2, 1])
>>> print(cr.evaluate(data.features[:, 0], data, ["nDCG@3", "AP"])["nDCG@3"])
1.0
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cldrank import errors
from cldrank._version import __version__

if TYPE_CHECKING:
    from cldrank import clicks, data, estimators, measures, propensity, rankers, scaling, tuning
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.data.loading import load
    from cldrank.estimators import (
        CLD,
        IPS,
        PIJD,
        AffineIPS,
        CLDPair,
        HeckmanRank,
        Naive,
        Oracle,
        PolicyAwareIPS,
        RankAgg,
        SVMRank,
    )
    from cldrank.evaluation import compare, evaluate
    from cldrank.models.network import Training
    from cldrank.models.network.networks import MLP
    from cldrank.propensity import Propensities
    from cldrank.rankers import load_ranker
    from cldrank.tuning import tune

# Names are imported when first used: `import cldrank` stays quick, and heavy packages load only where needed.
_HOMES = {
    "ClickTable": "cldrank.clicks.table",
    **dict.fromkeys(
        (
            "AffineIPS",
            "CLD",
            "CLDPair",
            "HeckmanRank",
            "IPS",
            "Naive",
            "Oracle",
            "PIJD",
            "PolicyAwareIPS",
            "RankAgg",
            "SVMRank",
        ),
        "cldrank.estimators",
    ),
    "MLP": "cldrank.models.network.networks",
    "Propensities": "cldrank.propensity",
    "RankingDataset": "cldrank.data.dataset",
    "Training": "cldrank.models.network",
    "clicks": "",
    "compare": "cldrank.evaluation",
    "data": "",
    "estimators": "",
    "evaluate": "cldrank.evaluation",
    "load": "cldrank.data.loading",
    "load_ranker": "cldrank.rankers",
    "measures": "",
    "propensity": "",
    "rankers": "",
    "scaling": "",
    "tune": "cldrank.tuning",
    "tuning": "",
}

__all__ = [
    "CLD",
    "IPS",
    "MLP",
    "PIJD",
    "AffineIPS",
    "CLDPair",
    "ClickTable",
    "HeckmanRank",
    "Naive",
    "Oracle",
    "PolicyAwareIPS",
    "Propensities",
    "RankAgg",
    "RankingDataset",
    "SVMRank",
    "Training",
    "__version__",
    "clicks",
    "compare",
    "data",
    "errors",
    "estimators",
    "evaluate",
    "load",
    "load_ranker",
    "measures",
    "propensity",
    "rankers",
    "scaling",
    "tune",
    "tuning",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'cldrank' has no attribute {name!r}")
    home = _HOMES[name]
    return getattr(import_module(home), name) if home else import_module(f"cldrank.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
