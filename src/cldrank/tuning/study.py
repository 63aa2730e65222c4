"""The trials of a search in Optuna's journal: those that are finished stay, whatever ends the search."""

from __future__ import annotations

import json
import os
import warnings
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import joblib
import numpy as np
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from cldrank.errors import CldrankError, CldrankWarning, DataError, FormatError, UsageError
from cldrank.files import holding, make_folder, scratch
from cldrank.host import available_cores
from cldrank.methods import Method
from cldrank.methods.evidence import needed
from cldrank.reading import reading
from cldrank.runs import Processes
from cldrank.tuning.judges import Floats, HeldOutClicks, mean_of
from cldrank.tuning.search import Lead, Trial, leads_of, with_distances
from cldrank.tuning.space import Range, Values, applied, values_of
from cldrank.workers import fair_threads

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.models import Epoch
    from cldrank.propensity.segment_propensities import Curve

_NAME, _LOG = "tune", "trials.log"
_STARTUP = 5  # trials that run to their end before any is pruned
_STATES = {TrialState.COMPLETE: "completed", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
Report = Callable[[int, float | None], None]


def run_trials(
    search: Search, identity: dict[str, str], trials: int, jobs: int, report: Report | None
) -> tuple[list[Trial], tuple[Lead, ...]]:
    """Run the trials that the folder lacks; return all, with how far each is behind the best, and the best's leads."""
    if (search.folder / "ranker.json").exists():
        raise UsageError(f"{search.folder} holds a ranker; name another folder for the trials.")
    with holding(make_folder(search.folder), wait=False) as is_alone, scratch(search.folder, "search") as room:
        if not is_alone:
            raise UsageError(f"another process is tuning in {search.folder}; wait for it, or name another folder.")
        try:
            _mend(search.folder / _LOG)
            _begin(search, identity)
            missing = [number for number in range(trials) if number not in search.finished()]
            for was_done in map(search.run, missing) if jobs == 1 else _together(search, missing, jobs, room):
                if was_done and report is not None:
                    finished = search.finished().values()
                    values = [trial.value for trial in finished if trial.state == TrialState.COMPLETE]
                    report(len(finished), max(values, default=None))
        except OSError as error:
            raise CldrankError(
                f"{search.folder / _LOG} cannot be written: {error.strerror or error}. The trials in it are kept; make "
                "room there, and the same call continues with them."
            ) from error
        return search.results()


def _begin(search: Search, identity: dict[str, str]) -> None:
    """Begin a study, or make sure that the study in the folder is of the same search."""
    with _quiet():
        study = optuna.create_study(
            study_name=_NAME, storage=_journal(search.folder), direction="maximize", load_if_exists=True
        )
    known = study.user_attrs.get("identity")
    if known is None:
        study.set_user_attr("identity", identity)
        return
    for name, value in identity.items():
        if known.get(name) != value:
            was = f" ({known[name]})" if name in ("method", "space", "seed") else ""
            raise UsageError(
                f"{search.folder} holds trials that differ in the {name}{was}; use the same to continue, or name "
                "another folder."
            )


def _together(search: Search, numbers: list[int], jobs: int, room: Path) -> Iterator[bool]:
    """Run trials in several processes; if a process dies, an error says so once the others are done."""
    shared, death = _saved(replace(search), room), ""  # without the study, which belongs to this process
    with Processes(_run_shared, jobs, fair_threads(max(1, available_cores() // jobs))) as processes:
        for done in processes.run([(shared, number) for number in numbers]):
            death = death or done.death
            yield bool(done.result)
    if death:
        raise CldrankError(f"{death}. The finished trials are in {search.folder}, and the same call continues.")


def _saved(search: Search, room: Path) -> Path:
    """A file with the search, whose arrays all processes map into the same memory."""
    path = room / "search"
    try:
        joblib.dump(search, path)
    except OSError as error:
        raise CldrankError(
            f"{room} cannot be written: {error.strerror or error}. Several jobs share a copy of the data there; make "
            "room, or use a single job."
        ) from error
    return path


def _run_shared(item: tuple[Path, int]) -> bool:
    return _shared_search(item[0]).run(item[1])


@lru_cache(maxsize=1)
def _shared_search(path: Path) -> Search:
    search: Search = joblib.load(path, mmap_mode="r")
    return search


@dataclass(frozen=True, eq=False)
class Search:
    """A search for parameters, which does trials in any process: `clicks` are those to learn from."""

    method: Method
    dataset: RankingDataset
    clicks: ClickTable | None
    propensities: Curve | None
    judge: HeldOutClicks
    space: dict[str, Values]
    seed: int
    folder: Path

    @cached_property
    def _study(self) -> optuna.Study:
        epochs = getattr(self.method.model, "epochs", 12)
        pruner = optuna.pruners.MedianPruner(n_startup_trials=_STARTUP, n_warmup_steps=max(1, epochs // 4))
        return optuna.load_study(study_name=_NAME, storage=_journal(self.folder), pruner=pruner)

    def finished(self) -> dict[int, FrozenTrial]:
        """The trials that were completed, pruned, or failed with an error, by number; not those interrupted."""
        ended = [trial for trial in self._study.get_trials(deepcopy=False) if trial.state in _STATES]
        trials = [trial for trial in ended if trial.state != TrialState.FAIL or "note" in trial.user_attrs]
        return dict(sorted((trial.user_attrs["number"], trial) for trial in trials))

    def results(self) -> tuple[list[Trial], tuple[Lead, ...]]:
        """The finished trials, and the leads of the best."""
        finished, trials = self.finished(), []
        for number, trial in finished.items():
            known = {name: trial.user_attrs[name] for name in ("standard_error", "note") if name in trial.user_attrs}
            seconds = trial.duration.total_seconds() if trial.duration else 0.0
            value = trial.value if trial.state == TrialState.COMPLETE else None  # else that of the last epoch
            trials.append(Trial(number, trial.params, _STATES[trial.state], value, seconds=seconds, **known))
        gains, weight = (lambda number: _gains_of(finished[number])), self.judge.weight
        return with_distances(trials, gains, weight), leads_of(trials, gains, weight, self.seed)

    def run(self, number: int) -> bool:
        """Run a trial, and record its outcome; return True, as a process that dies returns nothing."""
        with _quiet():
            trial = self._draw(number)
        try:
            gains = self._gains(trial)
        except optuna.TrialPruned:
            self._study.tell(trial, state=TrialState.PRUNED)
        except DataError as error:
            trial.set_user_attr("note", str(error))
            self._study.tell(trial, state=TrialState.FAIL)
        else:
            mean = mean_of(gains, self.judge.weight)
            trial.set_user_attr("gains", b64encode(gains.tobytes()).decode())
            trial.set_user_attr("standard_error", mean.error)
            self._study.tell(trial, mean.value)
        return True

    def _draw(self, number: int) -> optuna.Trial:
        """A trial whose parameters its number and the trials before it decide; the first has those of the method."""
        space = self.space
        seed = np.random.SeedSequence([self.seed, number, 0]).generate_state(1)[0]
        sampler: optuna.samplers.BaseSampler = optuna.samplers.TPESampler(seed=int(seed))
        if number == 0:
            usual = values_of(self.method, list(space))
            inside = {name: value for name, value in usual.items() if value in space[name]}
            sampler = optuna.samplers.PartialFixedSampler(inside, sampler)
        self._study.sampler = sampler
        trial = self._study.ask()
        trial.set_user_attr("number", number)
        for name, values in space.items():
            if not isinstance(values, Range):
                trial.suggest_categorical(name, list(values))
            elif values.is_whole:
                trial.suggest_int(name, int(values.low), int(values.high), log=values.log)
            else:
                trial.suggest_float(name, values.low, values.high, log=values.log)
        return trial

    def _gains(self, trial: optuna.Trial) -> Floats:
        """What the method gains with the parameters of a trial; those of an earlier trial are not tried again."""
        for earlier in self.finished().values():
            if earlier.params == trial.params and earlier.state == TrialState.PRUNED:
                raise optuna.TrialPruned
            if earlier.params == trial.params and earlier.state == TrialState.COMPLETE:
                return _gains_of(earlier)
        method = applied(self.method, trial.params)
        if "on_epoch" not in method.unheeded(type(method.model)):
            method.set_params(run__on_epoch=_pruning(trial))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CldrankWarning)  # the last fit, with the best parameters, warns
            method.fit(self.dataset, *needed(method.required, self.clicks, self.propensities))
        if getattr(method, "status_", None) == "interrupted":  # on Ctrl-C the training loop keeps what it has
            raise KeyboardInterrupt
        return self.judge.gains(method)


def _gains_of(trial: FrozenTrial) -> Floats:
    """The gain of a completed trial on each query."""
    return np.frombuffer(b64decode(trial.user_attrs["gains"]))


def _pruning(trial: optuna.Trial) -> Callable[[Epoch], None]:
    """Stops a training that is behind the median of the others at the same epoch."""

    def report(epoch: Epoch) -> None:
        if epoch.validation is not None:
            trial.report(epoch.validation, epoch.number)
            if trial.should_prune():
                raise optuna.TrialPruned

    return report


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the log messages of Optuna, and its warnings of what is experimental."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)


# -- the journal ---------------------------------------------------------------------------------------------------


def _journal(folder: Path) -> JournalStorage:
    with reading(folder / _LOG, "a log of trials"):
        try:
            return JournalStorage(JournalFileBackend(str(folder / _LOG)))
        except AssertionError as error:  # what Optuna raises for a record that it does not know
            raise ValueError(str(error)) from None


def _mend(log: Path) -> None:
    """Remove what a killed process or a full disk left, a lock or a part of a line; refuse what holds no trials."""
    log.with_name(f"{log.name}.lock").unlink(missing_ok=True)
    content = log.read_bytes() if log.exists() else b""
    end, record = content.rfind(b"\n") + 1, b'{"op_code":'
    rest = content[end:].rstrip(b"\0")[: len(record)]  # a power failure may leave zeros
    with reading(log, "a log of trials"):
        for line in content[:end].splitlines():
            json.loads(line)
    if not record.startswith(rest):
        raise FormatError("not a log of trials; name another folder.", path=log)
    if end < len(content):
        os.truncate(log, end)
