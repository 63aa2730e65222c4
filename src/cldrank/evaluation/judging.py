"""The two questions that users ask, answered by labels or by clicks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import UsageError
from cldrank.evaluation.by_clicks import compare_by_clicks, evaluate_by_clicks
from cldrank.evaluation.by_labels import (
    DEFAULT_MEASURES,
    Evaluation,
    RankerComparison,
    compare_by_labels,
    evaluate_by_labels,
)
from cldrank.evaluation.click_results import ClickComparison, ClickEvaluation
from cldrank.evaluation.orders import PRODUCTION
from cldrank.measures import Empty
from cldrank.propensity.segment_propensities import Curve


@overload
def evaluate(
    model: Any,
    dataset: RankingDataset,
    measures: Any = None,
    *,
    empty: Empty = ...,
    confidence: float = ...,
    replicates: int = ...,
    seed: int = ...,
) -> Evaluation: ...
@overload
def evaluate(
    model: Any,
    dataset: RankingDataset,
    measures: Any = None,
    *,
    clicks: ClickTable,
    propensities: Curve,
    **options: Any,
) -> ClickEvaluation: ...
def evaluate(
    model: Any,
    dataset: RankingDataset,
    measures: Any = None,
    *,
    clicks: ClickTable | None = None,
    propensities: Curve | None = None,
    **options: Any,
) -> Evaluation | ClickEvaluation:
    """Measure how well a model ranks the candidates of a dataset: against its labels or, given clicks, by these alone.

    model       a fitted method, a ranker, anything with `predict(features)`, an array or a Series of scores in the
                order of the dataset, or a frame of scores (see `load_scores`); with clicks also "production", the order
                of the log itself
    measures    such as "nDCG@3"; by clicks those of `ClickMeasure`
    options     by labels: empty ("zero" or "skip"), confidence, replicates, seed; by clicks: estimator (see
                `OffPolicy`), confidence, seed, allow_trained (whether queries that the ranker was trained on may count)

    >>> data = RankingDataset.from_arrays([[3], [2], [1], [1], [2]], [1, 1, 1, 2, 2], labels=[0, 1, 2, 0, 1])
    >>> evaluate(data.features[:, 0], data, ["nDCG@2", "AP"])["AP"]
    0.7916
    """
    model = _scores_in(model, dataset)
    if _by_labels(clicks, propensities, model):
        return evaluate_by_labels(model, dataset, DEFAULT_MEASURES if measures is None else measures, **options)
    return evaluate_by_clicks(model, dataset, *_both(clicks, propensities), measures, **options)


@overload
def compare(
    new: Any,
    old: Any,
    dataset: RankingDataset,
    measures: Any = None,
    *,
    empty: Empty = ...,
    confidence: float = ...,
    permutations: int = ...,
    seed: int = ...,
) -> RankerComparison: ...
@overload
def compare(
    new: Any,
    old: Any,
    dataset: RankingDataset,
    measures: Any = None,
    *,
    clicks: ClickTable,
    propensities: Curve,
    **options: Any,
) -> ClickComparison: ...
def compare(
    new: Any,
    old: Any,
    dataset: RankingDataset,
    measures: Any = None,
    *,
    clicks: ClickTable | None = None,
    propensities: Curve | None = None,
    **options: Any,
) -> RankerComparison | ClickComparison:
    """Compare two models query by query, new minus old: by the labels of a dataset or, given clicks, by these alone.

    By labels: the mean difference, its interval, and a p-value by randomisation. By clicks: a verdict, with estimates,
    what the log cannot see, and how much it depends on assumptions; either model may be "production", the order of the
    log itself.

    measures    such as "nDCG@3"; by clicks those of `ClickMeasure`, and the first decides
    options     by labels: empty, confidence, permutations, seed; by clicks: estimator, confidence, seed, margin (the
                smallest difference that matters), names (of the two), trust_propensity (whether propensities
                without a known uncertainty count as known), quick (whether to try only those other assumptions that
                the verdict needs), allow_trained, progress

    >>> data = RankingDataset.from_arrays([[1], [0], [1], [0]], [1, 1, 2, 2], labels=[1, 0, 1, 0])
    >>> compare([1, 0, 1, 0], [0, 1, 1, 0], data, "RR")["RR"].difference
    0.25
    """
    new, old = _scores_in(new, dataset), _scores_in(old, dataset)
    if _by_labels(clicks, propensities, new, old):
        return compare_by_labels(new, old, dataset, DEFAULT_MEASURES if measures is None else measures, **options)
    return compare_by_clicks(new, old, dataset, *_both(clicks, propensities), measures, **options)


def _scores_in(model: Any, dataset: RankingDataset) -> Any:
    """The scores in a frame, found by its columns; anything else as it is."""
    if isinstance(model, str | np.ndarray | Sequence) or hasattr(model, "predict") or hasattr(model, "ranker_"):
        return model
    from cldrank.data.scores import load_scores
    from cldrank.tables import is_frame

    return load_scores(model, dataset) if is_frame(model) and isinstance(dataset, RankingDataset) else model


def _by_labels(clicks: ClickTable | None, propensities: Curve | None, *models: Any) -> bool:
    """Whether nothing but labels is given to judge by; "production" is refused then."""
    if clicks is not None or propensities is not None:
        return False
    if any(isinstance(model, str) and model == PRODUCTION for model in models):
        raise UsageError('"production" is the order of a log: give clicks= and propensities= to judge it by.')
    return True


def _both(clicks: ClickTable | None, propensities: Curve | None) -> tuple[ClickTable, Curve]:
    if clicks is None or propensities is None:
        missing = "clicks" if clicks is None else "propensities"
        raise UsageError(f"to judge by clicks, give clicks= and propensities=; {missing} are missing.")
    return clicks, propensities
