"""`Safe`: a method whose ranker departs from production only as far as the clicks support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank import segments
from cldrank.arguments import check_number
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.data.query_hash import hashes_of, held_out
from cldrank.distillation import within_spread
from cldrank.errors import CldrankWarning, DataError, UsageError, warn
from cldrank.evaluation import ClickJudge
from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.exposure import PRODUCTION, ScoreOrder
from cldrank.evaluation.sensitivity import check_permuted
from cldrank.measures import Interval
from cldrank.methods import Method
from cldrank.methods.evidence import check_clicks, check_dataset, needed
from cldrank.methods.needs import Needs, uses_clicks, uses_curve
from cldrank.methods.recording import clicks_record, curve_records
from cldrank.propensity.segment_propensities import Curve
from cldrank.rankers import Ranker, blended
from cldrank.rankers.provenance import IMITATION, SafetyRecord
from cldrank.safety.imitation import check_production, feature_alone, imitate, shown_alike
from cldrank.wording import kind_of

_SHARES = tuple(step / 10 for step in range(11))
_UPWARDS = 0.8  # of the chance of an error that is allowed: the way up has more to do with small gains
_LIKE = 0.8  # of production's results, those that its score must explain
_SEED = 1  # of the hashes that hold queries out: not those that `cldrank train --hold-out` holds out


class UnsafeError(DataError):
    """The clicks do not show that any ranker is safe, not even an imitation of production: keep production.

    >>> from cldrank.errors import CldrankError
    >>> issubclass(UnsafeError, CldrankError)
    True
    """


@dataclass(frozen=True)
class BlendTrial:
    """A blend, judged against production.

    gain      over production, less that of permuted clicks, with the interval that counts on the way up
    strict    the lower end that counts on the way down from the learned ranker, at a higher confidence
    permuted  what it seems to gain with clicks permuted within positions, for a curve that is too steep; at least 0

    >>> BlendTrial(0.5, Interval(0.02, -0.01, 0.05, 0.92, n=500), strict=-0.02).gain.low
    -0.01
    """

    share: float
    gain: Interval
    strict: float
    permuted: float = 0.0


@dataclass(eq=False)
class Safe:
    """Train a method, and keep its ranker as near to production as the clicks on other queries demand.

        score = (1 - share) * imitation of production + share * learned ranker, both in units of their own spread

    Shares 0, 0.1, … 1 are judged against production, the order of the log, by the clicks on queries held out, by DCG at
    the length of a page. A share is safe if the lower end of its gain is not below minus the margin, and so it is for
    all shares below, or for all above. Of the safe shares, that with the highest gain is kept. If none is safe, not
    even the imitation, `fit` raises `UnsafeError`: keep production.

    method       what to train; it is fitted to the queries that are not held out
    margin       how much worse than production the ranker may be, as a share of production's DCG
    confidence   that no unsafe ranker is kept, whatever the number of shares
    hold_out     the share of queries that judge
    production   the feature that is production's score, if any; then share 0 is production itself

    A fit leaves `ranker_`, `safety_` (what was chosen, and why), and `trials_` (all shares). The ranker remembers the
    queries that judged among those it was trained on, since their clicks chose it.

    >>> import cldrank as cr
    >>> cr.safety.Safe(cr.CLD(), margin=0.02)
    Safe(method=CLD(), margin=0.02, confidence=0.95, hold_out=0.3, production=None)
    """

    method: Method
    margin: float = 0.01
    confidence: float = 0.95
    hold_out: float = 0.3
    production: str | None = None

    ranker_: Ranker = field(init=False, repr=False)
    safety_: SafetyRecord = field(init=False, repr=False)
    trials_: tuple[BlendTrial, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.method, Method):
            raise UsageError(f"Safe trains a method such as CLD(), not {kind_of(self.method)}.")
        if not uses_clicks(self.method.required):
            raise UsageError(f"{self.method.label} learns from labels, and safe training judges by clicks.")
        if not self.method.blends:
            raise UsageError(f"{self.method.label} cannot be blended with production; train another method safely.")
        check_number("margin", self.margin, least=0, below=1)
        check_number("confidence", self.confidence, least=0.5, below=1)
        check_number("hold_out", self.hold_out, above=0, below=1)

    def fit(self, dataset: RankingDataset, clicks: ClickTable, propensities: Curve) -> Self:
        """Learn from a dataset, the clicks on it, and the propensities of positions, which judging always needs."""
        held = self._judging_queries(dataset, clicks, propensities)
        usual, strict = confidences(self.confidence)
        judge = ClickJudge.of(dataset[held], clicks[held], propensities, confidence=usual)
        part, part_clicks = dataset[~held], clicks[~held]
        self.method.fit(part, *needed(self.method.required, part_clicks, propensities))
        blends = self._blends(part, part_clicks, dataset.has_missing)
        measure = ClickMeasure("DCG", clicks.depth)
        trials, value = judge_blends(judge, measure, blends, strict)
        overlap = self._overlap(judge, blends[0.0])
        safe = safe_trials(trials, self.margin * value)
        if not safe:
            raise self._unsafe(trials[0], str(measure), value, overlap)
        chosen = max(safe, key=lambda trial: (trial.gain.estimate, -trial.share))
        self.trials_ = tuple(trials)
        self.safety_ = SafetyRecord(
            share=chosen.share,
            production=IMITATION if self.production is None else self.production,
            overlap=overlap,
            measure=str(measure),
            margin=self.margin * value,
            value=value,
            gain=chosen.gain.estimate,
            low=chosen.gain.low,
            high=chosen.gain.high,
            confidence=usual,
            queries=judge.clicks.n_queries,
            tried={f"{trial.share:g}": trial.gain.low for trial in trials},
        )
        self.ranker_ = self._described(blends[chosen.share], dataset, clicks, propensities)
        return self

    def predict(self, X: RankingDataset | ArrayLike) -> NDArray[np.float64]:
        """The score of each row."""
        if not hasattr(self, "ranker_"):
            raise UsageError("this Safe has not learned anything yet; call fit first.")
        return self.ranker_.predict(X)

    @property
    def required(self) -> Needs:
        """What it needs: judging by clicks takes propensities, whatever the method does."""
        return self.method.required if uses_curve(self.method.required) else "propensities"

    def _own(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("margin", "confidence", "hold_out", "production")}

    def _judging_queries(self, dataset: Any, clicks: Any, propensities: Any) -> NDArray[np.bool_]:
        """The queries that judge; what cannot be judged by them is refused before anything is fitted."""
        check_clicks(clicks, check_dataset(dataset, self.method.label), self.method.label)
        if propensities is None:
            raise UsageError(
                "safe training judges by clicks, which needs `propensities` of positions, whatever the method."
            )
        if self.production is not None:
            check_production(self.production, dataset)
        held, searched = held_out(dataset.query_ids, self.hold_out, _SEED), clicks.query_impressions > 0
        for side, verb in ((held, "judge by"), (~held, "learn from")):
            if not (searched & side).any():
                total = f"{int(searched.sum()):,} queries with impressions"
                raise UsageError(f"of {total}, there is none to {verb}; a log of more queries is needed.")
        return held

    def _blends(self, part: RankingDataset, clicks: ClickTable, has_missing: bool) -> dict[float, Ranker]:
        """The rankers to judge, by the share of the learned ranker."""
        learned = self.method.ranker_
        if self.production is None:
            alone = imitation = imitate(learned, self.method, part, clicks, has_missing)
        else:
            alone, imitation = feature_alone(self.production, learned, self.method, part, has_missing)
        units = [1 / (within_spread(ranker.predict(part), part) or 1.0) for ranker in (imitation, learned)]
        blends = {share: blended((imitation, learned), ((1 - share) * units[0], share * units[1])) for share in _SHARES}
        return {**blends, 0.0: alone}

    def _overlap(self, judge: ClickJudge, production: Ranker) -> float:
        """The share of production's results that the ranker in its place shows; warn if a feature shows few."""
        log = judge.clicks.log
        overlap = shown_alike(segments.descending_ranks(production.predict(log.data), log.data.offsets), log.clicks)
        if self.production is not None and overlap < _LIKE:
            shown = f"only {overlap:.1%} of the results that the log shows are at the top by {self.production!r}"
            warn(CldrankWarning(f"{shown}; is it production's score?"))
        return overlap

    def _unsafe(self, trial: BlendTrial, measure: str, value: float, overlap: float) -> UnsafeError:
        gain = trial.gain
        who = f"{self.production!r}, as production's score," if self.production else "an imitation of production"
        steep = (
            f" With clicks permuted within positions it seems to gain {trial.permuted:.4f}, which is subtracted: the "
            "curve is too steep; estimate the propensities."
        )
        return UnsafeError(
            f"the clicks on {gain.n:,} queries held out do not show that even {who} is safe: its {measure} differs "
            f"from production's by {gain.estimate:+.4f} ({gain.low:+.4f} to {gain.high:+.4f}), and at most "
            f"{self.margin * value:.4f} ({self.margin:.1%}) may be lost. It shows {overlap:.1%} of production's "
            f"results.{steep if trial.permuted > self.margin * value else ''} Keep production; more clicks, "
            "production's score as a feature (`production`), or a larger `margin` may help."
        )

    def _described(self, ranker: Ranker, dataset: RankingDataset, clicks: ClickTable, curve: Curve) -> Ranker:
        """The ranker with an account of all that it was made from."""
        origin = self.method.ranker_.provenance
        method = origin.method
        if method is not None:
            own = ", ".join(f"{name}={value!r}" for name, value in self._own().items() if value is not None)
            method = method.replaced(call=f"safety.Safe({method.call}, {own})")
        searched = dataset.query_ids[clicks.query_impressions > 0]
        described = origin.replaced(
            method=method,
            rows=dataset.n_rows,
            queries=dataset.n_queries,
            fingerprint=dataset.fingerprint,
            has_missing=dataset.has_missing,
            clicks=clicks_record(clicks),
            propensities=origin.propensities or curve_records(curve),
            safety=self.safety_,
        )
        return ranker.with_provenance(described).with_queries(np.unique(hashes_of(searched)))


# -- from blends to the best safe blend -----------------------------------------------------------------------------


def confidences(confidence: float) -> tuple[float, float]:
    """Of two-sided intervals, on the way up and on the way down: their lower ends share the chance of an error.

    >>> [round(two_sided, 9) for two_sided in confidences(0.95)]
    [0.92, 0.98]
    """
    error = 2 * (1 - confidence)
    return 1 - _UPWARDS * error, 1 - (1 - _UPWARDS) * error


def judge_blends(
    judge: ClickJudge, measure: ClickMeasure, blends: Mapping[float, Ranker], strict: float
) -> tuple[list[BlendTrial], float]:
    """The gain of each blend over production, and production's own value; `strict` is the higher confidence."""
    production, data = judge.order(PRODUCTION, PRODUCTION), judge.clicks.log.data
    orders = {
        share: ScoreOrder.of(f"{share:.0%} learned", ranker.predict(data), judge.clicks.log)
        for share, ranker in blends.items()
    }
    clicks, _ = judge.learned
    stricter = replace(clicks, confidence=strict)
    trials = []
    for share, order in orders.items():
        gain, wider = (each.estimate(measure, order, production).interval for each in (clicks, stricter))
        check = check_permuted(clicks, measure, order)
        permuted = 0.0 if check is None else max(check.gain.estimate, 0.0)
        ends = (gain.estimate - permuted, gain.low - permuted, gain.high - permuted)
        trials.append(BlendTrial(share, Interval(*ends, gain.confidence, gain.n), wider.low - permuted, permuted))
    return trials, clicks.value(measure, production).value


def safe_trials(trials: Sequence[BlendTrial], margin: float) -> list[BlendTrial]:
    """The trials shown to be safe: from production upwards, and from the learned ranker downwards.

    On either way, a test only counts if all before it were passed, so the chance that any unsafe blend passes is that
    of a single test (fixed sequence testing); the two ways share the chance that is allowed. The way up shows how far a
    ranker that gains little may depart; the way down serves a ranker that gains much, whatever the imitation does.

    >>> lows = {0.0: 0.0, 0.5: -0.2, 1.0: 0.0}
    >>> trials = [BlendTrial(share, Interval(0.0, low, 0.1, 0.9, 50), low - 0.05) for share, low in lows.items()]
    >>> [[trial.share for trial in safe_trials(trials, margin)] for margin in (0.04, 0.1)]
    [[0.0], [0.0, 1.0]]
    """
    ordered = sorted(trials, key=lambda trial: trial.share)
    upwards = list(takewhile(lambda trial: trial.gain.low >= -margin, ordered))
    downwards = list(takewhile(lambda trial: trial.strict >= -margin, reversed(ordered)))
    return [trial for trial in ordered if trial in upwards or trial in downwards]
