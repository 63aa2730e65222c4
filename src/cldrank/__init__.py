"""Unbiased top-k learning to rank from click logs.

>>> import cldrank as cr
>>> data = cr.RankingDataset.from_arrays([[0.1], [0.9], [0.4]], [1, 1, 1], labels=[0, 2, 1])
>>> print(cr.evaluate(data.features[:, 0], data, ["nDCG@3", "AP"])["nDCG@3"])
1.0
"""

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cldrank import errors
from cldrank._version import __version__

if TYPE_CHECKING:
    # isort: off
    from cldrank import (
        auditing, catalogue, clicks, collect, data, evaluation, export, judgements, measures, methods, models, online,
        pipeline, propensity, rankers, safety, scaling, tuning,
    )  # fmt: skip
    from cldrank.auditing import audit
    from cldrank.clicks.imports import import_log
    from cldrank.clicks.ratings import load_ratings
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.data.loading import load
    from cldrank.data.query_hash import held_out
    from cldrank.distillation import distil
    from cldrank.evaluation import compare, evaluate
    from cldrank.export import export_ranker
    from cldrank.judgements import judge_documents
    from cldrank.method_choice import auto
    from cldrank.methods import (
        CLD, IPS, PIJD, AffineIPS, BayesIPS, CLDPair, HeckmanRank, InterventionAware, Naive, Oracle, PolicyAwareIPS,
        RankAgg, SVMRank,
    )  # fmt: skip
    from cldrank.models import MLP, Linear, Run, Trees
    from cldrank.propensity import Propensities
    from cldrank.rankers import load_ranker
    from cldrank.scoring import score
    from cldrank.spark import SparkDataset
    from cldrank.tuning import tune
    # isort: on

__all__ = [
    "CLD", "IPS", "MLP", "PIJD", "AffineIPS", "BayesIPS", "CLDPair", "ClickTable", "HeckmanRank", "InterventionAware",
    "Linear", "Naive", "Oracle", "PolicyAwareIPS", "Propensities", "RankAgg", "RankingDataset", "Run", "SVMRank",
    "SparkDataset", "Trees", "__version__", "audit", "auditing", "auto", "catalogue", "clicks", "collect", "compare",
    "data", "distil", "errors", "evaluate", "evaluation", "export", "export_ranker", "held_out", "import_log",
    "judge_documents", "judgements", "load", "load_ranker", "load_ratings", "measures", "methods", "models", "online",
    "pipeline",
    "propensity", "rankers", "safety", "scaling", "score", "tune", "tuning",
]  # fmt: skip

# Names are imported when first used: `import cldrank` stays quick, and heavy packages load only where needed. A name
# that is not here is that of a method.
_HOMES = {
    "ClickTable": "cldrank.clicks.table",
    "Propensities": "cldrank.propensity",
    "RankingDataset": "cldrank.data.dataset",
    "SparkDataset": "cldrank.spark",
    "audit": "cldrank.auditing",
    "auto": "cldrank.method_choice",
    "compare": "cldrank.evaluation",
    "distil": "cldrank.distillation",
    "evaluate": "cldrank.evaluation",
    "export_ranker": "cldrank.export",
    "held_out": "cldrank.data.query_hash",
    "import_log": "cldrank.clicks.imports",
    "judge_documents": "cldrank.judgements",
    "load": "cldrank.data.loading",
    "load_ranker": "cldrank.rankers",
    "load_ratings": "cldrank.clicks.ratings",
    "score": "cldrank.scoring",
    "tune": "cldrank.tuning",
    **dict.fromkeys(("MLP", "Linear", "Run", "Trees"), "cldrank.models"),
}


def __getattr__(name: str) -> Any:
    if name in _HOMES or name[:1].isupper():
        with suppress(AttributeError):
            return getattr(import_module(_HOMES.get(name, "cldrank.methods")), name)
    elif name in __all__:
        return import_module(f"cldrank.{name}")
    raise AttributeError(f"module 'cldrank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
