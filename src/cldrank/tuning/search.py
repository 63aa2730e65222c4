"""`tune`: try parameters, judge them by what was held out, and fit with the best."""

from __future__ import annotations

import hashlib
import time
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, MissingDependencyError, UsageError
from cldrank.estimators import Method
from cldrank.estimators.evidence import check_dataset, needed
from cldrank.files import make_folder, scratch
from cldrank.propensity import AffineClicks, Propensities
from cldrank.tuning.judging import Judge, Labels, hold_out, mean_of
from cldrank.tuning.results import State, Trial, Tuned
from cldrank.tuning.space import Space, applied, check_space, default_space, tunable
from cldrank.tuning.study import Report, Search, Study, value_of

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

_MOST_TRIALS, _MOST_JOBS = 1_000_000, 1024
_STATES: dict[str, State] = {"COMPLETE": "completed", "PRUNED": "pruned", "FAIL": "failed"}


def tune(
    method: Method,
    dataset: RankingDataset,
    clicks: ClickTable | None = None,
    propensities: Propensities | AffineClicks | None = None,
    space: Space | None = None,
    *,
    trials: int = 30,
    seed: int = 0,
    folder: str | Path | None = None,
    jobs: int = 1,
    timeout: float | None = None,
    held_out: float = 0.2,
    labelled: RankingDataset | None = None,
    measure: str = "nDCG@10",
    on_trial: Report | None = None,
) -> Tuned:
    """Choose parameters by the clicks on held-out queries, corrected by the propensities, and fit with the best.

    space       values to try, by parameter; None for the paper's ranges (`default_space`)
    trials      how many in all; those that `folder` holds already count, so the same call goes on where one ended
    jobs        processes; with one, the same call gives the same result
    timeout     no trial begins after so many seconds
    held_out    the share of the displayed queries that trials are judged by; `seed` says which
    labelled    judge by `measure` on the labels of this dataset instead
    on_trial    called with the number of finished trials and the best value so far

    Trials are drawn by Optuna's TPE; networks that fall behind the median of the others are given up early.

    >>> from cldrank.estimators import IPS
    >>> random = np.random.default_rng(0)
    >>> data = RankingDataset.from_arrays(random.normal(size=(80, 2)), np.arange(80) // 4)
    >>> clicks = ClickTable.from_arrays(
    ...     data, position=[1, 2, 3, 0] * 20, impressions=[9, 9, 9, 0] * 20, clicks=[5, 3, 1, 0] * 20
    ... )
    >>> tuned = tune(IPS(), data, clicks, Propensities.power(1, 3), {"l2": [0.001, 0.1]}, trials=3)
    >>> len(tuned.trials), tuned.held_out, tuned.estimator.model.l2 == tuned.best_parameters["l2"]
    (3, 4, True)
    """
    if find_spec("optuna") is None:
        raise MissingDependencyError("tuning needs optuna: pip install 'cldrank[tune]'.")
    data = check_dataset(dataset, "tune")
    _check_numbers(trials, seed, jobs, timeout, held_out)
    ranges = check_space(method, default_space(method) if space is None else space)
    learned, judge = _parts(data, clicks, propensities, labelled, measure, held_out, seed)
    with ExitStack() as stack:
        place = stack.enter_context(scratch(name="cldrank-tune")) if folder is None else folder
        search = Search(
            _plain(method),
            data,
            learned,
            propensities,
            judge,
            ranges,
            trials,
            seed,
            Path(place),
            float("inf") if timeout is None else time.time() + timeout,
            _identity(method, data, clicks, propensities, judge, ranges, seed),
        )
        found = _done(search, jobs, on_trial)
    best = max(found, key=lambda trial: -np.inf if trial.value is None else trial.value, default=None)
    if best is None or best.value is None or best.standard_error is None:
        raise DataError(_said_of_failure(found))
    model = applied(method, best.parameters)
    model.fit(data, *needed(model.required, clicks, propensities))
    if getattr(model, "status_", None) == "interrupted":
        raise KeyboardInterrupt
    parameters = dict(best.parameters)
    return Tuned(parameters, best.value, best.standard_error, judge.name, len(judge.weight), tuple(found), model)


def _done(search: Search, jobs: int, report: Report | None) -> list[Trial]:
    """Do the trials; all of them, with how far they are behind the best."""
    with scratch(make_folder(search.folder), "search") as room:  # for one job too: what a killed one left goes
        if jobs > 1:
            from cldrank.tuning.processes import work_together

            work_together(search, min(jobs, search.trials), room, report)
        study = Study(search)
        if jobs == 1:
            study.work(report)
    found = study.finished()
    completed = [trial for trial in found if value_of(trial) is not None]
    best = max(completed, key=lambda trial: value_of(trial) or 0.0, default=None)
    return [_told(search, trial, best) for trial in found]


def _told(search: Search, trial: FrozenTrial, best: FrozenTrial | None) -> Trial:
    told = Trial(
        number=trial.number,
        parameters=trial.params,
        state=_STATES[trial.state.name],
        value=value_of(trial),
        standard_error=trial.user_attrs.get("standard_error"),
        seconds=trial.duration.total_seconds() if trial.duration else 0.0,
        note=trial.user_attrs.get("error", ""),
    )
    if told.value is None or best is None:
        return told
    difference = search.gains(best.number) - search.gains(trial.number)
    behind = mean_of(difference, search.judge.weight)
    return replace(told, behind=behind.value, behind_error=behind.error)


def _parts(
    data: RankingDataset,
    clicks: ClickTable | None,
    propensities: Propensities | AffineClicks | None,
    labelled: RankingDataset | None,
    measure: str,
    held_out: float,
    seed: int,
) -> tuple[ClickTable | None, Judge]:
    """The clicks to learn from, and who judges."""
    if labelled is not None:
        return clicks, Labels(labelled, measure)
    if clicks is None:
        raise UsageError("tune judges by clicks; give clicks, or a labelled dataset to judge by.")
    return hold_out(data, clicks, propensities, held_out, seed)


def _plain(method: Method) -> Method:
    """The method without what cannot go to another process, and what a trial must not write."""
    fresh: Method = clone(method)
    return fresh.set_params(run=replace(method.run, checkpoint=None, resume=False, tensorboard=None, on_epoch=None))


def _identity(
    method: Method, data: RankingDataset, clicks: Any, propensities: Any, judge: Judge, space: Space, seed: int
) -> dict[str, str]:
    """What decides the outcome of a trial, by the name that a user knows it by."""
    now = method.get_params()
    fixed = {name: repr(now[spelled]) for name, spelled in tunable(method).items() if name not in space}
    some = data.features[:: max(1, data.n_rows // 1000)]
    cells = () if clicks is None else (clicks.row, clicks.position, clicks.impressions, clicks.clicks)
    return {
        "method": method.name,  # first: what else differs follows from it
        "model": type(method.model).__name__,
        **fixed,
        "space": repr(space),
        "seed": f"{seed}, {method.run.seed}",
        "precision": method.run.precision,
        "measure": judge.name,
        "dataset": f"{data.n_rows} {data.n_features} {_digest(some)}",
        "clicks": _digest(*cells),
        "propensities": _digest(*_curves(propensities)),
        "held-out part": _digest(judge.weight, *judge.content),
    }


def _curves(propensities: Propensities | AffineClicks | None) -> tuple[Any, ...]:
    if isinstance(propensities, AffineClicks):
        return propensities.slope, propensities.base
    return () if propensities is None else (propensities.values,)


def _digest(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _said_of_failure(found: list[Trial]) -> str:
    reasons = [trial.note for trial in found if trial.note]
    return f"no trial came to its end: {reasons[0]}" if reasons else "no trial came to its end in time; allow more."


def _check_numbers(trials: Any, seed: Any, jobs: Any, timeout: Any, held_out: Any) -> None:
    for name, value, least in (("trials", trials, 1), ("seed", seed, 0), ("jobs", jobs, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise UsageError(f"{name} must be a whole number of at least {least}, not {value!r}.")
    if trials > _MOST_TRIALS or jobs > _MOST_JOBS:
        raise UsageError(f"a search has at most {_MOST_TRIALS:,} trials and {_MOST_JOBS:,} jobs.")
    if timeout is not None and not timeout > 0:
        raise UsageError(f"timeout must be a number of seconds above 0, not {timeout!r}.")
    if not 0 < held_out < 1:
        raise UsageError(f"held_out must be a share between 0 and 1, not {held_out!r}.")
