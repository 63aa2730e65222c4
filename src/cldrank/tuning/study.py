"""The trials of a tuning, kept by Optuna in a folder that several processes can share, at once or in turn."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import CldrankWarning, DataError, FormatError, UsageError
from cldrank.estimators import Method
from cldrank.estimators.evidence import needed
from cldrank.estimators.registry import unused_settings
from cldrank.files import holding, make_folder, replacing, sweep
from cldrank.reading import reading
from cldrank.tuning.judging import Judge, mean_of
from cldrank.tuning.space import Range, Values, applied, values_of

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial, TrialState

    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.models import Epoch
    from cldrank.propensity.segment_propensities import Curve

_STARTUP = 5  # trials that run to their end before any is pruned
_PLURAL = ("clicks", "propensities", "epochs")
Report = Callable[[int, float | None], None]


@dataclass(frozen=True, eq=False)
class Search:
    """All that a process needs to do trials.

    clicks     those to learn from
    trials     how many in all
    deadline   the time after which no trial begins, in seconds since the epoch
    identity   what decides the outcome of a trial; all trials of a folder share it
    """

    method: Method
    dataset: RankingDataset
    clicks: ClickTable | None
    propensities: Curve | None
    judge: Judge
    space: dict[str, Values]
    trials: int
    seed: int
    folder: Path
    deadline: float
    identity: dict[str, str]

    def gains_file(self, number: int) -> Path:
        """Where the gains of a trial are kept, one per query."""
        return self.folder / "trials" / f"{number:05}.npy"

    def gains(self, number: int) -> NDArray[np.float64]:
        """The gains of a completed trial."""
        file = self.gains_file(number)
        if not file.exists():
            raise FormatError("the gains of a trial are missing; tune in another folder.", path=file)
        with reading(file, "the gains of a trial"):
            found: NDArray[np.float64] = np.load(file, allow_pickle=False)
        if found.dtype != np.float64 or found.shape != self.judge.weight.shape or not np.isfinite(found).all():
            raise FormatError(
                f"these are not the gains of a trial on {len(self.judge.weight):,} queries; tune in another folder.",
                path=file,
            )
        return found


class Study:
    """The trials of a search; it can do more of them."""

    def __init__(self, search: Search, worker: int = 0) -> None:
        import optuna
        from optuna.storages import JournalStorage

        from cldrank.tuning.journal import Journal

        self.search, self._worker = search, worker
        sweep(make_folder(make_folder(search.folder) / "trials"))
        self._file = search.folder / "trials.log"
        journal = Journal(self._file)
        with reading(self._file, "a log of trials"):
            try:
                storage = JournalStorage(journal)
            except AssertionError as error:  # what Optuna raises for a record that it does not know
                raise ValueError(str(error)) from None
        epochs = getattr(search.method.model, "epochs", 12)
        pruner = optuna.pruners.MedianPruner(n_startup_trials=_STARTUP, n_warmup_steps=max(1, epochs // 4))

        def opened() -> optuna.Study:
            return optuna.create_study(
                study_name="cldrank", storage=storage, direction="maximize", pruner=pruner, load_if_exists=True
            )

        with self._alone(), _quiet():
            self._study = opened()
            if self._other() and not self._has_begun():  # left by a search that failed at once
                optuna.delete_study(study_name="cldrank", storage=storage)
                self._study = opened()
            self._check_identity()
            self._begin()

    # -- looking at them -----------------------------------------------------------------------------------------

    def finished(self) -> list[FrozenTrial]:
        """The trials that ended: completed, pruned, or failed with an error."""
        return [trial for trial in self._study.get_trials(deepcopy=False) if _is_finished(trial)]

    def best_value(self) -> float | None:
        """The best value so far."""
        return max((value for trial in self.finished() if (value := value_of(trial)) is not None), default=None)

    # -- doing them ----------------------------------------------------------------------------------------------

    def work(self, report: Report | None = None) -> None:
        """Do trials until there are enough or time is up."""
        while (trial := self._claim()) is not None:
            self._try(trial)
            if report is not None:
                report(len(self.finished()), self.best_value())

    def _claim(self) -> optuna.Trial | None:
        import optuna

        with self._alone(), _quiet():
            before = self._study.get_trials(deepcopy=False)
            taken = sum(_is_finished(trial) or _is_running(trial) for trial in before)
            if taken >= self.search.trials or time.time() > self.search.deadline:
                return None
            # seeded by the number of the trial, so that an interrupted search continues as if it had not been
            own = np.random.SeedSequence([self.search.seed, taken, self._worker]).generate_state(1)[0]
            self._study.sampler = optuna.samplers.TPESampler(seed=int(own))
            trial = self._study.ask()
            trial.set_user_attr("process", _this_process())
            for name, values in self.search.space.items():
                _suggest(trial, name, values)
            return trial

    def _try(self, trial: optuna.Trial) -> None:
        """Do a trial, and record its outcome."""
        import optuna
        from optuna.trial import TrialState

        try:
            gains = self._known(trial)
            if gains is None:
                gains = self._gains(trial)
        except optuna.TrialPruned:
            self._tell(trial, TrialState.PRUNED)
        except DataError as error:
            self._tell(trial, TrialState.FAIL, error=str(error))
        except BaseException:  # without an error on record, the trial does not count
            self._tell(trial, TrialState.FAIL)
            raise
        else:
            with replacing(self.search.gains_file(trial.number)) as temporary, temporary.open("wb") as file:
                np.save(file, gains)
            found = mean_of(gains, self.search.judge.weight)
            self._tell(trial, TrialState.COMPLETE, found.value, standard_error=found.error)

    def _tell(self, trial: optuna.Trial, state: TrialState, value: float | None = None, **facts: Any) -> None:
        with uninterrupted():
            for name, fact in facts.items():
                trial.set_user_attr(name, fact)
            self._study.tell(trial, value, state)

    def _known(self, trial: optuna.Trial) -> NDArray[np.float64] | None:
        """The gains of an earlier trial with the same parameters, which would only be the same again."""
        import optuna

        for other in self.finished():
            if other.params != trial.params:
                continue
            if other.state.name == "PRUNED":
                raise optuna.TrialPruned
            if other.state.name == "COMPLETE" and self.search.gains_file(other.number).exists():
                return self.search.gains(other.number)
        return None

    def _gains(self, trial: optuna.Trial) -> NDArray[np.float64]:
        search = self.search
        model = applied(search.method, trial.params)
        if "on_epoch" not in unused_settings(type(model), type(model.model)):
            model.set_params(run__on_epoch=_pruning(trial))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CldrankWarning)  # the last fit, with the best parameters, warns
            model.fit(search.dataset, *needed(model.required, search.clicks, search.propensities))
        if getattr(model, "status_", None) == "interrupted":  # on Ctrl-C the training loop keeps what it has
            raise KeyboardInterrupt
        return search.judge.gains(model)

    # -- beginning -----------------------------------------------------------------------------------------------

    def _other(self) -> list[str]:
        """What decides the trials of the folder and differs from this search."""
        known = self._study.user_attrs.get("identity")
        with reading(self._file, "a log of trials"):
            before = self.search.identity if known is None else dict(json.loads(known))
        return [name for name, value in self.search.identity.items() if before.get(name) != value]

    def _check_identity(self) -> None:
        if "identity" not in self._study.user_attrs:
            self._study.set_user_attr("identity", json.dumps(self.search.identity))
        if other := self._other():
            what = f"{'other' if other[0] in _PLURAL else 'another'} {other[0]}"
            raise UsageError(
                f"{self.search.folder} holds trials with {what}; use the same to continue, or name another folder."
            )

    def _begin(self) -> None:
        """Begin with the parameters that the method has, so that the best is never worse."""
        if self._has_begun():
            return
        now = values_of(self.search.method, list(self.search.space))
        inside = {name: value for name, value in now.items() if value in self.search.space[name]}
        self._study.enqueue_trial(inside)

    def _has_begun(self) -> bool:
        """Whether any trial has ended, is under way, or waits."""
        before = self._study.get_trials(deepcopy=False)
        return any(trial.state.name == "WAITING" or _is_finished(trial) or _is_running(trial) for trial in before)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from claiming a trial meanwhile."""
        with uninterrupted(), holding(self.search.folder / "trials"):
            yield


def value_of(trial: FrozenTrial) -> float | None:
    """The value of a completed trial; of a pruned one, Optuna would give that of the last epoch."""
    return trial.value if trial.state.name == "COMPLETE" else None


def _suggest(trial: optuna.Trial, name: str, values: Values) -> None:
    """Draw a value, which the trial keeps among its parameters."""
    if not isinstance(values, Range):
        trial.suggest_categorical(name, list(values))
    elif values.is_whole:
        trial.suggest_int(name, int(values.low), int(values.high), log=values.log)
    else:
        trial.suggest_float(name, values.low, values.high, log=values.log)


def _pruning(trial: optuna.Trial) -> Callable[[Epoch], None]:
    """Stops a training that is behind the median of the others at the same epoch."""
    import optuna

    def report(epoch: Epoch) -> None:
        if epoch.validation is None:
            return
        with uninterrupted():
            trial.report(epoch.validation, epoch.number)
        if trial.should_prune():
            raise optuna.TrialPruned

    return report


def _is_finished(trial: FrozenTrial) -> bool:
    return trial.state.name in ("COMPLETE", "PRUNED") or (trial.state.name == "FAIL" and "error" in trial.user_attrs)


def _is_running(trial: FrozenTrial) -> bool:
    """Whether a process is at work on it; of processes on this machine, whether it is alive is known."""
    if trial.state.name != "RUNNING":
        return False
    host, _, process = trial.user_attrs.get("process", "").rpartition(":")
    if host != socket.gethostname():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _this_process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C and termination to the end of the block: a lock left behind would hold up all other processes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, Any]] = []
    numbers: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *both: came.append(both)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for number, frame in came:
        handler = before[number]
        if callable(handler):
            handler(number, frame)
        elif handler == signal.SIG_DFL:
            signal.raise_signal(number)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the log messages of Optuna."""
    import optuna

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)
