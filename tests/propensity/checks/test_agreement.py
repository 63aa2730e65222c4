from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cldrank.errors import CldrankError
from cldrank.propensity import (
    AdjacentChain,
    AllPairs,
    ClickThrough,
    Envelope,
    Propensities,
    Randomised,
    RegressionEM,
    agreement,
    applicable,
    compare_estimators,
)
from cldrank.propensity.checks.agreement import above_bounds


def test_all_that_apply_and_why_the_others_do_not(world: Any, tmp_path: Path) -> None:
    found = compare_estimators(world.two_rankers())
    assert {"AllPairs", "AdjacentChain", "ClickThrough"} <= set(found.estimates)
    assert "random order" in str(found.refusals["Randomised"])
    verdicts = {(entry.first, entry.second): entry.agree for entry in found.agreements}
    assert verdicts["AllPairs", "AdjacentChain"]
    assert not verdicts["AllPairs", "ClickThrough"]
    text = str(found)
    assert text.splitlines()[0].replace(", at least", "").split()[1:] == list(found.estimates)
    assert "Envelope, at least" in text
    assert "Randomised refuses: " in text
    assert "AllPairs and ClickThrough disagree" in text
    found.plot(tmp_path / "all.svg")
    assert "AdjacentChain, position 5" in (tmp_path / "all.svg").read_text()


def test_applicable_says_what_compare_would_find(world: Any) -> None:
    for log in (world.two_rankers(), world.log(), world.shuffled()):
        reasons = applicable(log)
        refusals = compare_estimators(log).refusals
        said = {name: str(refusal) for name, refusal in reasons.items() if refusal is not None}
        assert said == {name: str(refusal) for name, refusal in refusals.items()}


def test_estimates_of_one_log_are_compared_replicate_by_replicate(world: Any) -> None:
    log = world.two_rankers()
    one, two = AllPairs().fit(log), AdjacentChain().fit(log)
    paired = agreement({"one": one, "two": two})[0]
    apart = agreement({"one": replace(one, replicates=None), "two": two})[0]
    assert paired.paired
    assert not apart.paired
    assert (np.abs(paired.scores[1:]) >= np.abs(apart.scores[1:])).all()  # sharing a log, they differ by less


def test_the_same_estimate_agrees_with_itself(world: Any) -> None:
    rho = Randomised().fit(world.shuffled())
    found = agreement({"a": rho, "b": rho})[0]
    assert found.agree
    assert not found.scores.any()


def test_a_given_curve_has_no_error_of_its_own(world: Any) -> None:
    rho = Randomised().fit(world.shuffled())
    found = agreement({"estimated": rho, "true": Propensities.power(1, 5), "wrong": Propensities.power(0.5, 5)})
    assert [entry.agree for entry in found] == [True, False, False]


def test_an_estimate_without_errors_cannot_be_compared() -> None:
    rho = Propensities(np.array([1, 0.5]), method="other")
    with pytest.raises(CldrankError, match="the errors of a are unknown"):
        agreement({"a": rho, "b": rho})


def test_with_a_dataset_relevance_is_modelled_too(logistic: Any) -> None:
    data, clicks = logistic(1.5, queries=80)
    assert "RegressionEM" not in applicable(clicks)
    reasons = applicable(clicks, dataset=data)
    assert [name for name, reason in reasons.items() if reason is None] == [
        "Envelope",
        "RegressionEM",
        "DualLearning",
        "ClickThrough",
    ]
    few = {"RegressionEM": RegressionEM(), "AllPairs": AllPairs(), "ClickThrough": ClickThrough()}
    found = compare_estimators(clicks, few, data)  # warns of nothing: the table says it
    assert list(found.estimates) == ["RegressionEM", "ClickThrough"]
    assert "RegressionEM: relevance and position are confounded" in str(found)
    assert "RegressionEM and ClickThrough disagree" in str(found)
    assert found.agreements[0].paired
    assert "needs the features" in str(compare_estimators(clicks, few).refusals["RegressionEM"])
    with pytest.raises(CldrankError, match="no estimators"):
        applicable(clicks, {})


def test_curves_are_checked_against_a_bound_and_do_not_agree_with_it(world: Any) -> None:
    few = {"AllPairs": AllPairs(), "Envelope": Envelope(), "ClickThrough": ClickThrough()}
    found = compare_estimators(world.two_rankers(), few)
    assert [(entry.first, entry.second) for entry in found.agreements] == [("AllPairs", "ClickThrough")]
    below = {entry.curve: entry.below for entry in found.bounds}
    assert below == {"AllPairs": (), "ClickThrough": (2, 3, 4, 5)}
    assert "ClickThrough lies below the lower bound of Envelope at positions 2, 3, 4 and 5" in str(found)
    assert "AllPairs lies above the lower bound of Envelope" in str(found)


def test_a_given_curve_below_a_bound_without_error() -> None:
    bound = Propensities(np.array([1, 0.4, 0.3]), method="b", covariance=np.zeros((3, 3)), bound=True)
    (found,) = above_bounds({"b": bound, "given": Propensities(np.array([1, 0.5, 0.2]))})
    assert (found.curve, found.below) == ("given", (3,))
