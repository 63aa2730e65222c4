"""Boosted trees of other packages as methods of an experiment, trained on the same clicks.

    cd benchmarks && cldrank experiment run peers.toml

What they are given. One row per cell: a candidate at a position where it was shown; the rows of a query are one list,
in the order of their positions. What was never shown is left out, as these methods have no use for it. The label is the
share of the impressions that were clicked, in GRADES steps with a linear gain, so that a list stands for all its
sessions at once, and a query has the weight of its sessions.

- plain: these labels as they are; position bias stays.
- XGBoost, debias="position" (`lambdarank_unbiased`): treats the place in the list as the position and estimates the
  bias of each place itself. Right where a query was always shown in the same order, as in our experiments.
- LightGBM, debias="position": is given the position of each row and estimates an additive bias of each position.
- LightGBM, debias="ips": each row is weighted by 1 / propensity of its position, after Joachims (2017).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank._typing import IntArray
from cldrank.data.dataset import RankingDataset
from cldrank.errors import MissingDependencyError, UsageError
from cldrank.methods.evidence import collect
from cldrank.methods.needs import Needs
from cldrank.parameters import Learner, check_all, described, learned, parameter

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.propensity import Propensities

GRADES = 30  # LightGBM's labels are whole numbers below 31


class GradedLists(NamedTuple):
    """Features, grades and positions of each row; `sizes` and `weights` of each list, `rows` the weight of each row."""

    features: NDArray[np.float32]
    grades: IntArray
    position: IntArray
    sizes: IntArray
    weights: NDArray[np.float64]
    rows: NDArray[np.float64]


def lists_of(dataset: RankingDataset, clicks: ClickTable) -> GradedLists:
    """The clicks as graded lists, one per query that was shown.

    >>> from cldrank.clicks.table import ClickTable
    >>> data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> clicks = ClickTable.from_arrays(data, position=[2, 1, 0], impressions=[9, 9, 0], clicks=[3, 9, 0])
    >>> lists = lists_of(data, clicks)
    >>> lists.position, lists.grades, lists.sizes
    (array([1, 2]), array([30, 10]), array([2]))
    """
    if clicks.n_segments > 1:
        raise UsageError("peers learn one list per query, and cells of several segments are of several; give one.")
    query = dataset.row_queries[clicks.row]
    order = np.lexsort((clicks.row, clicks.position, query))
    row, shown = clicks.row[order], clicks.impressions[order]
    rates = np.minimum(clicks.clicks[order] / shown, 1.0)
    present, sizes = np.unique(query, return_counts=True)
    pages = clicks.query_impressions[present].astype(np.float64)
    weights = pages / pages.mean()
    grades = np.rint(rates * GRADES).astype(np.int64)
    rows = np.repeat(weights, sizes)
    return GradedLists(dataset.features[row], grades, clicks.position[order], sizes, weights, rows)


@described
class Peer(Learner, ABC):
    """What both have in common: trees, their size, and how fast they learn."""

    label: ClassVar[str]
    package: ClassVar[str]

    debias: str | None = parameter(default=None, about="what corrects position bias")
    trees: int = parameter(default=200, about="how many", least=1)
    learning_rate: float = parameter(default=0.05, about="the weight of each tree", above=0)
    leaves: int = parameter(default=31, about="of a tree, at most", least=2)
    l2: float = parameter(default=1.0, about="ridge penalty on the values of leaves", least=0)
    seed: int = parameter(default=0, about="the same seed gives the same trees", least=0)
    threads: int = parameter(default=0, about="0 for as many as there are cores", least=0)

    booster_: Any = learned(about="what the peer has trained")

    @property
    def required(self) -> Needs:
        """What it learns from with its parameters as they are."""
        return "propensities" if self.debias == "ips" else "clicks"

    def check(self) -> None:
        """Refuse wrong parameters, and a package that is not installed."""
        check_all(self)
        if find_spec(self.package) is None:
            raise MissingDependencyError(f"{self.package} is not installed: pip install 'cldrank[peers]'.")

    def fit(
        self, dataset: RankingDataset, clicks: ClickTable | None = None, propensities: Propensities | None = None
    ) -> Self:
        """Learn from clicks, and with debias="ips" from the propensities of their positions."""
        self.check()
        evidence = collect(self.label, self.required, dataset, clicks, propensities)
        lists = lists_of(dataset, evidence.clicks)
        if propensities is not None:
            lists = lists._replace(rows=lists.rows / propensities.at(lists.position))
        self.booster_ = self._boosted(lists)
        return self

    def predict(self, X: RankingDataset | ArrayLike) -> NDArray[np.float64]:
        """One score per row."""
        features = X.features if isinstance(X, RankingDataset) else np.asarray(X, dtype=np.float32)
        return np.asarray(self._scores(features), dtype=np.float64)

    @abstractmethod
    def _boosted(self, lists: GradedLists) -> Any: ...

    def _scores(self, features: NDArray[np.float32]) -> Any:
        return self.booster_.predict(features)


@described
class XGBoostRanker(Peer):
    """XGBoost's `rank:ndcg`, plain or, with debias="position", as `lambdarank_unbiased`."""

    label = "XGBoost"
    package = "xgboost"

    debias: Literal["position"] | None = parameter(default=None, about="what corrects position bias")

    def _boosted(self, lists: GradedLists) -> Any:
        import xgboost

        data = xgboost.DMatrix(lists.features, label=lists.grades, weight=lists.weights, nthread=self.threads or None)
        data.set_group(lists.sizes)
        parameters = {
            "objective": "rank:ndcg",
            "ndcg_exp_gain": False,
            "lambdarank_unbiased": self.debias == "position",
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_leaves": self.leaves,
            "max_depth": 0,
            "eta": self.learning_rate,
            "lambda": self.l2,
            "seed": self.seed,
            "nthread": self.threads,
            "verbosity": 0,
        }
        return xgboost.train(parameters, data, num_boost_round=self.trees)

    def _scores(self, features: NDArray[np.float32]) -> Any:
        return self.booster_.inplace_predict(features)


@described
class LightGBMRanker(Peer):
    """LightGBM's `lambdarank`: plain, debias="position" (it estimates the bias), or debias="ips" (it is given)."""

    label = "LightGBM"
    package = "lightgbm"

    debias: Literal["position", "ips"] | None = parameter(default=None, about="what corrects position bias")

    def _boosted(self, lists: GradedLists) -> Any:
        import lightgbm

        position = lists.position - 1 if self.debias == "position" else None
        data = lightgbm.Dataset(
            lists.features, label=lists.grades, weight=lists.rows, group=lists.sizes, position=position
        )
        parameters: dict[str, Any] = {
            "objective": "lambdarank",
            "label_gain": list(range(GRADES + 1)),
            "num_leaves": self.leaves,
            "learning_rate": self.learning_rate,
            "lambda_l2": self.l2,
            "seed": self.seed,
            "num_threads": self.threads,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }
        return lightgbm.train(parameters, data, num_boost_round=self.trees)
