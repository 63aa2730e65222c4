"""`tune`: try parameters, judge them by queries that no trial learns from, and fit with the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cldrank.arguments import check_number, check_whole, shortened
from cldrank.clicks.holding_out import HeldOut
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.documents.numbers import minus, span
from cldrank.errors import DataError, MissingDependencyError, UsageError
from cldrank.files import scratch
from cldrank.measures import Interval
from cldrank.measures.simultaneous import confidence_of_each
from cldrank.methods import Method
from cldrank.methods.evidence import check_clicks, check_dataset, needed
from cldrank.methods.recording import clicks_record, curve_records
from cldrank.models import Run
from cldrank.propensity.segment_propensities import Curve
from cldrank.tuning.judges import Floats, mean_of, split_clicks
from cldrank.tuning.space import Space, Value, applied, check_space, default_space
from cldrank.wording import listed

if TYPE_CHECKING:
    from cldrank.tuning.study import Report

_MOST_TRIALS, _MOST_JOBS = 100_000, 1024
_CONFIDENCE = 0.9  # that the best trial leads
_TIE = 2.0  # standard errors of the difference


@dataclass(frozen=True)
class Trial:
    """The parameters of a trial, and how well they did.

    state                    completed, pruned (given up early) or failed
    value, standard_error    of the measure, over the queries that judge; None if the trial was pruned or failed
    behind, behind_error     how far behind the best trial, and the standard error of that, paired by query
    note                     why it failed

    >>> Trial(1, {"model__l2": 0.1}, "completed", value=0.70, behind=0.01, behind_error=0.02).ties
    True
    """

    number: int
    parameters: Mapping[str, Value]
    state: str
    value: float | None = None
    standard_error: float | None = None
    behind: float | None = None
    behind_error: float | None = None
    seconds: float = 0.0
    note: str = ""

    @property
    def ties(self) -> bool:
        """Whether the queries that judge cannot tell it from the best: less than two standard errors lie between."""
        return self.behind is not None and self.behind <= _TIE * (self.behind_error or 0.0)


@dataclass(frozen=True)
class Lead:
    """How far the best trial is ahead of another, with an interval that allows for having chosen among all trials.

    >>> Lead("the default", 0, Interval(0.01, -0.02, 0.04, 0.9, 50)).is_told
    False
    """

    name: str
    trial: int
    interval: Interval

    @property
    def is_told(self) -> bool:
        """Whether the held-out clicks tell the two apart."""
        return self.interval.low > 0

    def __str__(self) -> str:
        ends = span(self.interval.low, self.interval.high)
        return f"{self.name}, trial {self.trial}, by {minus(f'{self.interval.estimate:.4f}')} ({ends})"


@dataclass(frozen=True)
class Tuned:
    """The result of a tuning.

    best_parameters      of the best trial, whose own are `best_value` and `standard_error`
    measure              what trials were judged by
    validation_queries   the number of queries that they were judged on
    trials               all of them, in order
    estimator            fitted with the best parameters to all the data but what `held_out` says
    leads                of the best trial over the runner-up and over the default, trial 0; one if these are the same

    >>> trials = tuple(Trial(number, {"l2": l2}, "completed", value=l2) for number, l2 in enumerate((0.1, 0.3)))
    >>> tuned = Tuned({"l2": 0.3}, 0.3, 0.01, "concordance", 50, trials, estimator=None)
    >>> [trial.number for trial in tuned.best()]
    [1, 0]
    """

    best_parameters: dict[str, Value]
    best_value: float
    standard_error: float
    measure: str
    validation_queries: int
    trials: tuple[Trial, ...]
    estimator: Method = field(repr=False)
    held_out: HeldOut | None = field(default=None, repr=False)
    leads: tuple[Lead, ...] = ()

    @property
    def told_apart(self) -> str:
        """Whether the held-out clicks tell the best trial from the runner-up and the default, in a sentence."""
        if not self.leads:
            return "no other trial to tell the best from"
        parts = []
        for verb, is_told in (("tell", True), ("cannot tell", False)):
            if names := [lead.name for lead in self.leads if lead.is_told == is_told]:
                parts.append(f"{verb} it from {listed(names)}")
        ahead = listed(self.leads, "and of")
        return f"the best trial is ahead of {ahead}: held-out clicks {listed(parts)}"

    def best(self, most: int = 5) -> list[Trial]:
        """The best trials, the best first."""
        return best_first(self.trials)[:most]

    @property
    def ties(self) -> int:
        """How many other trials cannot be told from the best."""
        return sum(trial.ties for trial in self.trials) - 1

    def as_dict(self) -> dict[str, Any]:
        """All but the estimator, ready for JSON."""
        own = ("best_parameters", "best_value", "standard_error", "measure", "validation_queries")
        return {
            **{name: getattr(self, name) for name in own},
            "hold_out": None if self.held_out is None else self.held_out.as_dict(),
            "ties_with_the_best": self.ties,
            "leads": [{**asdict(lead), "is_told": lead.is_told} for lead in self.leads],
            "trials": [asdict(trial) for trial in self.trials],
        }


def best_first(trials: Sequence[Trial]) -> list[Trial]:
    """The completed trials, the best first; of equals, the earlier trial first."""
    completed = [trial for trial in trials if trial.value is not None]
    return sorted(completed, key=lambda trial: -(trial.value or 0.0))


def with_distances(trials: Sequence[Trial], gains: Callable[[int], Floats], weight: Floats) -> list[Trial]:
    """The trials with how far each is behind the best; `gains` gives those of a trial, by its number."""
    best = [gains(trial.number) for trial in best_first(trials)[:1]]
    compared = []
    for trial in trials:
        if trial.value is not None:
            behind = mean_of(best[0] - gains(trial.number), weight)
            trial = replace(trial, behind=behind.value, behind_error=behind.error)
        compared.append(trial)
    return compared


def leads_of(
    trials: Sequence[Trial], gains: Callable[[int], Floats], weight: Floats, seed: int = 0
) -> tuple[Lead, ...]:
    """How far the best trial is ahead of the runner-up and of the default.

    The best was chosen by the same clicks, so the other is compared with all trials at once: had it been the best, none
    of them would seem to be ahead of it by so much with 90% confidence (multiple comparisons with the best, Hsu 1996).
    """
    ranked = best_first(trials)
    best, others = ranked[:1], [trial for trial in ranked[1:] if trial.parameters != ranked[0].parameters]
    named = {trial.number: name for trial, name in zip(others, ["the runner-up"], strict=False)}
    if any(trial.number == 0 for trial in others):
        named[0] = "the default"
    from scipy.special import stdtrit

    influences = {}
    for trial in [*best, *others] if named else []:
        own = gains(trial.number)
        influences[trial.number] = (own - own.sum() / weight.sum() * weight) / weight.sum()
    leads = []
    for number, name in named.items():
        ahead = np.stack([own - influences[number] for own in influences.values() if own is not influences[number]])
        freedom = len(weight) - 1
        each = max(_CONFIDENCE, confidence_of_each(ahead, _CONFIDENCE, freedom, seed, two_sided=False))
        lead = mean_of(gains(best[0].number) - gains(number), weight)
        half = float(stdtrit(freedom, (1 + each) / 2)) * lead.error
        ends = (lead.value - half, lead.value + half)
        leads.append(Lead(name, number, Interval(lead.value, *ends, _CONFIDENCE, len(weight))))
    return tuple(leads)


def tune(
    method: Method,
    dataset: RankingDataset,
    clicks: ClickTable | None = None,
    propensities: Curve | None = None,
    space: Space | None = None,
    *,
    trials: int = 30,
    seed: int = 0,
    folder: str | Path | None = None,
    jobs: int = 1,
    hold_out: float | None = None,
    validation: float = 0.2,
    on_trial: Report | None = None,
) -> Tuned:
    """Choose parameters by the clicks on held-out queries, corrected by the propensities, and fit with the best.

    space        values to try, by parameter; None for the paper's ranges (`default_space`)
    trials       how many in all, including those that `folder` holds, so the same call continues an interrupted search
    jobs         processes; with 1, the same call gives the same result
    hold_out     the share of queries, by `cldrank.held_out`, that neither trials nor the last fit see, so that
                 `compare` can judge the result on them
    validation   the share of the other displayed queries that trials are judged on; `seed` decides which
    on_trial     called with the number of finished trials and the best value so far

    Trials are drawn by Optuna's TPE; networks that fall behind the median of the others are stopped early.

    >>> import numpy as np
    >>> from cldrank.methods import IPS
    >>> from cldrank.propensity import Propensities
    >>> data = RankingDataset.from_arrays(np.random.default_rng(0).normal(size=(80, 2)), np.arange(80) // 4)
    >>> clicks = ClickTable.from_arrays(
    ...     data, position=[1, 2, 3, 0] * 20, impressions=[9, 9, 9, 0] * 20, clicks=[5, 3, 1, 0] * 20
    ... )
    >>> tuned = tune(IPS(), data, clicks, Propensities.power(1, 3), {"l2": [0.001, 0.1]}, trials=3)
    >>> len(tuned.trials), tuned.validation_queries, tuned.estimator.model.l2 == tuned.best_parameters["l2"]
    (3, 4, True)
    """
    if find_spec("optuna") is None:
        raise MissingDependencyError("tuning needs optuna: pip install 'cldrank[tune]'.")
    from cldrank.tuning.study import Search, run_trials

    if not isinstance(method, Method):
        raise UsageError(f"tune takes a method such as IPS(), not {shortened(method)}.")
    check_whole("trials", trials, least=1, most=_MOST_TRIALS)
    check_whole("seed", seed, least=0)
    check_whole("jobs", jobs, least=1, most=_MOST_JOBS)
    for name, share in (("hold_out", hold_out), ("validation", validation)):
        if share is not None:
            check_number(name, share, above=0, below=1)
    data = check_dataset(dataset, "tune")
    ranges = check_space(method, default_space(method) if space is None else space)
    clicks = None if clicks is None else check_clicks(clicks, data, "tuning")
    held = None if hold_out is None else HeldOut.of(data, clicks, hold_out)
    data, clicks = (data, clicks) if held is None else held.others
    if clicks is None:
        raise UsageError("tune judges by clicks; give clicks.")
    learned, judge = split_clicks(data, clicks, propensities, validation, seed)
    plain = _portable(method)
    decisive = Run(seed=plain.run.seed)
    identity = {
        "method": repr(applied(plain, {}).set_params(run=decisive)),
        "space": repr(ranges),
        "seed": str(seed),
        "validation": f"{judge.name}, {validation}",
        "dataset": data.fingerprint,
        "clicks": clicks_record(clicks).fingerprint,
        "propensities": "" if propensities is None else repr(curve_records(propensities)),
    }
    with scratch(name="cldrank-tune") as temporary:
        place = temporary / "trials" if folder is None else Path(folder)
        search = Search(plain, data, learned, propensities, judge, ranges, seed, place)
        finished, leads = run_trials(search, identity, trials, jobs, on_trial)
    best = next(iter(best_first(finished)), None)
    if best is None or best.value is None or best.standard_error is None:
        reason = next((f": {trial.note}" for trial in finished if trial.note), ".")
        raise DataError(f"no trial was completed{reason}")
    model = applied(method, best.parameters)
    model.fit(data, *needed(model.required, clicks, propensities))
    if getattr(model, "status_", None) == "interrupted":
        raise KeyboardInterrupt
    queries, parameters = len(judge.weight), dict(best.parameters)
    return Tuned(parameters, best.value, best.standard_error, judge.name, queries, tuple(finished), model, held, leads)


def _portable(method: Method) -> Method:
    """The method without what cannot go to another process, and what a trial must not write."""
    plain = method.run.without("resume", "log")
    return applied(method, {}).set_params(run=plain)
