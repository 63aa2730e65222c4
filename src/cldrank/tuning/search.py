"""`tune`: try parameters, judge them by queries that no trial learns from, and fit with the best."""

from __future__ import annotations

import time
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.arguments import check_number, check_whole, shortened
from cldrank.clicks.holding_out import HeldOut
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, MissingDependencyError, UsageError
from cldrank.files import scratch
from cldrank.methods import Method
from cldrank.methods.evidence import check_clicks, check_dataset, needed
from cldrank.methods.recording import clicks_record, curve_record
from cldrank.models import Run
from cldrank.propensity.segment_propensities import Curve
from cldrank.rankers.provenance import without_address
from cldrank.tuning.judges import Judge, Labels, split_clicks
from cldrank.tuning.space import Space, applied, check_space, default_space
from cldrank.tuning.trials import Tuned, best_first

if TYPE_CHECKING:
    from cldrank.tuning.study import Report

_MOST_TRIALS, _MOST_JOBS = 100_000, 1024


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
    timeout: float | None = None,
    hold_out: float | None = None,
    validation: float = 0.2,
    labelled: RankingDataset | None = None,
    measure: str = "nDCG@10",
    on_trial: Report | None = None,
) -> Tuned:
    """Choose parameters by the clicks on held-out queries, corrected by the propensities, and fit with the best.

    space        values to try, by parameter; None for the paper's ranges (`default_space`)
    trials       how many in all, including those that `folder` holds, so the same call continues where one stopped
    jobs         processes; with one, the same call gives the same result
    timeout      seconds after which no trial begins
    hold_out     the share of queries, by `cldrank.held_out`, that neither trials nor the last fit see, so that
                 `compare` can judge the result on them
    validation   the share of the other displayed queries that trials are judged on; `seed` decides which
    labelled     judge by `measure` on the labels of this dataset instead
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
    data = check_dataset(dataset, "tune")
    _check_numbers(trials, seed, jobs, timeout, hold_out, validation)
    ranges = check_space(method, default_space(method) if space is None else space)
    clicks = None if clicks is None else check_clicks(clicks, data, "tuning")
    held = None if hold_out is None else HeldOut.of(data, clicks, hold_out)
    data, clicks = (data, clicks) if held is None else held.others
    learned: ClickTable | None
    judge: Judge
    if labelled is not None:
        learned, judge = clicks, Labels(labelled, measure)
    elif clicks is not None:
        learned, judge = split_clicks(data, clicks, propensities, validation, seed)
    else:
        raise UsageError("tune judges by clicks; give clicks, or a labelled dataset to judge by.")
    plain = _portable(method)
    decisive = Run(seed=plain.run.seed, precision=plain.run.precision)
    identity = {
        "method": without_address(repr(applied(plain, {}).set_params(run=decisive))),
        "space": repr(ranges),
        "seed": str(seed),
        "validation": f"{judge.name}, {validation if labelled is None else labelled.fingerprint}",
        "dataset": data.fingerprint,
        "clicks": "" if clicks is None else clicks_record(clicks).fingerprint,
        "propensities": "" if propensities is None else repr(asdict(curve_record(propensities))),
    }
    deadline = float("inf") if timeout is None else time.time() + timeout
    with scratch(name="cldrank-tune") as temporary:
        place = temporary / "trials" if folder is None else Path(folder)
        search = Search(plain, data, learned, propensities, judge, ranges, seed, place, deadline)
        finished = run_trials(search, identity, trials, jobs, on_trial)
    best = next(iter(best_first(finished)), None)
    if best is None or best.value is None or best.standard_error is None:
        reason = next((f": {trial.note}" for trial in finished if trial.note), " in time; allow more time.")
        raise DataError(f"no trial was completed{reason}")
    model = applied(method, best.parameters)
    model.fit(data, *needed(model.required, clicks, propensities))
    if getattr(model, "status_", None) == "interrupted":
        raise KeyboardInterrupt
    queries, parameters = len(judge.weight), dict(best.parameters)
    return Tuned(parameters, best.value, best.standard_error, judge.name, queries, tuple(finished), model, held)


def _portable(method: Method) -> Method:
    """The method without what cannot go to another process, and what a trial must not write or begin with.

    A ranker to begin with may know the clicks that judge the trial.
    """
    plain = method.run.without("resume", "start", "log")
    return applied(method, {}).set_params(run=plain)


def _check_numbers(trials: Any, seed: Any, jobs: Any, timeout: Any, hold_out: Any, validation: Any) -> None:
    check_whole("trials", trials, least=1, most=_MOST_TRIALS)
    check_whole("seed", seed, least=0)
    check_whole("jobs", jobs, least=1, most=_MOST_JOBS)
    if timeout is not None:
        check_number("timeout", timeout, above=0, optional=True)
    if hold_out is not None:
        check_number("hold_out", hold_out, above=0, below=1, optional=True)
    check_number("validation", validation, above=0, below=1)
