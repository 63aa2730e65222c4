"""`evaluate` one ranker, `compare` two: by labels, or by clicks alone, with a `ClickJudge`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.arguments import check_choice, check_number, check_whole
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankError, DataError, UsageError
from cldrank.evaluation.after_clicks import after_clicks
from cldrank.evaluation.by_labels import Evaluation, RankerComparison, compare_by_labels, evaluate_by_labels
from cldrank.evaluation.click_measures import ClickMeasure, default_measures, parse_click_measures
from cldrank.evaluation.click_results import ClickComparison, ClickEvaluation, RatingUse
from cldrank.evaluation.decision_rule import judge_pair
from cldrank.evaluation.experiment_planning import ways_to_settle
from cldrank.evaluation.exposure import PRODUCTION, LoggedClicks, RankOrder, order_of
from cldrank.evaluation.intervals import ClickEstimator, MeasuredPair
from cldrank.evaluation.sensitivity import check_curves, check_permuted
from cldrank.evaluation.several import SeveralComparisons, several_by_clicks, several_by_labels
from cldrank.evaluation.support import look_at_never_shown, look_at_support
from cldrank.measures import Empty
from cldrank.methods.evidence import check_affine, check_clicks, check_propensities
from cldrank.methods.rating_quality import usable_ratings
from cldrank.propensity import AffineClicks
from cldrank.propensity.behaviour import Behaviour, behaviour
from cldrank.propensity.segment_propensities import Curve
from cldrank.wording import count

Estimator = Literal["doubly-robust", "affine"]
_MARGIN = 0.01  # of the old ranker's value: the smallest difference that matters
_FEWEST_CLICKED = 2
_USER = "a verdict from clicks"
_NO_MODEL = "there is no model of never-shown results that they could join"


@overload
def evaluate(
    model: Any, dataset: RankingDataset, measures: Any = ..., *, clicks: None = ..., **options: Any
) -> Evaluation: ...
@overload
def evaluate(
    model: Any, dataset: RankingDataset, measures: Any = ..., *, clicks: ClickTable, propensities: Curve, **options: Any
) -> ClickEvaluation: ...
def evaluate(  # type: ignore[misc]  # which options go with clicks is checked when it is called
    model: Any,
    dataset: RankingDataset,
    measures: Any = None,
    *,
    clicks: ClickTable | None = None,
    propensities: Curve | None = None,
    confidence: float = 0.9,
    seed: int = 0,
    empty: Empty | None = None,
    estimator: Estimator | None = None,
    name: str = "the ranker",
) -> Evaluation | ClickEvaluation:
    """Measure how well a model ranks the candidates of a dataset: against its labels or, given clicks, by these alone.

    model       a fitted method, a ranker, anything with `predict(features)`, an array or a Series of scores in the
                order of the dataset, or a frame of scores (see `load_scores`); with clicks also "production", the order
                of the log itself
    measures    such as "nDCG@3"; by clicks those of `ClickMeasure`
    confidence  of the intervals
    name        of the ranker, in the result
    empty       by labels: a query without a relevant document counts 0 ("zero", the default), or is left out ("skip")
    estimator   by clicks: never-shown results count as a model predicts ("doubly-robust", the default), or as anything
                from 0 to 1 ("affine")

    Queries that the ranker was trained on are left out by clicks; by labels, that is up to you. Clicks may be `rated`:
    then ratings join in.

    >>> data = RankingDataset.from_arrays([[3], [2], [1], [1], [2]], [1, 1, 1, 2, 2], labels=[0, 1, 2, 0, 1])
    >>> evaluate(data.features[:, 0], data, ["nDCG@2", "AP"])["AP"]
    0.7916
    """
    model = _scores_in(model, dataset)
    if clicks is None or propensities is None:
        _check_for_labels(clicks, propensities, [model], estimator=estimator)
        return evaluate_by_labels(model, dataset, measures, empty or "zero", confidence, seed, name)
    _check_for_clicks(empty)
    asked: Any = {"estimator": estimator, "confidence": confidence, "seed": seed, "models": [model]}
    judge = ClickJudge.of(dataset, clicks, propensities, **asked)
    return judge.evaluate(model, measures, name=name)


@overload
def compare(
    new: Mapping[str, Any], old: Any, dataset: RankingDataset, measures: Any = ..., **options: Any
) -> SeveralComparisons: ...
@overload
def compare(
    new: Any, old: Any, dataset: RankingDataset, measures: Any = ..., *, clicks: None = ..., **options: Any
) -> RankerComparison: ...
@overload
def compare(
    new: Any,
    old: Any,
    dataset: RankingDataset,
    measures: Any = ...,
    *,
    clicks: ClickTable,
    propensities: Curve,
    **options: Any,
) -> ClickComparison: ...
def compare(  # type: ignore[misc]  # which options go with clicks is checked when it is called
    new: Any,
    old: Any,
    dataset: RankingDataset,
    measures: Any = None,
    *,
    clicks: ClickTable | None = None,
    propensities: Curve | None = None,
    names: tuple[str, str] = ("new", "old"),
    confidence: float = 0.9,
    seed: int = 0,
    empty: Empty | None = None,
    estimator: Estimator | None = None,
    margin: float | None = None,
    trust_propensity: bool = False,
) -> RankerComparison | ClickComparison | SeveralComparisons:
    """Compare two models query by query, new minus old: by the labels of a dataset or, given clicks, by these alone.

    By labels: the mean difference, its interval, and a p-value by randomisation. By clicks: a verdict, with estimates,
    what the log cannot see, and how much it depends on assumptions; either model may be "production", the order of the
    log itself.

    new         a model; or several by name, {"trees": …, "linear": …}, each compared with old: with intervals that hold
                all of their differences in the first measure at once, and which of them to try first
    measures    such as "nDCG@3"; by clicks those of `ClickMeasure`, and the first decides
    names       what to call new and old; with several new ones, only the name of old is used
    confidence  of the intervals

    empty       by labels: a query without a relevant document counts 0 ("zero", the default), or is left out ("skip")

    By clicks:

    estimator           never-shown results count as a model predicts ("doubly-robust", the default), or as anything
                        from 0 to 1 ("affine")
    margin              the smallest difference that matters, in units of the first measure; 1% of old's by default
    trust_propensity    whether propensities without a known uncertainty count as known, rather than assumed; and are
                        used even where the log's own pages show others

    Queries that a ranker was trained on are left out by clicks; by labels, that is up to you. Clicks may be `rated`:
    then ratings join in.

    >>> data = RankingDataset.from_arrays([[1], [0], [1], [0]], [1, 1, 2, 2], labels=[1, 0, 1, 0])
    >>> compare([1, 0, 1, 0], [0, 1, 1, 0], data, "RR")["RR"].difference
    0.25
    """
    several = {name: _scores_in(model, dataset) for name, model in new.items()} if isinstance(new, Mapping) else None
    rankers = {names[0]: _scores_in(new, dataset)} if several is None else several
    old = _scores_in(old, dataset)
    models = [*rankers.values(), old]
    if clicks is None or propensities is None:
        by_clicks = {"estimator": estimator, "margin": margin, "trust_propensity": trust_propensity}
        _check_for_labels(clicks, propensities, models, **by_clicks)
        asked: Any = (dataset, measures, empty or "zero", confidence, seed)
        if several is not None:
            return several_by_labels(several, old, names[1], *asked)
        return compare_by_labels((models[0], old), names, *asked)
    _check_for_clicks(empty)
    curve = propensities.trusted() if trust_propensity else propensities
    asked = {"estimator": estimator, "confidence": confidence, "seed": seed, "models": models}
    judge = ClickJudge.of(dataset, clicks, curve, **asked)
    if several is not None:
        return several_by_clicks(judge, several, old, names[1], measures, margin, trust_propensity)
    return judge.compare(models[0], old, measures, margin=margin, names=names, trust_propensity=trust_propensity)


def _scores_in(model: Any, dataset: RankingDataset) -> Any:
    """The scores in a frame, by its columns; anything else as it is."""
    if isinstance(model, str | np.ndarray | Sequence) or hasattr(model, "predict") or hasattr(model, "ranker_"):
        return model
    from cldrank.data.scores import load_scores
    from cldrank.tables import is_frame

    return load_scores(model, dataset) if is_frame(model) and isinstance(dataset, RankingDataset) else model


def _check_for_labels(clicks: Any, propensities: Any, models: Sequence[Any], **options: Any) -> None:
    """Refuse half of what judging by clicks needs, and what has no meaning for labels."""
    if clicks is not None or propensities is not None:
        missing = "clicks" if clicks is None else "propensities"
        raise UsageError(f"to judge by clicks, give clicks= and propensities=; {missing} are missing.")
    if any(isinstance(model, str) and model == PRODUCTION for model in models):
        raise UsageError('"production" is the order of a log: give clicks= and propensities= to judge it by.')
    for name, value in options.items():
        if value is not None and value is not False:
            raise UsageError(f"`{name}` is for judging by clicks, and rankers are judged by labels here.")


def _check_for_clicks(empty: Empty | None) -> None:
    if empty is not None:
        raise UsageError("`empty` is for judging by labels, and rankers are judged by clicks here.")


# -- by clicks -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ClickJudge:
    """A log that is ready to judge rankers.

    clicks          the estimator of measures, still without a model of relevance
    rows            the rows of the dataset that belong to these queries
    n_rows          of the whole dataset
    left_out        queries left out, since a ranker was trained on them
    behaviour       what the log shows of how people behave after a click
    with_model      whether a model of relevance is to be learned
    """

    clicks: ClickEstimator
    rows: IntArray
    n_rows: int
    left_out: int
    behaviour: Behaviour
    with_model: bool = True

    @classmethod
    def of(
        cls,
        dataset: RankingDataset,
        clicks: ClickTable,
        propensities: Curve,
        *,
        estimator: Estimator | None = None,
        confidence: float = 0.9,
        seed: int = 0,
        models: Sequence[Any] = (),
    ) -> ClickJudge:
        """Check the arguments, and leave out queries that any of the models was trained on."""
        if not isinstance(dataset, RankingDataset):
            raise UsageError("rankers are judged on a RankingDataset; load one with load(path).")
        check_number("confidence", confidence, above=0, below=1)
        check_whole("seed", seed, least=0)
        if estimator is not None:
            check_choice("estimator", estimator, get_args(Estimator))
        check_clicks(clicks, dataset, _USER)
        check: Any = check_affine if isinstance(propensities, AffineClicks) else check_propensities
        curve = check(propensities, clicks, _USER, None)
        searched = clicks.query_impressions > 0
        kept = np.flatnonzero(searched & ~_trained(models, dataset))
        left_out = int(searched.sum()) - len(kept)
        data, table = dataset[kept], clicks[kept]
        people = behaviour(table)
        log = LoggedClicks(data, table, curve, after_clicks(table, curve, people))
        _check_log(log, left_out)
        rows = segments.rows_of_segments(dataset.offsets, kept)
        measured = ClickEstimator(log, None, float(confidence), seed)
        return cls(measured, rows, dataset.n_rows, left_out, people, estimator != "affine")

    @cached_property
    def learned(self) -> tuple[ClickEstimator, str]:
        """The estimator of measures, with a model of relevance, or without it, and the reason why."""
        if not self.with_model:
            return self.clicks, "the affine estimator has none."
        try:
            return self.clicks.learned(), ""
        except CldrankError as error:
            return self.clicks, str(error)

    def order(self, model: Any, name: str) -> RankOrder:
        """The order of a ranker, of scores of all rows of the dataset, or of the log itself."""
        if not isinstance(model, str) and not hasattr(model, "predict") and not hasattr(model, "ranker_"):
            scores = np.asarray(model)
            if scores.ndim and len(scores) != self.n_rows:
                raise DataError(f"{name} has {len(scores):,} scores for {self.n_rows:,} candidates.")
            model = scores[self.rows] if scores.ndim else model
        return order_of(model, self.clicks.log, name)

    def measures(self, named: Any = None) -> list[ClickMeasure]:
        """The named measures, or all."""
        k = self.clicks.log.clicks.depth
        return default_measures(k) if named is None else parse_click_measures(named, k)

    def compare(
        self,
        new: Any,
        old: Any,
        measures: Any = None,
        *,
        margin: float | None = None,
        names: tuple[str, str] = ("new", "old"),
        trust_propensity: bool = False,
    ) -> ClickComparison:
        """Compare two rankers; see `cldrank.compare`."""
        orders = self.order(new, names[0]), self.order(old, names[1])
        clicks, reason = self.learned
        return self.compare_orders(clicks, reason, *orders, measures, margin, trust_propensity)

    def compare_orders(
        self,
        clicks: ClickEstimator,
        reason: str,
        ours: RankOrder,
        theirs: RankOrder,
        measures: Any,
        margin: float | None,
        trust_propensity: bool,
    ) -> ClickComparison:
        """Compare two orders by a learned estimator, whose confidence may be another; see `learned`."""
        wanted = self.measures(measures)
        pairs = {str(measure): _pair(clicks, measure, ours, theirs) for measure in wanted}
        first, pair = wanted[0], pairs[str(wanted[0])]
        least = _MARGIN * abs(pair.old.interval.estimate) if margin is None else check_number("margin", margin, least=0)
        curve_is_sure = clicks.log.curve.uncertain or trust_propensity
        checks = () if curve_is_sure else check_curves(clicks, first, ours, theirs, least)
        permuted = check_permuted(clicks, first, ours if pair.interval.estimate > 0 else theirs)
        never_shown = look_at_never_shown(clicks, first, ours, theirs, reason)
        verdict = judge_pair(pair, least, never_shown, checks, permuted, ours.name)
        return ClickComparison(
            **self._facts(clicks),
            new=ours.name,
            old=theirs.name,
            measures=pairs,
            support=look_at_support(clicks, first, ours, theirs),
            never_shown=never_shown,
            checks=checks,
            permutation_check=permuted,
            verdict=verdict,
            settling=ways_to_settle(clicks, first, ours, theirs, pair, verdict),
        )

    def evaluate(self, model: Any, measures: Any = None, *, name: str = "the ranker") -> ClickEvaluation:
        """Measure a ranker; see `cldrank.evaluate`."""
        wanted, order = self.measures(measures), self.order(model, name)
        clicks, reason = self.learned
        return ClickEvaluation(
            **self._facts(clicks),
            ranker=order.name,
            measures={str(measure): clicks.estimate(measure, order) for measure in wanted},
            support=look_at_support(clicks, wanted[0], order, None),
            never_shown=look_at_never_shown(clicks, wanted[0], order, None, reason),
        )

    def _facts(self, clicks: ClickEstimator) -> dict[str, Any]:
        """The facts of the log and of the estimator, for all results."""
        return {
            "data": clicks.log.data.name,
            "synthetic": clicks.log.data.synthetic,
            "estimator": "affine IPS" if clicks.model is None else "doubly robust",
            "curve": clicks.log.curve.origin,
            "curve_is_estimated": clicks.log.curve.uncertain,
            "behaviour": self.behaviour,
            "left_out": self.left_out,
            "ratings": _use_of_ratings(clicks),
        }


def _pair(clicks: ClickEstimator, measure: ClickMeasure, new: RankOrder, old: RankOrder) -> MeasuredPair:
    both = (clicks.estimate(measure, new), clicks.estimate(measure, old))
    return MeasuredPair(str(measure), *both, clicks.estimate(measure, new, old))


def _use_of_ratings(clicks: ClickEstimator) -> RatingUse | None:
    ratings, model = clicks.log.clicks.ratings, clicks.model
    if ratings is None:
        return None
    agreements, _, _ = usable_ratings(clicks.log.clicks, clicks.log.examined)
    if model is None:
        return RatingUse(str(ratings.account), agreements, unused=_NO_MODEL)
    return RatingUse(str(ratings.account), agreements, model.by_people)


def _trained(models: Sequence[Any], dataset: RankingDataset) -> NDArray[np.bool_]:
    """(queries,) whether any of the rankers was trained on the query."""
    trained = np.zeros(dataset.n_queries, dtype=bool)
    for model in models:
        ranker = getattr(model, "ranker_", model)
        saw = ranker.saw(dataset.query_ids) if hasattr(ranker, "saw") else None
        if saw is not None:
            trained |= saw
    return trained


def _check_log(log: LoggedClicks, left_out: int) -> None:
    """Refuse a log that says nothing about the variation between queries; warn where relevance has no limit."""
    if not log.data.n_queries:
        raise DataError(
            f"all {left_out:,} queries of the log were trained on, and a ranker is judged on others: hold some out of "
            "training (`cldrank train --hold-out 0.2`, or cldrank.held_out), or give a log of other queries."
        )
    clicked = np.unique(log.queries[log.clicks.row[log.clicks.clicks > 0]])
    if len(clicked) < _FEWEST_CLICKED:
        number = count(len(clicked), "query has", "queries have")
        apart = f", apart from those that a ranker was trained on ({left_out:,})" if left_out else ""
        raise DataError(
            f"{number} clicks{apart}; {_USER} needs {_FEWEST_CLICKED}, since it rests on how queries differ."
        )
