from __future__ import annotations

import fcntl
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scenes import scene

from cldrank.data.query_hash import held_out
from cldrank.errors import CldrankError, CldrankWarning, DataError, UsageError
from cldrank.files import holding
from cldrank.measures import Interval
from cldrank.methods import CLD, IPS, AffineIPS, CLDPair, Naive, PolicyAwareIPS
from cldrank.models import MLP, Linear, Run
from cldrank.propensity import AffineClicks, Propensities
from cldrank.tuning import Range, search, tune
from cldrank.tuning.judges import mean_of, split_clicks
from cldrank.tuning.search import Trial, best_first, leads_of
from cldrank.tuning.space import Space, applied

SCENE = scene(0, queries=60)
SMALL = CLDPair(model=MLP(hidden=(4,), epochs=2))


def facts(tuned: Any) -> list[Any]:
    return [(trial.number, trial.parameters, trial.state, trial.value) for trial in tuned.trials]


def test_a_search_that_was_stopped_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    whole = tune(SMALL, *SCENE, trials=7, folder=tmp_path / "whole")
    for trials in (3, 7):
        parts = tune(SMALL, *SCENE, trials=trials, folder=tmp_path / "parts")
        assert len(parts.trials) == trials
    assert facts(parts) == facts(whole)
    np.testing.assert_array_equal(parts.estimator.predict(SCENE.data), whole.estimator.predict(SCENE.data))
    assert facts(tune(SMALL, *SCENE, trials=2, seed=1)) != facts(whole)[:2]


def test_the_result_is_fitted_to_everything_with_the_best() -> None:
    tuned = tune(
        CLD(model=Linear(l2=0.005)), *SCENE, {"l2": Range(1e-3, 1e-2, log=True), "gamma": Range(0.05, 0.3)}, trials=6
    )
    best = tuned.best(1)[0]
    assert tuned.best_parameters == best.parameters
    assert (tuned.best_value, best.behind, best.behind_error) == (best.value, 0.0, 0.0)
    assert tuned.trials[0].parameters == {"l2": 0.005, "gamma": 0.1}  # what it had comes first
    assert all(trial.behind is not None and trial.behind >= 0 for trial in tuned.trials)
    assert tuned.ties == sum(trial.ties for trial in tuned.trials) - 1
    expected = applied(CLD(), tuned.best_parameters).fit(*SCENE)
    np.testing.assert_array_equal(tuned.estimator.predict(SCENE.data), expected.predict(SCENE.data))
    seen = tuned.estimator.ranker_.saw(SCENE.data.query_ids)  # those that trials were judged by included
    np.testing.assert_array_equal(seen, SCENE.clicks.query_impressions > 0)


def test_slopes_and_bases_correct_what_trials_are_judged_by(tmp_path: Path) -> None:
    data, clicks, rho = SCENE
    plain = tune(AffineIPS(), data, clicks, AffineClicks.from_propensities(rho), trials=3, folder=tmp_path)
    assert facts(plain) == facts(tune(IPS(), *SCENE, trials=3))
    with pytest.raises(UsageError, match="differ in the propensities"):
        tune(AffineIPS(), data, clicks, AffineClicks(rho.values, np.full(3, 0.01)), trials=3, folder=tmp_path)
    with pytest.warns(CldrankWarning, match="never shown, and are left out"):  # of the last fit alone
        assert len(tune(PolicyAwareIPS(), *SCENE, trials=2).trials) == 2


def test_networks_that_fall_behind_are_given_up() -> None:
    space: Space = {"learning_rate": [1e-7, 0.01, 0.02, 0.03], "l2": Range(1e-3, 1e-2, log=True)}
    model = CLDPair(model=MLP(hidden=(8,), epochs=6, validation=0.3, batch_queries=16))
    tuned = tune(model, *scene(0, queries=120), space, trials=12)
    pruned = [trial for trial in tuned.trials if trial.state == "pruned"]
    assert 1e-7 in [trial.parameters["learning_rate"] for trial in pruned]
    assert all(trial.value is None and trial.number >= 5 for trial in pruned)
    assert tuned.best_parameters["learning_rate"] != 1e-7


def test_a_repeated_trial_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fits = []
    whole = IPS.fit

    def counted(self: IPS, *given: Any) -> IPS:
        fits.append(self.get_params()["model__l2"])
        return whole(self, *given)

    monkeypatch.setattr(IPS, "fit", counted)
    tuned = tune(IPS(), *SCENE, {"l2": [0.001, 0.01]}, trials=6)
    assert len(tuned.trials) == 6
    assert len(fits) == 3  # two values, and the last fit
    assert len({(trial.parameters["l2"], trial.value) for trial in tuned.trials}) == 2


def test_trials_that_fail_are_counted_and_told() -> None:
    space: Space = {"learning_rate": [1e30, 2e-3], "epochs": [1, 2, 3]}
    tuned = tune(SMALL, *SCENE, space, trials=10)
    failed = [trial for trial in tuned.trials if trial.state == "failed"]
    assert failed
    assert all("not finite" in trial.note for trial in failed)
    assert tuned.best_parameters["learning_rate"] == 2e-3
    with pytest.raises(DataError, match="no trial was completed: CLD-pair met numbers that are not finite"):
        tune(SMALL, *SCENE, {"learning_rate": [1e30]}, trials=2)


def test_what_processes_are_given_and_what_they_say() -> None:
    run = Run(on_epoch=print, checkpoint="state", seed=3)
    assert search._portable(CLDPair(run=run)).get_params(deep=False)["run"].get_params() == Run(seed=3).get_params()
    with pytest.raises(UsageError, match="`l2` must be a number"):
        tune(IPS(), *SCENE, {"l2": [-1.0]}, trials=2, jobs=2)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_what_a_killed_search_left_is_removed(tmp_path: Path, jobs: int) -> None:
    left, alive = tmp_path / ".search.abcd_123.part", tmp_path / ".search.abcd_456.part"
    for folder in (left, alive):
        folder.mkdir()
        (folder / "arrays").write_bytes(bytes(1000))
    handle = os.open(alive, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)  # as a search under way in another process
    tune(IPS(), *SCENE, trials=1, folder=tmp_path, jobs=jobs)
    os.close(handle)
    assert {path.name for path in tmp_path.iterdir()} == {"trials.log", alive.name}


def test_what_is_refused(tmp_path: Path) -> None:
    for error, message, options in (
        (UsageError, "give clicks", {"clicks": None}),
        (UsageError, "`propensities`", {"propensities": None}),
        (UsageError, "`trials`", {"trials": 0}),
        (UsageError, "`hold_out`", {"hold_out": 0}),
        (UsageError, "`validation`", {"validation": 1}),
    ):
        given: dict[str, Any] = {"clicks": SCENE.clicks, "propensities": SCENE.propensities, "trials": 1, **options}
        with pytest.raises(error, match=message):
            tune(Naive(), SCENE.data, **given)
    tune(IPS(), *SCENE, trials=1, folder=tmp_path)
    for message, changed, other in (
        ("differ in the method", Naive(), SCENE),
        (r"differ in the method \(IPS\(\)\)", IPS(clip=0.4), SCENE),
        ("differ in the dataset", IPS(), scene(1, queries=60)),
    ):
        with pytest.raises(UsageError, match=message):
            tune(changed, *other, trials=1, folder=tmp_path)
    fewer = SCENE._replace(clicks=SCENE.clicks.where(SCENE.clicks.position < 3))
    flatter = SCENE._replace(propensities=Propensities.power(0.5, len(SCENE.propensities)))
    settings: dict[str, Any]
    for name, other, settings in (
        ("seed", SCENE, {"seed": 1}),
        ("validation", SCENE, {"validation": 0.4}),
        ("space", SCENE, {"space": {"l2": [0.1, 0.2]}}),
        ("clicks", fewer, {}),
        ("propensities", flatter, {}),
    ):
        with pytest.raises(UsageError, match=f"differ in the {name}"):
            tune(IPS(), *other, **settings, trials=1, folder=tmp_path)


def test_a_value_out_of_bounds_is_refused_before_any_trial() -> None:
    told: list[int] = []
    with pytest.raises(UsageError, match="`clip`"):
        tune(IPS(), *SCENE, {"clip": [0.5, 7.0]}, trials=20, on_trial=lambda number, _: told.append(number))
    assert not told


def test_what_is_held_out_is_seen_by_nobody() -> None:
    data, clicks, rho = SCENE
    held = held_out(data.query_ids, 0.3)
    tuned = tune(IPS(), *SCENE, trials=2, hold_out=0.3)
    assert facts(tuned) == facts(tune(IPS(), data[~held], clicks[~held], rho, trials=2))
    np.testing.assert_array_equal(tuned.estimator.ranker_.saw(data.query_ids), ~held & (clicks.query_impressions > 0))
    assert tuned.as_dict()["hold_out"] == {"share": 0.3, "queries": held.sum(), "of_queries": 60}


def test_one_search_at_a_time_has_a_folder(tmp_path: Path) -> None:
    tune(IPS(), *SCENE, trials=1, folder=tmp_path)
    with holding(tmp_path), pytest.raises(UsageError, match="another process is tuning in"):
        tune(IPS(), *SCENE, trials=2, folder=tmp_path)
    assert len(tune(IPS(), *SCENE, trials=2, folder=tmp_path).trials) == 2


def test_the_folder_of_a_ranker_is_left_alone(tmp_path: Path) -> None:
    IPS().fit(*SCENE).ranker_.save(tmp_path / "ranker")
    before = {path.name for path in (tmp_path / "ranker").iterdir()}
    with pytest.raises(UsageError, match="ranker holds a ranker; name another folder"):
        tune(IPS(), *SCENE, trials=1, folder=tmp_path / "ranker")
    assert {path.name for path in (tmp_path / "ranker").iterdir()} == before


class Deadly(IPS):
    """Ends a process that is not the first, with one of its parameters."""

    def fit(self, *given: Any) -> Deadly:
        if self.get_params()["model__l2"] == 0.1 and multiprocessing.parent_process():
            os._exit(3)
        return super().fit(*given)


@pytest.mark.slow
def test_a_process_that_dies_costs_its_trial_alone(tmp_path: Path) -> None:
    given: dict[str, Any] = {"space": {"l2": [0.001, 0.01, 0.1]}, "trials": 6, "folder": tmp_path}
    with pytest.raises(CldrankError, match=r"exited with code 3\. The finished trials are in .* continues"):
        tune(Deadly(), *SCENE, **given, jobs=2)
    assert [trial.number for trial in tune(Deadly(), *SCENE, **given).trials] == list(range(6))


def test_no_trial_learns_from_what_it_is_judged_by() -> None:
    learned, judge = split_clicks(*SCENE, 0.25, 3)
    queries = set(SCENE.data.row_queries[learned.row])
    held = set(judge._dataset.query_ids)
    displayed = np.flatnonzero(SCENE.clicks.query_impressions)
    assert not held & {SCENE.data.query_ids[query] for query in queries}
    assert len(queries) + len(held) == len(displayed)
    assert len(held) == pytest.approx(0.25 * len(displayed), abs=1)


def drawn_trials(
    seed: int, trials: int, queries: int = 60, better: float = 0.0
) -> tuple[list[Trial], dict[int, Any], Any]:
    """Trials that differ by chance alone, all but the last, which is ahead of them by `better`."""
    random = np.random.default_rng(seed)
    common = random.random(queries)
    gains = {trial: common + 0.3 * random.standard_normal(queries) for trial in range(trials)}
    gains[trials - 1] += better
    weight = np.ones(queries)
    made = [Trial(trial, {"l2": trial}, "completed", mean_of(own, weight).value) for trial, own in gains.items()]
    return made, gains, weight


def test_the_best_is_told_from_others_only_where_it_is_ahead_of_them_by_more_than_chance() -> None:
    trials, gains, weight = drawn_trials(2, 5, better=0.5)
    leads = leads_of(trials, gains.__getitem__, weight)
    assert [lead.name for lead in leads] == ["the runner-up", "the default"]
    assert all(lead.is_told for lead in leads)
    second, default = best_first(trials)[1], trials[0]
    assert [lead.trial for lead in leads] == [second.number, default.number]
    assert leads[0].interval.estimate == pytest.approx((trials[4].value or 0) - (second.value or 0))
    assert leads[0].interval.low < leads[0].interval.estimate < leads[0].interval.high
    assert leads_of(trials, gains.__getitem__, weight) == leads
    assert leads_of(trials[:1], gains.__getitem__, weight) == ()
    twice = [trials[4], Trial(9, trials[4].parameters, "completed", trials[4].value)]  # the same parameters again
    assert leads_of(twice, {4: gains[4], 9: gains[4]}.__getitem__, weight) == ()


@pytest.mark.slow
def test_of_trials_that_do_not_differ_the_best_is_hardly_ever_told_from_the_default() -> None:
    told = 0
    for seed in range(100):
        trials, gains, weight = drawn_trials(seed, 8)
        told += any(lead.is_told for lead in leads_of(trials, gains.__getitem__, weight) if lead.trial == 0)
    assert told <= 17  # of 100, where 10% are allowed; without the choice among eight it would be about 30


def test_a_tuning_says_whether_its_best_is_told_from_the_default() -> None:
    tuned = tune(IPS(), *SCENE, {"l2": [0.001, 0.01]}, trials=4)
    assert tuned.as_dict()["leads"][0]["trial"] == tuned.leads[0].trial
    assert "held-out clicks" in tuned.told_apart
    lead = replace(tuned.leads[0], name="the runner-up", interval=Interval(0.1, 0.05, 0.15, 0.9, 9))
    other = replace(lead, name="the default", interval=Interval(0.1, -0.05, 0.25, 0.9, 9))
    both = replace(tuned, leads=(lead, other)).told_apart
    assert both.endswith("held-out clicks tell it from the runner-up and cannot tell it from the default")
    assert replace(tuned, leads=()).told_apart == "no other trial to tell the best from"
