"""Rankers judged by labels: measures with intervals over queries, and paired comparisons."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cldrank.arguments import check_number, check_whole, shortened
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
from cldrank.wording import kind_of

if TYPE_CHECKING:
    from cldrank.documents import Document

DEFAULT_MEASURES = ("nDCG@1", "nDCG@3", "nDCG@5", "nDCG@10", "AP", "RR")

Measures = str | Measure | Iterable[str | Measure]
Value = TypeVar("Value")


class MeasuredResult(Mapping[str, Value], ABC):
    """A result by the name of a measure, any spelling of which finds the entry; it is shown as its document."""

    @property
    @abstractmethod
    def _entries(self) -> Mapping[str, Value]:
        """The values by measure."""

    @abstractmethod
    def document(self) -> Document:
        """What is printed, and shown in a notebook."""

    def __getitem__(self, measure: str | Measure) -> Value:
        name = str(measure)
        with suppress(UsageError):  # clicks know measures that labels do not
            name = str(parse(measure))
        for known, value in self._entries.items():
            if known.casefold() == name.casefold():
                return value
        raise KeyError(f"{measure}; there are {', '.join(self)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __str__(self) -> str:
        from cldrank.documents import terminal_text

        return terminal_text(self.document())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from cldrank.documents import render_notebook

        return render_notebook(self.document())

    def to_html(self) -> str:
        """One page that needs no other file."""
        from cldrank.documents import render_html

        return render_html(self.document())


@dataclass(frozen=True, repr=False)
class Evaluation(MeasuredResult[float]):
    """The measures of a ranker on a dataset: a mapping from their text form to their mean over queries.

    per_query   the value of each query for each measure; NaN where a query without a relevant document is skipped
    empty       whether a query without a relevant document counts 0 ("zero") or is left out ("skip")
    confidence, seed    of the intervals
    fingerprint   of the dataset

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[3], [2], [1], [1], [2]], [1, 1, 1, 2, 2], labels=[0, 1, 2, 0, 1])
    >>> result = cr.evaluate(data.features[:, 0], data, ["nDCG@2", "AP"])
    >>> dict(result), result.queries
    ({'nDCG@2': 0.5868, 'AP': 0.7916}, 2)
    """

    ranker: str
    data: str
    synthetic: bool
    queries: int
    per_query: Mapping[Measure, NDArray[np.float64]]
    empty: Empty = "zero"
    confidence: float = 0.9
    seed: int = 0
    fingerprint: str = ""

    @cached_property
    def _entries(self) -> Mapping[str, float]:
        return {str(measure): mean(values) for measure, values in self.per_query.items()}

    @cached_property
    def intervals(self) -> Mapping[Measure, Interval]:
        """The mean of each measure with its bootstrap interval over queries; absent where a single query counts."""
        return {
            measure: bootstrap_interval(values, self.confidence, seed=self.seed)
            for measure, values in self.per_query.items()
            if np.count_nonzero(~np.isnan(values)) > 1
        }

    def document(self) -> Document:
        """The measures with their intervals."""
        from cldrank.evaluation.result_documents import evaluation_document

        return evaluation_document(self)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the values of single queries, ready for JSON."""
        names = ("ranker", "data", "synthetic", "queries", "fingerprint", "empty")
        measures = {name: {"mean": value} for name, value in self.items()}
        for measure, interval in self.intervals.items():
            measures[str(measure)] |= _ends(interval)
        return {**{name: getattr(self, name) for name in names}, "measures": measures}


@dataclass(frozen=True, repr=False)
class RankerComparison(MeasuredResult[Comparison]):
    """Two rankers on a dataset, new minus old: a mapping from a measure's text form to the paired comparison.

    new, old       what they are called
    evaluations    of new, and of old

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[1], [0], [1], [0]], [1, 1, 2, 2], labels=[1, 0, 1, 0])
    >>> comparison = cr.compare([1, 0, 1, 0], [0, 1, 1, 0], data, ["RR", "AP"])
    >>> list(comparison), comparison["RR"].difference
    (['RR', 'AP'], 0.25)
    """

    data: str
    synthetic: bool
    new: str
    old: str
    evaluations: tuple[Evaluation, Evaluation]
    differences: Mapping[Measure, Comparison]

    @property
    def _entries(self) -> Mapping[str, Comparison]:
        return {str(measure): comparison for measure, comparison in self.differences.items()}

    def document(self) -> Document:
        """Both rankers, their difference, and how many queries each wins."""
        from cldrank.evaluation.result_documents import comparison_document

        return comparison_document(self)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the values of single queries, ready for JSON, in the shape of a comparison by clicks."""
        new, old = self.evaluations
        return {
            "data": self.data,
            "synthetic": self.synthetic,
            "new": self.new,
            "old": self.old,
            "measures": {
                str(measure): {
                    "new": new[measure],
                    "old": old[measure],
                    **{name: value for name, value in vars(pair).items() if name != "interval"},
                    **_ends(pair.interval),
                }
                for measure, pair in self.differences.items()
            },
        }


def evaluate_by_labels(
    model: Any, dataset: RankingDataset, measures: Any, empty: Empty, confidence: float, seed: int, name: str
) -> Evaluation:
    """Measure how well a model ranks the candidates of a dataset, against its labels; see `cldrank.evaluate`."""
    wanted = parse_all(DEFAULT_MEASURES if measures is None else measures)
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
    check_number("confidence", confidence, above=0, below=1)
    check_whole("seed", seed, least=0)
    per_query = compute(wanted, scores_of(model, dataset), dataset.labels, dataset.offsets, empty=empty)
    about = (name, dataset.name, dataset.synthetic, dataset.n_queries)
    return Evaluation(*about, per_query, empty, confidence, seed, dataset.fingerprint)


def compare_by_labels(
    models: tuple[Any, Any],
    names: tuple[str, str],
    dataset: RankingDataset,
    measures: Any,
    empty: Empty,
    confidence: float,
    seed: int,
) -> RankerComparison:
    """Compare two models query by query; see `cldrank.compare`."""
    new, old = (
        evaluate_by_labels(model, dataset, measures, empty, confidence, seed, name)
        for model, name in zip(models, names, strict=True)
    )
    return compare_evaluations(new, old, confidence, seed)


def compare_evaluations(new: Evaluation, old: Evaluation, confidence: float, seed: int) -> RankerComparison:
    """Compare two rankers by their values on the same queries."""
    differences = {
        measure: paired_comparison(values, old.per_query[measure], confidence, seed=seed)
        for measure, values in new.per_query.items()
    }
    return RankerComparison(new.data, new.synthetic, new.ranker, old.ranker, (new, old), differences)


def data_label(name: str, synthetic: bool) -> str:
    """The name of data in a report; synthetic data is never shown without that word.

    >>> data_label("web10k-like", synthetic=True)
    'web10k-like (synthetic)'
    """
    return f"{name or 'unnamed data'}{' (synthetic)' if synthetic else ''}"


def scores_of(model: Any, dataset: RankingDataset) -> Any:
    """The scores of a model: ours get the dataset and check its features by name, others get the table."""
    from cldrank.rankers import LinearRanker, NetworkRanker, Ranker

    model = getattr(model, "ranker_", model)
    if isinstance(model, LinearRanker | NetworkRanker):
        dataset.check_complete(kind_of(model))
    if isinstance(model, Ranker):
        return model.predict(dataset)
    if hasattr(model, "predict"):
        parts = [np.asarray(model.predict(part.features), dtype=np.float64) for part in dataset.blocks()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    scores = np.asarray(model)
    if scores.dtype == object:
        raise UsageError(f"{type(model).__name__} cannot score: pass a fitted method, a ranker, or an array of scores.")
    return scores


def _ends(interval: Interval) -> dict[str, float]:
    return {"low": interval.low, "high": interval.high, "confidence": interval.confidence}
