"""`compare_by_clicks` and `evaluate_by_clicks`: rankers judged without labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.arguments import check_number, check_whole
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankError, CldrankWarning, DataError, UsageError, warn
from cldrank.evaluation.click_measures import ClickMeasure, default_measures, parse_click_measures
from cldrank.evaluation.click_results import ClickComparison, ClickEvaluation, MeasuredPair, SensitivityCheck
from cldrank.evaluation.deciding import judge_pair
from cldrank.evaluation.estimating import ClickEstimator
from cldrank.evaluation.logged import LoggedClicks
from cldrank.evaluation.off_policy import OffPolicy, off_policy
from cldrank.evaluation.orders import PRODUCTION, RankOrder, order_of
from cldrank.evaluation.sensitivity import check_curves, check_models, check_naive, run_placebo
from cldrank.evaluation.settling import ways_to_settle
from cldrank.evaluation.support import look_at_support
from cldrank.evaluation.unseen import look_at_unseen
from cldrank.methods.evidence import check_affine, check_clicks, check_propensities
from cldrank.propensity import AffineClicks
from cldrank.propensity.segment_propensities import Curve
from cldrank.wording import count

DEFAULT_ESTIMATOR = "doubly-robust"
_MARGIN = 0.01  # of the old ranker's value: the smallest difference that matters
_FEWEST_CLICKED = 2
_USER = "a verdict from clicks"
_OF_JUDGE = ("estimator", "confidence", "seed")
Progress = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class ClickJudge:
    """A log that is ready to judge rankers.

    clicks          estimates measures, as yet without a model of the unseen
    rows            (rows,) of the dataset, those of the queries that are judged by
    n_rows          of the whole dataset
    left_out        queries left out, since a ranker was trained on them
    """

    clicks: ClickEstimator
    rows: IntArray
    n_rows: int
    left_out: int = 0

    @classmethod
    def of(
        cls,
        dataset: RankingDataset,
        clicks: ClickTable,
        propensities: Curve,
        *,
        estimator: str | OffPolicy = DEFAULT_ESTIMATOR,
        confidence: float = 0.9,
        seed: int = 0,
        trained: NDArray[np.bool_] | None = None,
    ) -> ClickJudge:
        """Check what is given.

        trained   (queries,) those that a ranker was trained on, and that are left out
        """
        check_number("confidence", confidence, above=0, below=1)
        check_whole("seed", seed, least=0)
        chosen = off_policy(estimator)
        check_clicks(clicks, dataset, _USER)
        check: Any = check_affine if isinstance(propensities, AffineClicks) else check_propensities
        curve = check(propensities, clicks, _USER, None)
        searched = clicks.query_impressions > 0
        kept = np.flatnonzero(searched if trained is None else searched & ~trained)
        left_out = int(searched.sum()) - len(kept)
        log = LoggedClicks(dataset[kept], clicks[kept], curve)
        _check_log(log, left_out)
        rows = segments.rows_of_segments(dataset.offsets, kept)
        estimates = ClickEstimator(log, chosen, None, float(confidence), seed)
        return cls(estimates, rows, dataset.n_rows, left_out)

    def learned(self, *orders: RankOrder) -> tuple[ClickEstimator, str]:
        """What estimates measures of some orders, with a model of the unseen; or, without one, the reason why not."""
        try:
            return self.clicks.learned(*orders), ""
        except CldrankError as error:
            chosen = self.clicks.estimator
            return replace(self.clicks, estimator=off_policy("affine") if chosen.uses_model else chosen), str(error)

    def order(self, model: Any, name: str) -> RankOrder:
        """The order of a ranker, of scores of all rows of the dataset, or of the log itself."""
        if not isinstance(model, str) and not hasattr(model, "predict") and not hasattr(model, "ranker_"):
            scores = np.asarray(model)
            if scores.ndim and len(scores) != self.n_rows:
                raise DataError(f"{name} has {len(scores):,} scores for {self.n_rows:,} candidates.")
            model = scores[self.rows] if scores.ndim else model
        return order_of(model, self.clicks.log, name)

    def measures(self, named: Any = None) -> list[ClickMeasure]:
        """The measures that are named, or all."""
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
        quick: bool = False,
        progress: Progress | None = None,
    ) -> ClickComparison:
        """Compare two rankers; see `cldrank.compare`.

        margin             the smallest difference that matters, in units of the first measure; 1% of old's by default
        trust_propensity   whether a curve without a known uncertainty counts as known, rather than assumed; and is
                           used even where the log's own pages show another
        quick              whether to try only those other assumptions that the verdict needs, rather than all
        """
        wanted = self.measures(measures)
        ours, theirs = self.order(new, names[0]), self.order(old, names[1])
        clicks, reason = self.learned(ours, theirs)
        pairs = {str(one): _pair(clicks, one, ours, theirs) for one in wanted}
        first, pair = wanted[0], pairs[str(wanted[0])]
        least = _MARGIN * abs(pair.old.interval.estimate) if margin is None else check_number("margin", margin, least=0)
        if progress is not None:
            progress("trying other assumptions")
        estimated = clicks.log.curve.uncertain
        checks, notes = _checks((clicks, first, ours, theirs, least), quick, estimated or trust_propensity)
        placebo = run_placebo(clicks, first, ours if pair.gain.estimate > 0 else theirs)
        unseen = look_at_unseen(clicks, first, ours, theirs, reason)
        verdict = judge_pair(pair, least, unseen, checks, placebo, estimated or trust_propensity)
        return ClickComparison(
            data=clicks.log.data.name,
            synthetic=clicks.log.data.synthetic,
            new=ours.name,
            old=theirs.name,
            estimator=clicks.estimator.label,
            curve=clicks.log.curve.origin,
            curve_is_estimated=estimated,
            measures=pairs,
            support=look_at_support(clicks, first, ours, theirs),
            unseen=unseen,
            checks=checks,
            placebo=placebo,
            verdict=verdict,
            settling=ways_to_settle(clicks, first, ours, theirs, pair, unseen, verdict),
            left_out=self.left_out,
            notes=tuple(notes),
        )

    def evaluate(self, model: Any, measures: Any = None, *, name: str = "the ranker") -> ClickEvaluation:
        """Measure one ranker; see `cldrank.evaluate`."""
        wanted, order = self.measures(measures), self.order(model, name)
        clicks, reason = self.learned(order)
        return ClickEvaluation(
            data=clicks.log.data.name,
            synthetic=clicks.log.data.synthetic,
            ranker=order.name,
            estimator=clicks.estimator.label,
            curve=clicks.log.curve.origin,
            curve_is_estimated=clicks.log.curve.uncertain,
            measures={str(one): clicks.estimate(one, order) for one in wanted},
            support=look_at_support(clicks, wanted[0], order, None),
            unseen=look_at_unseen(clicks, wanted[0], order, None, reason),
            left_out=self.left_out,
        )


def _pair(clicks: ClickEstimator, measure: ClickMeasure, new: RankOrder, old: RankOrder) -> MeasuredPair:
    both = (clicks.estimate(measure, new), clicks.estimate(measure, old))
    return MeasuredPair(str(measure), measure.higher_is_better, *both, clicks.compare(measure, new, old))


def _checks(
    given: tuple[ClickEstimator, ClickMeasure, RankOrder, RankOrder, float], quick: bool, curve_is_sure: bool
) -> tuple[tuple[SensitivityCheck, ...], list[str]]:
    """The first measure under other assumptions, and notes on those that could not be tried."""
    curves = () if quick and curve_is_sure else check_curves(*given)
    clicks = given[0]
    has_model = clicks.model is not None and clicks.estimator.uses_model
    models, notes = check_models(*given) if has_model and not quick else ([], [])
    return (*curves, *models, *([] if quick else [check_naive(*given)])), notes


def _check_log(log: LoggedClicks, left_out: int) -> None:
    """Refuse a log that says nothing about the variation between queries; warn where relevance has no limit."""
    if not log.data.n_queries:
        raise DataError(
            f"all {left_out:,} queries of the log were trained on, and a ranker is judged on queries that it has not "
            "seen: hold some out of training (`cldrank train --hold-out 0.2`, or cldrank.held_out), or give a log of "
            "other queries."
        )
    clicked = np.unique(log.queries[log.clicks.row[log.clicks.clicks > 0]])
    if len(clicked) < _FEWEST_CLICKED:
        apart = f", apart from those that a ranker was trained on ({left_out:,})" if left_out else ""
        raise DataError(
            f"{count(len(clicked), 'query has', 'queries have')} clicks{apart}; {_USER} needs {_FEWEST_CLICKED}, since "
            "it rests on how much queries differ."
        )
    if log.clicks.every_click:
        warn(
            CldrankWarning(
                "the log counts every click, so a result may have more than one per impression; nDCG and the "
                "bounds of the unseen take one to be the most. Aggregate it without `every_click=True`."
            )
        )


def compare_by_clicks(
    new: Any,
    old: Any,
    dataset: RankingDataset,
    clicks: ClickTable,
    propensities: Curve,
    measures: Any = None,
    *,
    allow_trained: bool = False,
    **options: Any,
) -> ClickComparison:
    """Compare two rankers by clicks; `options` are those of `ClickJudge.of` and of `ClickJudge.compare`."""
    own: dict[str, Any] = {name: options.pop(name) for name in _OF_JUDGE if name in options}
    if options.get("trust_propensity"):
        propensities = propensities.trusted()
    judge, notes = _judge((new, old), dataset, clicks, propensities, allow_trained, own)
    found = judge.compare(new, old, measures, **options)
    return replace(found, notes=(*notes, *found.notes))


def evaluate_by_clicks(
    model: Any,
    dataset: RankingDataset,
    clicks: ClickTable,
    propensities: Curve,
    measures: Any = None,
    *,
    allow_trained: bool = False,
    name: str = "the ranker",
    **options: Any,
) -> ClickEvaluation:
    """Measure a ranker by clicks; `options` are those of `ClickJudge.of`."""
    judge, notes = _judge((model,), dataset, clicks, propensities, allow_trained, options)
    return replace(judge.evaluate(model, measures, name=name), notes=notes)


def _judge(
    models: tuple[Any, ...],
    dataset: RankingDataset,
    clicks: ClickTable,
    propensities: Curve,
    allow_trained: bool,
    options: dict[str, Any],
) -> tuple[ClickJudge, tuple[str, ...]]:
    """The judge, and what a reader of its results must know."""
    if not isinstance(dataset, RankingDataset):
        raise UsageError("rankers are judged on a RankingDataset; load one with load(path).")
    trained = _trained(models, dataset)
    notes: tuple[str, ...] = ()
    judge = ClickJudge.of(dataset, clicks, propensities, trained=None if allow_trained else trained, **options)
    if allow_trained and (again := int((trained & (clicks.query_impressions > 0)).sum())):
        text = f"{count(again, 'query', 'queries')} of the log {'was' if again == 1 else 'were'} trained on"
        notes = (f"{text}, so the result flatters the ranker.",)
        warn(CldrankWarning(notes[0]))
    return judge, notes


def _trained(models: tuple[Any, ...], dataset: RankingDataset) -> NDArray[np.bool_]:
    """(queries,) those that any of the rankers remembers."""
    found = np.zeros(dataset.n_queries, dtype=bool)
    for model in models:
        ranker = getattr(model, "ranker_", model)
        saw = None if not hasattr(ranker, "saw") else ranker.saw(dataset.query_ids)
        if saw is not None:
            found |= saw
    return found


__all__ = ["PRODUCTION", "ClickJudge", "compare_by_clicks", "evaluate_by_clicks"]
