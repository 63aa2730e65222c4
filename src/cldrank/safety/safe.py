"""`Safe`: a method whose ranker departs from production only as far as the clicks support."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank import segments
from cldrank.arguments import check_number
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.data.query_hash import hashes_of, held_out
from cldrank.errors import CldrankWarning, Spelling, UsageError, setting, warn
from cldrank.estimators import Method
from cldrank.estimators.evidence import check_clicks, check_dataset, needed
from cldrank.estimators.needs import Needs, uses_clicks, uses_curve
from cldrank.estimators.recording import clicks_record, curve_record
from cldrank.evaluation import ClickJudge
from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.propensity.segment_propensities import Curve
from cldrank.rankers import Ranker, blended
from cldrank.rankers.blend import check_blendable
from cldrank.rankers.provenance import IMITATION, SafetyRecord
from cldrank.safety.imitation import feature_alone, imitate, production_column, shown_alike, within_spread
from cldrank.safety.sequence import SHARES, BlendTrial, UnsafeError, confidences, judge_blends, most_gained, safe_trials
from cldrank.wording import kind_of

_STEEP = (
    " With clicks permuted within positions it seems to gain {:.4f}, which is subtracted: the curve is too steep; "
    "estimate the propensities."
)
_JUDGING = 1.0  # seconds per million feature values
_LIKE = 0.8  # of production's results, those that its score must explain
_SEED = 1  # of the hashes that hold queries out: not those that `cldrank train --hold-out` holds out


@dataclass(eq=False)
class Safe:
    """Train a method, and keep its ranker as near to production as the clicks on other queries demand.

        score = (1 - share) * imitation of production + share * learned ranker, both in units of their own spread

    Shares 0, 0.1, … 1 are judged against production, the order of the log, by the clicks on queries held out, by DCG at
    the length of a page. A share is safe if the lower end of its gain is not below minus the margin, and so it is for
    all shares below, or for all above. Of those that are, the one with the highest gain is kept. If none is, not even
    the imitation, `UnsafeError` says so, and production is to stay.

    method       what to train; it is fitted to the queries that are not held out
    margin       how much worse than production the ranker may be, as a share of production's DCG
    confidence   that no unsafe ranker is kept, whatever the number of shares
    hold_out     the share of queries that judge
    production   the feature that is production's score, if there is one; then share 0 is production itself

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
            label = self.method.label
            raise UsageError("{} learns from labels, and {} judges by clicks.", label, Spelling("Safe", "--safe"))
        check_number("margin", self.margin, least=0, below=1)
        check_number("confidence", self.confidence, least=0.5, below=1)
        check_number("hold_out", self.hold_out, above=0, below=1)

    def fit(self, dataset: RankingDataset, clicks: ClickTable, propensities: Curve) -> Self:
        """Learn from a dataset, the clicks on it, and the propensities of positions, which judging always needs."""
        self._check(dataset, clicks, propensities)
        self._check_start()
        held = held_out(dataset.query_ids, self.hold_out, _SEED)
        self._check_sides(held, clicks)
        usual, strict = confidences(self.confidence)
        judge = ClickJudge.of(dataset[held], clicks[held], propensities, confidence=usual)
        part, part_clicks = dataset[~held], clicks[~held]
        self.method.fit(part, *needed(self.method.required, part_clicks, propensities))
        blends = self._blends(part, part_clicks)
        measure = ClickMeasure("DCG", clicks.depth)
        trials, value = judge_blends(judge, measure, blends, strict)
        likeness = self._overlap(judge, blends[0.0])
        self._warn_of_feature(likeness)
        safe = safe_trials(trials, self.margin * value)
        if not safe:
            raise self._unsafe(trials[0], str(measure), value, likeness)
        chosen = most_gained(safe)
        self.trials_ = tuple(trials)
        self.safety_ = SafetyRecord(
            share=chosen.share,
            production=IMITATION if self.production is None else self.production,
            overlap=likeness,
            measure=str(measure),
            margin=self.margin * value,
            value=value,
            gain=chosen.gain.estimate,
            low=chosen.gain.low,
            high=chosen.gain.high,
            confidence=usual,
            queries=judge.clicks.n_queries,
            tried={f"{one.share:g}": one.gain.low for one in trials},
        )
        self.ranker_ = self._described(blends[chosen.share], dataset, clicks, propensities)
        return self

    def _check_start(self) -> None:
        """Refuse to judge by clicks that a network may know from an earlier ranker."""
        if self.method.run.warm_start is not None and self.method.model.progress(self.method.way) is not None:
            raise UsageError(
                "{} with {}: a network that begins with an earlier ranker may know the clicks that judge it here; "
                "start afresh, or train a linear model, which ends at the same optimum wherever it begins.",
                setting("warm_start"),
                Spelling("Safe", "--safe"),
            )

    # -- what experiments ask of a method ------------------------------------------------------------------------

    @property
    def required(self) -> Needs:
        """What it needs: judging by clicks takes propensities, whatever the method does."""
        return self.method.required if uses_curve(self.method.required) else "propensities"

    @property
    def uses_device(self) -> bool:
        """Whether the method has a use for a device."""
        return self.method.uses_device

    @property
    def package(self) -> str | None:
        """What the method imports beyond cldrank's own packages."""
        return self.method.package

    @property
    def pace(self) -> float:
        """Seconds per million feature values: the method, an imitation of production, and a model of the unseen."""
        return 2 * self.method.pace + _JUDGING

    def check(self) -> None:
        """Refuse wrong parameters, and a package that is not installed."""
        self.method.check()

    def get_params(self) -> dict[str, Any]:
        """The parameters of the method, and its own."""
        own = {name: getattr(self, name) for name in ("margin", "confidence", "hold_out", "production")}
        return {**self.method.get_params(), **{f"safe__{name}": value for name, value in own.items()}}

    # -- use -----------------------------------------------------------------------------------------------------

    def predict(self, X: RankingDataset | ArrayLike) -> NDArray[np.float64]:
        """The scores of the ranker, one per row."""
        if not hasattr(self, "ranker_"):
            raise UsageError("this Safe has not learned anything yet; call fit first.")
        return self.ranker_.predict(X)

    # -- steps ---------------------------------------------------------------------------------------------------

    def _check(self, dataset: Any, clicks: Any, propensities: Any) -> None:
        """Refuse what cannot be judged before anything is fitted."""
        label = self.method.label
        check_clicks(clicks, check_dataset(dataset, label), label)
        if propensities is None:
            raise UsageError(
                "{} judges by clicks, which needs the propensities of positions, whatever the method; give them.",
                Spelling("Safe", "--safe"),
            )
        if self.production is not None:
            production_column(self.production, dataset)

    def _check_sides(self, held: NDArray[np.bool_], clicks: ClickTable) -> None:
        searched = clicks.query_impressions > 0
        for side, verb in ((held, "judge by"), (~held, "learn from")):
            if not (searched & side).any():
                raise UsageError(
                    "of {:,} queries with impressions, {:.4g} of them to judge by, there is none to {}; a log of more "
                    "queries is needed.",
                    int(searched.sum()),
                    self.hold_out,
                    verb,
                )

    def _blends(self, part: RankingDataset, clicks: ClickTable) -> dict[float, Ranker]:
        """The rankers to judge, by the share of the learned one."""
        learned = self.method.ranker_
        check_blendable(learned)
        if self.production is None:
            alone = imitation = imitate(learned, self.method, part, clicks)
        else:
            alone, imitation = feature_alone(self.production, learned, part)
        units = [1 / (within_spread(one.predict(part), part) or 1.0) for one in (imitation, learned)]
        blends = {share: blended((imitation, learned), ((1 - share) * units[0], share * units[1])) for share in SHARES}
        return {**blends, 0.0: alone}

    @staticmethod
    def _overlap(judge: ClickJudge, imitation: Ranker) -> float:
        log = judge.clicks.log
        return shown_alike(segments.descending_ranks(imitation.predict(log.data), log.data.offsets), log.clicks)

    def _warn_of_feature(self, likeness: float) -> None:
        if self.production is not None and likeness < _LIKE:
            warn(
                CldrankWarning(
                    "only {:.1%} of the results that the log shows are at the top by {!r}; is it production's score?",
                    likeness,
                    self.production,
                )
            )

    def _unsafe(self, trial: BlendTrial, measure: str, value: float, likeness: float) -> UnsafeError:
        gain, feature = trial.gain, self.production
        who = "an imitation of production" if feature is None else f"{feature!r}, as production's score,"
        others = "" if feature is not None else ", production's score as a feature ({})"
        return UnsafeError(
            "the clicks on {:,} queries held out do not show that even {} is safe: its {} differs from production's by "
            "{:+.4f} ({:+.4f} to {:+.4f}), and at most {:.4f} ({:.1%}) may be lost. It shows {:.1%} of production's "
            "results.{} Keep production; more clicks{}, or a larger margin ({}) may help.",
            gain.n,
            who,
            measure,
            *(gain.estimate, gain.low, gain.high, self.margin * value, self.margin, likeness),
            _STEEP.format(trial.placebo) if trial.placebo > self.margin * value else "",
            Spelling(others.format("production='…'"), others.format("--production-feature NAME")),
            Spelling("margin", "--safe-margin"),
        )

    def _described(self, ranker: Ranker, dataset: RankingDataset, clicks: ClickTable, curve: Curve) -> Ranker:
        """The ranker with an account of all that it was made from."""
        origin = self.method.ranker_.provenance
        method = origin.method
        if method is not None:
            more = [f"{name}={getattr(self, name)!r}" for name in ("margin", "confidence", "hold_out")]
            more += [] if self.production is None else [f"production={self.production!r}"]
            method = replace(method, call=f"safety.Safe({method.call}, {', '.join(more)})")
        searched = dataset.query_ids[clicks.query_impressions > 0]
        return ranker.with_provenance(
            replace(
                origin,
                method=method,
                rows=dataset.n_rows,
                queries=dataset.n_queries,
                fingerprint=dataset.fingerprint,
                has_missing=dataset.has_missing,
                clicks=clicks_record(clicks),
                propensities=origin.propensities or curve_record(curve),
                safety=self.safety_,
            )
        ).with_queries(np.unique(hashes_of(searched)))
