"""Unbiased top-k learning to rank from click logs.

>>> import cldrank as cr
>>> data = cr.RankingDataset.from_arrays([[0.1], [0.9], [0.4]], [1, 1, 1], labels=[0, 2, 1])
>>> print(cr.evaluate(data.features[:, 0], data, ["nDCG@3", "AP"])["nDCG@3"])
1.0
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cldrank import errors as errors
from cldrank._version import __version__ as __version__

if TYPE_CHECKING:
    from cldrank import auditing as auditing
    from cldrank import catalogue as catalogue
    from cldrank import clicks as clicks
    from cldrank import data as data
    from cldrank import evaluation as evaluation
    from cldrank import export as export
    from cldrank import judgements as judgements
    from cldrank import measures as measures
    from cldrank import methods as methods
    from cldrank import models as models
    from cldrank import pipeline as pipeline
    from cldrank import propensity as propensity
    from cldrank import rankers as rankers
    from cldrank import safety as safety
    from cldrank import scaling as scaling
    from cldrank import tuning as tuning
    from cldrank.auditing import audit as audit
    from cldrank.clicks.imports import import_log as import_log
    from cldrank.clicks.table import ClickTable as ClickTable
    from cldrank.data.dataset import RankingDataset as RankingDataset
    from cldrank.data.loading import load as load
    from cldrank.data.query_hash import held_out as held_out
    from cldrank.evaluation import compare as compare
    from cldrank.evaluation import evaluate as evaluate
    from cldrank.export import export_ranker as export_ranker
    from cldrank.judgements import judge_documents as judge_documents
    from cldrank.methods import CLD as CLD
    from cldrank.methods import IPS as IPS
    from cldrank.methods import PIJD as PIJD
    from cldrank.methods import AffineIPS as AffineIPS
    from cldrank.methods import BayesIPS as BayesIPS
    from cldrank.methods import CLDPair as CLDPair
    from cldrank.methods import HeckmanRank as HeckmanRank
    from cldrank.methods import InterventionAware as InterventionAware
    from cldrank.methods import Naive as Naive
    from cldrank.methods import Oracle as Oracle
    from cldrank.methods import PolicyAwareIPS as PolicyAwareIPS
    from cldrank.methods import RankAgg as RankAgg
    from cldrank.methods import SVMRank as SVMRank
    from cldrank.models import MLP as MLP
    from cldrank.models import Linear as Linear
    from cldrank.models import Run as Run
    from cldrank.models import Trees as Trees
    from cldrank.propensity import Propensities as Propensities
    from cldrank.rankers import load_ranker as load_ranker
    from cldrank.scoring import score as score
    from cldrank.spark import SparkDataset as SparkDataset
    from cldrank.tuning import tune as tune

# Names are imported when first used: `import cldrank` stays quick, and heavy packages load only where needed. A name
# that is not here is that of a method.
_HOMES = {
    "ClickTable": "cldrank.clicks.table",
    "Propensities": "cldrank.propensity",
    "RankingDataset": "cldrank.data.dataset",
    "SparkDataset": "cldrank.spark",
    "audit": "cldrank.auditing",
    "compare": "cldrank.evaluation",
    "evaluate": "cldrank.evaluation",
    "export_ranker": "cldrank.export",
    "held_out": "cldrank.data.query_hash",
    "import_log": "cldrank.clicks.imports",
    "judge_documents": "cldrank.judgements",
    "load": "cldrank.data.loading",
    "load_ranker": "cldrank.rankers",
    "score": "cldrank.scoring",
    "tune": "cldrank.tuning",
    **dict.fromkeys(("MLP", "Linear", "Run", "Trees"), "cldrank.models"),
}
_ROOMS = (
    "auditing", "catalogue", "clicks", "data", "evaluation", "export", "judgements", "measures", "methods", "models",
    "pipeline", "propensity", "rankers", "safety", "scaling", "tuning",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"cldrank.{name}")
    if name not in _HOMES and not name[:1].isupper():  # not a method: perhaps a module that is yet to be imported
        raise AttributeError(f"module 'cldrank' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES.get(name, "cldrank.methods")), name)
    except AttributeError:
        raise AttributeError(f"module 'cldrank' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    from cldrank.methods import methods

    return sorted(["__version__", "errors", *_HOMES, *_ROOMS, *(kind.__name__ for kind in methods().values())])
