"""`tune`: try parameters, judge them by what was held out, and fit with the best."""

from __future__ import annotations

import hashlib
import time
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cldrank.arguments import check_number, check_whole, shortened
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankError, DataError, MissingDependencyError, UsageError
from cldrank.estimators import Method
from cldrank.estimators.evidence import check_dataset, needed
from cldrank.files import make_folder, scratch
from cldrank.propensity import AffineClicks, SegmentPropensities
from cldrank.propensity.segment_propensities import Curve
from cldrank.tuning.judging import Judge, Labels, hold_out
from cldrank.tuning.space import Space, applied, check_space, default_space, tunable
from cldrank.tuning.study import Report, Search, Study, value_of
from cldrank.tuning.trials import State, Trial, Tuned, best_of, distances
from cldrank.workers import Shared, Workers, available_cores, fair_threads, share

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

_MOST_TRIALS, _MOST_JOBS = 1_000_000, 1024
_GRACE_SECONDS = 20.0  # for a process to give up its trial in order
_STATES: dict[str, State] = {"COMPLETE": "completed", "PRUNED": "pruned", "FAIL": "failed"}


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
    held_out: float = 0.2,
    labelled: RankingDataset | None = None,
    measure: str = "nDCG@10",
    on_trial: Report | None = None,
) -> Tuned:
    """Choose parameters by the clicks on held-out queries, corrected by the propensities, and fit with the best.

    space       values to try, by parameter; None for the paper's ranges (`default_space`)
    trials      how many in all, including those that `folder` holds, so the same call continues where one stopped
    jobs        processes; with one, the same call gives the same result
    timeout     seconds after which no trial begins
    held_out    the share of the displayed queries that trials are judged on; `seed` decides which
    labelled    judge by `measure` on the labels of this dataset instead
    on_trial    called with the number of finished trials and the best value so far

    Trials are drawn by Optuna's TPE; networks that fall behind the median of the others are stopped early. `grid` tries
    every combination instead.

    >>> from cldrank.estimators import IPS
    >>> from cldrank.propensity import Propensities
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
    if not isinstance(method, Method):
        raise UsageError(f"tune takes a method such as IPS(), not {shortened(method)}.")
    data = check_dataset(dataset, "tune")
    _check_numbers(trials, seed, jobs, timeout, held_out)
    ranges = check_space(method, default_space(method) if space is None else space)
    learned, judge = _parts(data, clicks, propensities, labelled, measure, held_out, seed)
    identity = _identity(method, data, clicks, propensities, judge, ranges, seed)
    deadline = float("inf") if timeout is None else time.time() + timeout
    with scratch(name="cldrank-tune") if folder is None else nullcontext(folder) as place:
        search = Search(
            _portable(method), data, learned, propensities, judge, ranges, trials, seed, Path(place), deadline, identity
        )
        found = _done(search, jobs, on_trial)
    return _fitted(method, data, clicks, propensities, judge, found)


def _fitted(
    method: Method, data: RankingDataset, clicks: Any, propensities: Any, judge: Judge, found: list[Trial]
) -> Tuned:
    """The method with the best parameters, fitted to all the data, and all trials."""
    best = best_of(found)
    if best is None or best.value is None or best.standard_error is None:
        raise DataError(_why_none_was_completed(found))
    model = applied(method, best.parameters)
    model.fit(data, *needed(model.required, clicks, propensities))
    if getattr(model, "status_", None) == "interrupted":
        raise KeyboardInterrupt
    parameters = dict(best.parameters)
    return Tuned(parameters, best.value, best.standard_error, judge.name, len(judge.weight), tuple(found), model)


def _done(search: Search, jobs: int, report: Report | None) -> list[Trial]:
    """Do the trials; all of them, with how far they are behind the best."""
    with scratch(make_folder(search.folder), "search") as room:  # for one job too: it removes what a killed one left
        if jobs > 1:
            _do_together(search, min(jobs, search.trials), room, report)
        study = Study(search)
        if jobs == 1:
            study.work(report)
    return distances([_trial(one) for one in study.finished()], search.gains, search.judge.weight)


def _trial(found: FrozenTrial) -> Trial:
    """A trial as Optuna keeps it, in our words."""
    return Trial(
        number=found.number,
        parameters=found.params,
        state=_STATES[found.state.name],
        value=value_of(found),
        standard_error=found.user_attrs.get("standard_error"),
        seconds=found.duration.total_seconds() if found.duration else 0.0,
        note=found.user_attrs.get("error", ""),
    )


# -- several processes -------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """What a process needs: the search, whose arrays all processes share, and the number of the process."""

    search: Shared
    number: int


def _do_together(search: Search, jobs: int, room: Path, report: Report | None) -> None:
    """Do all trials in several processes, which have the folder of the search in common."""
    study = Study(search)
    seen = len(study.finished())

    def look() -> None:
        nonlocal seen
        if report is not None and len(study.finished()) > seen:
            seen = len(study.finished())
            report(seen, study.best_value())

    shared = share(search, room)
    parts = [_Part(shared, number) for number in range(jobs)]
    errors: list[CldrankError] = []
    threads = fair_threads(max(1, available_cores() // jobs))
    with Workers(_do_trials, jobs, threads, grace=_GRACE_SECONDS) as workers:
        for done in workers.run(parts, waiting=look):
            error = CldrankError(f"{done.death}.") if done.death else done.result
            errors += [] if error is None else [error]
            look()
    if errors and (isinstance(errors[0], UsageError) or len(study.finished()) < search.trials):
        raise errors[0]


def _do_trials(part: _Part) -> CldrankError | None:
    """Do trials until there are enough; an error is given back."""
    try:
        Study(part.search.load(), part.number).work()
    except CldrankError as error:
        return error
    return None


# -- what is searched --------------------------------------------------------------------------------------------


def _parts(
    data: RankingDataset,
    clicks: ClickTable | None,
    propensities: Curve | None,
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


def _portable(method: Method) -> Method:
    """The method without what cannot go to another process, and what a trial must not write or begin with.

    A ranker to begin with may know the clicks that judge the trial.
    """
    from sklearn.base import clone

    fresh: Method = clone(method)
    plain = replace(method.run, checkpoint=None, resume=False, tensorboard=None, warm_start=None, on_epoch=None)
    return fresh.set_params(run=plain)


def _identity(
    method: Method, data: RankingDataset, clicks: Any, propensities: Any, judge: Judge, space: Space, seed: int
) -> dict[str, str]:
    """What decides the outcome of a trial, by the name that a user knows it by."""
    now = method.get_params()
    fixed = {name: repr(now[spelled]) for name, spelled in tunable(method).items() if name not in space}
    some = data.features[:: max(1, data.n_rows // 1000)]
    cells = () if clicks is None else (clicks.row, clicks.position, clicks.impressions, clicks.clicks)
    if clicks is not None and clicks.has_segments:
        cells = (*cells, clicks.segment, np.array(clicks.segment_names))
    display = () if clicks is None or clicks.display is None else (clicks.display,)
    return {
        "method": method.name,  # first: what else differs follows from it
        "model": type(method.model).__name__,
        **fixed,
        "space": repr(space),
        "seed": f"{seed}, {method.run.seed}",
        "precision": method.run.precision,
        "measure": judge.name,
        "dataset": f"{data.n_rows} {data.n_features} {_digest(some)}",
        "clicks": _digest(*cells, *display),
        "propensities": _digest(*_curves(propensities)),
        "held-out part": _digest(judge.weight, *judge.content),
    }


def _curves(propensities: Curve | None) -> tuple[Any, ...]:
    if isinstance(propensities, SegmentPropensities):
        return np.array(list(propensities)), *(rho.values for rho in propensities.values())
    if isinstance(propensities, AffineClicks):
        return propensities.slope, propensities.base
    return () if propensities is None else (propensities.values,)


def _digest(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _why_none_was_completed(found: list[Trial]) -> str:
    reasons = [trial.note for trial in found if trial.note]
    return f"no trial was completed: {reasons[0]}" if reasons else "no trial was completed in time; allow more time."


def _check_numbers(trials: Any, seed: Any, jobs: Any, timeout: Any, held_out: Any) -> None:
    check_whole("trials", trials, least=1, most=_MOST_TRIALS)
    check_whole("seed", seed, least=0)
    check_whole("jobs", jobs, least=1, most=_MOST_JOBS)
    if timeout is not None:
        check_number("timeout", timeout, above=0, optional=True)
    check_number("held_out", held_out, above=0, below=1)
