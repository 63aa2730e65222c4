"""Rankers judged by labels: measures with intervals over queries, and paired comparisons."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cldrank.arguments import shortened
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, UsageError
from cldrank.measures import (
    Comparison,
    Empty,
    Interval,
    Measure,
    bootstrap_interval,
    compute,
    mean,
    paired_comparison,
    parse,
    parse_all,
)

DEFAULT_MEASURES = ("nDCG@1", "nDCG@3", "nDCG@5", "nDCG@10", "AP", "RR")

Measures = str | Measure | Iterable[str | Measure]
Value = TypeVar("Value")


class _ByMeasure(Mapping[str, Value], ABC):
    """A mapping from the text form of a measure; any spelling of it finds the entry."""

    @property
    @abstractmethod
    def _entries(self) -> Mapping[Measure, Value]:
        """The values by measure."""

    def __getitem__(self, measure: str | Measure) -> Value:
        with suppress(UsageError, KeyError):
            return self._entries[parse(measure)]
        raise KeyError(f"{measure}; there are {', '.join(self)}")

    def __iter__(self) -> Iterator[str]:
        return map(str, self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, repr=False)
class Evaluation(_ByMeasure[float]):
    """The measures of one ranker on one dataset: a mapping from their text form to their mean over queries.

    per_query   one value per query for each measure; NaN where a query without a relevant document is skipped
    intervals   the mean with its bootstrap interval over queries; absent for a single query
    empty       whether a query without a relevant document counts 0 ("zero") or is left out ("skip")
    fingerprint   of the dataset

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[3], [2], [1], [1], [2]], [1, 1, 1, 2, 2], labels=[0, 1, 2, 0, 1])
    >>> result = cr.evaluate(data.features[:, 0], data, ["nDCG@2", "AP"])
    >>> dict(result), result.queries
    ({'nDCG@2': 0.5868, 'AP': 0.7916}, 2)
    """

    data: str
    synthetic: bool
    queries: int
    per_query: Mapping[Measure, NDArray[np.float64]]
    intervals: Mapping[Measure, Interval] = field(default_factory=dict)
    empty: Empty = "zero"
    fingerprint: str = ""

    @cached_property
    def _entries(self) -> Mapping[Measure, float]:
        return {measure: mean(values) for measure, values in self.per_query.items()}

    def __str__(self) -> str:
        width = max(len(name) for name in self)
        lines = [f"{data_label(self.data, self.synthetic)}, {self.queries:,} queries"]
        for measure in self.per_query:
            value = f"{self.intervals[measure]:.4f}" if measure in self.intervals else f"{self[measure]:.4f}"
            lines.append(f"  {measure!s:<{width}}  {value}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from cldrank.documents import render_notebook
        from cldrank.evaluation.result_documents import evaluation_document

        return render_notebook(evaluation_document(self))

    def as_dict(self) -> dict[str, Any]:
        """Everything but the values of single queries, ready for JSON."""
        return {
            "data": self.data,
            "synthetic": self.synthetic,
            "queries": self.queries,
            "fingerprint": self.fingerprint,
            "empty": self.empty,
            "measures": {
                str(measure): {"mean": self[measure], **_bounds(self.intervals.get(measure))}
                for measure in self.per_query
            },
        }


def evaluate_by_labels(
    model: Any,
    dataset: RankingDataset,
    measures: Measures = DEFAULT_MEASURES,
    *,
    empty: Empty = "zero",
    confidence: float = 0.9,
    replicates: int = 2000,
    seed: int = 0,
) -> Evaluation:
    """Measure how well a model ranks the candidates of a dataset, against its labels.

    model       a fitted method, a ranker, anything with `predict(features)`, or an array of scores
    empty       a query without a relevant document counts 0 ("zero"), or is left out ("skip")
    confidence  of the bootstrap intervals over queries, from `replicates` draws

    >>> data = RankingDataset.from_arrays([[3], [2], [1], [1], [2]], [1, 1, 1, 2, 2], labels=[0, 1, 2, 0, 1])
    >>> evaluate_by_labels(data.features[:, 0], data, ["nDCG@2", "AP"])["AP"]
    0.7916
    """
    per_query = _per_query(model, dataset, parse_all(measures), empty)
    intervals = {
        measure: bootstrap_interval(values, confidence, replicates, seed)
        for measure, values in per_query.items()
        if np.count_nonzero(~np.isnan(values)) > 1
    }
    return _evaluation(dataset, per_query, intervals, empty)


@dataclass(frozen=True, repr=False)
class RankerComparison(_ByMeasure[Comparison]):
    """Two rankers on one dataset, first minus second: a mapping from a measure's text form to the paired comparison.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[1], [0], [1], [0]], [1, 1, 2, 2], labels=[1, 0, 1, 0])
    >>> found = cr.compare([1, 0, 1, 0], [0, 1, 1, 0], data, ["RR", "AP"])
    >>> list(found), found["RR"].difference
    (['RR', 'AP'], 0.25)
    """

    data: str
    synthetic: bool
    first: Evaluation
    second: Evaluation
    differences: Mapping[Measure, Comparison]

    @property
    def _entries(self) -> Mapping[Measure, Comparison]:
        return self.differences

    def __str__(self) -> str:
        width = max(len(name) for name in self)
        lines = [f"{data_label(self.data, self.synthetic)}, first minus second"]
        lines += [f"  {measure!s:<{width}}  {comparison}" for measure, comparison in self.differences.items()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from cldrank.documents import render_notebook
        from cldrank.evaluation.result_documents import comparison_document

        return render_notebook(comparison_document(self))

    def as_dict(self) -> dict[str, Any]:
        """Everything but the values of single queries, ready for JSON."""
        return {
            "data": self.data,
            "synthetic": self.synthetic,
            "measures": {
                str(measure): {
                    "first": self.first[measure],
                    "second": self.second[measure],
                    "difference": found.difference,
                    **_bounds(found.interval),
                    "p_value": found.p_value,
                    "queries": found.n,
                    "wins": found.wins,
                    "ties": found.ties,
                    "losses": found.losses,
                }
                for measure, found in self.differences.items()
            },
        }


def compare_by_labels(
    first: Any,
    second: Any,
    dataset: RankingDataset,
    measures: Measures = DEFAULT_MEASURES,
    *,
    empty: Empty = "zero",
    confidence: float = 0.9,
    permutations: int = 10_000,
    seed: int = 0,
) -> RankerComparison:
    """Compare two models query by query: the mean difference, its interval, and a p-value by randomisation.

    >>> data = RankingDataset.from_arrays([[1], [0], [1], [0]], [1, 1, 2, 2], labels=[1, 0, 1, 0])
    >>> compare_by_labels([1, 0, 1, 0], [0, 1, 1, 0], data, "RR")["RR"].difference
    0.25
    """
    wanted = parse_all(measures)
    evaluations = [
        _evaluation(dataset, _per_query(model, dataset, wanted, empty), {}, empty) for model in (first, second)
    ]
    differences = {
        measure: paired_comparison(
            evaluations[0].per_query[measure],
            evaluations[1].per_query[measure],
            confidence,
            permutations,
            seed,
            higher_is_better=measure.higher_is_better,
        )
        for measure in wanted
    }
    return RankerComparison(dataset.name, dataset.synthetic, evaluations[0], evaluations[1], differences)


def data_label(name: str, synthetic: bool) -> str:
    """The name of data in a report; synthetic data is never shown without that word.

    >>> data_label("web10k-like", synthetic=True)
    'web10k-like (synthetic)'
    """
    return f"{name or 'data without a name'}{' (synthetic)' if synthetic else ''}"


def _evaluation(
    dataset: RankingDataset,
    per_query: Mapping[Measure, NDArray[np.float64]],
    intervals: Mapping[Measure, Interval],
    empty: Empty,
) -> Evaluation:
    data = (dataset.name, dataset.synthetic, dataset.n_queries)
    return Evaluation(*data, per_query, intervals, empty, dataset.fingerprint)


def _per_query(
    model: Any, dataset: RankingDataset, measures: list[Measure], empty: Empty
) -> dict[Measure, NDArray[np.float64]]:
    if not isinstance(dataset, RankingDataset):
        raise UsageError(
            f"measures are taken on a RankingDataset, not on {shortened(dataset)}; load one with load(path)."
        )
    if dataset.labels is None:
        raise DataError(
            f"{dataset!r} has no labels; measures need them. Add some, or judge by `clicks` and `propensities`."
        )
    if dataset.n_queries == 0:
        raise DataError(f"{dataset!r} has no queries; there is nothing to measure.")
    return compute(measures, scores_of(model, dataset), dataset.labels, dataset.offsets, empty=empty)


def scores_of(model: Any, dataset: RankingDataset) -> Any:
    """The scores of a model: ours get the dataset and check its features by name, others get the table."""
    from cldrank.rankers import Ranker

    model = getattr(model, "ranker_", model)
    if isinstance(model, Ranker):
        return model.predict(dataset)
    if hasattr(model, "predict"):
        parts = [np.asarray(model.predict(part.features), dtype=np.float64) for part in dataset.blocks()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    scores = np.asarray(model)
    if scores.dtype == object:
        raise UsageError(f"{type(model).__name__} cannot score: pass a fitted method, a ranker, or an array of scores.")
    return scores


def _bounds(interval: Interval | None) -> dict[str, float]:
    if interval is None:
        return {}
    return {"low": interval.low, "high": interval.high, "confidence": interval.confidence}
