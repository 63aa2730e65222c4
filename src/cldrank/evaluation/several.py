"""Several rankers held against the same other at once, and which of them to try first online."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cldrank.data.dataset import RankingDataset
from cldrank.errors import UsageError
from cldrank.evaluation.by_labels import MeasuredResult, RankerComparison, compare_evaluations, evaluate_by_labels
from cldrank.evaluation.click_results import ClickComparison
from cldrank.evaluation.decision_rule import Decision, decide
from cldrank.measures import Empty, Interval
from cldrank.measures.simultaneous import confidence_of_each

if TYPE_CHECKING:
    from cldrank._typing import Floats
    from cldrank.documents import Document
    from cldrank.evaluation.judge import ClickJudge

PairComparison = ClickComparison | RankerComparison


@dataclass(frozen=True, repr=False, kw_only=True)
class SeveralComparisons(MeasuredResult[PairComparison]):
    """Several rankers, each compared with the same old one: `comparisons["trees"]` is that of `trees`.

    old                what they are compared with
    measure            the measure that decides
    confidence         that all differences in it lie within their intervals
    confidence_each    of each of these intervals by itself
    comparisons        by ranker
    decisions          by ranker, each by its interval; by labels with a margin of 0
    try_first          the ranker with the highest estimate among those that are not worse; None if all are
    not_told_apart     those of the others that are not worse either, and may be better than it

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[1], [0]] * 8, [query // 2 for query in range(16)], labels=[1, 0] * 8)
    >>> several = cr.compare({"good": [1, 0] * 8, "bad": [0, 1] * 8}, data.features[:, 0], data, "RR")
    >>> several.decisions, several.try_first
    ({'good': 'no difference', 'bad': 'worse'}, 'good')
    """

    data: str
    synthetic: bool
    old: str
    measure: str
    confidence: float
    confidence_each: float
    comparisons: Mapping[str, PairComparison]
    decisions: Mapping[str, Decision]
    try_first: str | None
    not_told_apart: tuple[str, ...]

    @property
    def _entries(self) -> Mapping[str, PairComparison]:
        return self.comparisons

    def __getitem__(self, ranker: Any) -> PairComparison:
        return self.comparisons[ranker]

    @property
    def decision(self) -> Decision:
        """That of the ranker to try first; worse, if there is none."""
        return "worse" if self.try_first is None else self.decisions[self.try_first]

    @property
    def words(self) -> str:
        """The choice and its decision in words."""
        if self.try_first is None:
            return f"keep {self.old}: all others are worse"
        pair = self.comparisons[self.try_first]
        said = pair.verdict.words if isinstance(pair, ClickComparison) else self.decision
        return f"try {self.try_first} first: {said}"

    def interval(self, ranker: str) -> Interval:
        """The difference of a ranker in the measure that decides."""
        return self.comparisons[ranker][self.measure].interval

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON; of each ranker what a comparison of two has."""
        own = ("data", "synthetic", "old", "measure", "confidence", "confidence_each", "try_first", "decision")
        return {
            **{name: getattr(self, name) for name in own},
            "not_told_apart": list(self.not_told_apart),
            "rankers": {
                name: {"decision": self.decisions[name], **comparison.as_dict()}
                for name, comparison in self.comparisons.items()
            },
        }

    def document(self) -> Document:
        """Which to try first, all differences with their intervals, and what they rest on."""
        from cldrank.evaluation.result_documents import several_document

        return several_document(self)


def several_by_labels(
    rankers: Mapping[str, Any],
    old: Any,
    name: str,
    dataset: RankingDataset,
    measures: Any,
    empty: Empty,
    confidence: float,
    seed: int,
) -> SeveralComparisons:
    """Compare several rankers with another by labels; see `cldrank.compare`."""
    _check_names(rankers, name)
    *ours, theirs = (
        evaluate_by_labels(model, dataset, measures, empty, confidence, seed, each)
        for each, model in {**rankers, name: old}.items()
    )
    first = next(iter(theirs.per_query))
    values = np.stack([evaluation.per_query[first] for evaluation in ours]) - theirs.per_query[first]
    values = values[:, ~np.isnan(values).any(axis=0)]
    n = values.shape[1]
    moved = (values - values.sum(axis=1, keepdims=True) / max(n, 1)) / np.sqrt(max(n * (n - 1), 1))
    each = _confidence_of_each(moved, confidence, n - 1, seed)
    comparisons = {new.ranker: compare_evaluations(new, theirs, each, seed) for new in ours}
    decisions = {ranker: decide(pair[str(first)].interval, 0.0) for ranker, pair in comparisons.items()}
    by_name = {evaluation.ranker: evaluation for evaluation in ours}

    def lead(ranker: str, other: str) -> Interval:
        return compare_evaluations(by_name[ranker], by_name[other], each, seed)[str(first)].interval

    return _chosen(dataset, name, str(first), (confidence, each), comparisons, decisions, lead)


def several_by_clicks(
    judge: ClickJudge,
    rankers: Mapping[str, Any],
    old: Any,
    name: str,
    measures: Any,
    margin: float | None,
    trust_propensity: bool,
) -> SeveralComparisons:
    """Compare several rankers with another by clicks, all by the same model of relevance; see `cldrank.compare`."""
    _check_names(rankers, name)
    first, orders = judge.measures(measures)[0], {each: judge.order(model, each) for each, model in rankers.items()}
    last = judge.order(old, name)
    clicks, reason = judge.learned
    moved = np.stack([clicks.deviations(first, order, last) for order in orders.values()])
    weights = [clicks.weights(first, order, last) for order in orders.values()]
    off = [np.hypot(clicks.extrapolation_error(each), clicks.doubt_error(each)) for each in weights]
    moved = np.hstack([moved, np.diag(off)])  # nothing is known of how rankers share it, so it counts as their own
    confidence = clicks.confidence
    each = _confidence_of_each(moved, confidence, max(clicks.n_queries - 1, 1), clicks.seed)
    clicks = replace(clicks, confidence=each)
    comparisons = {
        ranker: judge.compare_orders(clicks, reason, order, last, measures, margin, trust_propensity)
        for ranker, order in orders.items()
    }
    decisions = {ranker: pair.verdict.decision for ranker, pair in comparisons.items()}

    def lead(ranker: str, other: str) -> Interval:
        return clicks.estimate(first, orders[ranker], orders[other]).interval

    return _chosen(clicks.log.data, last.name, str(first), (confidence, each), comparisons, decisions, lead)


def _chosen(
    data: RankingDataset,
    old: str,
    measure: str,
    confidences: tuple[float, float],
    comparisons: Mapping[str, PairComparison],
    decisions: Mapping[str, Decision],
    lead: Callable[[str, str], Interval],
) -> SeveralComparisons:
    """The comparisons with the choice among them; `lead` compares two of the rankers."""
    not_worse = [ranker for ranker, decision in decisions.items() if decision != "worse"]
    first = max(not_worse, key=lambda ranker: comparisons[ranker][measure].interval.estimate, default=None)
    others = [ranker for ranker in not_worse if ranker != first]
    return SeveralComparisons(
        data=data.name,
        synthetic=data.synthetic,
        old=old,
        measure=measure,
        confidence=confidences[0],
        confidence_each=confidences[1],
        comparisons=comparisons,
        decisions=decisions,
        try_first=first,
        not_told_apart=tuple(ranker for ranker in others if first is not None and lead(first, ranker).low <= 0),
    )


def _confidence_of_each(moved: Floats, confidence: float, freedom: int, seed: int) -> float:
    """The confidence of each interval, such that all differences to the old ranker lie within theirs with `confidence`.

    So do, with the same confidence, the lower ends of how far the best of the rankers is ahead of each other, whichever
    it is: multiple comparisons with the best (Hsu 1996), of which each ranker is taken for the best in turn.

    moved   (rankers, sources) how far each source of error moves the differences to the old ranker
    """
    each = confidence_of_each(moved, confidence, freedom, seed)
    for ranker in range(len(moved)):
        ahead = np.delete(moved, ranker, axis=0) - moved[ranker]
        each = max(each, confidence_of_each(ahead, confidence, freedom, seed, two_sided=False))
    return each


def _check_names(rankers: Mapping[str, Any], old: str) -> None:
    """Refuse an empty choice, and a ranker that has the name of the old one."""
    if not rankers:
        raise UsageError('no ranker is named; give at least one by its name, {"trees": ranker}, say.')
    for name in rankers:
        if not isinstance(name, str) or not name:
            raise UsageError(f"{name!r} cannot be the name of a ranker; name them by texts.")
        if name == old:
            raise UsageError(f"{name} is both a new ranker and the one to compare with; choose different `names`.")
