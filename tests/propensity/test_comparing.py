"""All estimators on one log: what each finds, how far they agree, and which one is chosen."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.clicks.table import ClickTable
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
    compare_estimators,
    estimators,
)
from cldrank.propensity.comparing import all_requirements, fitted_segments


def test_all_that_apply_and_why_the_others_do_not(world: Any) -> None:
    found = compare_estimators(world.two_rankers())
    assert {"all-pairs", "adjacent-chain", "click-through"} <= set(found.estimates)
    assert "random order" in found.refusals["randomised"]
    verdicts = {(entry.first, entry.second): entry.verdict == "agree" for entry in found.agreements}
    assert verdicts["all-pairs", "adjacent-chain"]
    assert not verdicts["all-pairs", "click-through"]
    text = str(found)
    assert all(name in text for name in found.estimates)
    assert "envelope, at least" in text
    assert "refused  randomised: needs pages in random order" in text
    assert "disagree" in text


def test_requirements_say_what_compare_would_find(world: Any) -> None:
    for log in (world.two_rankers(), world.log(), world.shuffled()):
        compared = compare_estimators(log)
        for kind in estimators().values():
            if kind.needs == "cells":
                assert kind().requirements(log).met == (kind.name in compared.estimates)


def test_estimates_of_one_log_are_compared_replicate_by_replicate(world: Any) -> None:
    log = world.two_rankers()
    one, two = AllPairs().fit(log), AdjacentChain().fit(log)
    paired = agreement({"one": one, "two": two})[0]
    apart = agreement({"one": replace(one, replicates=None), "two": two})[0]
    assert abs(paired.score) >= abs(apart.score)  # sharing a log, they differ by less


def test_the_same_estimate_agrees_with_itself(world: Any) -> None:
    rho = Randomised().fit(world.shuffled())
    found = agreement({"a": rho, "b": rho})[0]
    assert found.verdict == "agree"
    assert found.score == 0


def test_a_given_curve_has_no_error_of_its_own(world: Any) -> None:
    rho = Randomised().fit(world.shuffled())
    found = agreement({"estimated": rho, "true": Propensities.power(1, 5), "wrong": Propensities.power(0.5, 5)})
    assert [entry.verdict == "agree" for entry in found] == [True, False, False]


def test_an_estimate_without_errors_cannot_be_compared() -> None:
    rho = Propensities(np.array([1, 0.5]), method="other")
    with pytest.raises(CldrankError, match="the errors of a are unknown"):
        agreement({"a": rho, "b": rho})


def test_with_a_dataset_relevance_is_modelled_too(logistic: Any) -> None:
    data, clicks = logistic(1.5, queries=80)
    assert not RegressionEM().requirements(clicks).met
    met = [need.estimator for need in all_requirements(clicks, data) if need.met]
    assert met == ["envelope", "regression-em", "dual-learning", "click-through"]
    few = {"regression-em": RegressionEM(), "all-pairs": AllPairs(), "click-through": ClickThrough()}
    found = compare_estimators(clicks, few, data)  # warns of nothing: the table says it
    assert list(found.estimates) == ["regression-em", "click-through"]
    assert "regression-em: relevance and position are confounded" in str(found)
    assert found.agreements[0].verdict == "disagree"
    assert "needs the features" in compare_estimators(clicks, few).refusals["regression-em"]
    with pytest.raises(CldrankError, match="no estimators to compare\\."):
        compare_estimators(clicks, {})


def test_curves_are_checked_against_a_bound_and_do_not_agree_with_it(world: Any) -> None:
    few = {"all-pairs": AllPairs(), "envelope": Envelope(), "click-through": ClickThrough()}
    found = compare_estimators(world.two_rankers(), few)
    curves = [(entry.first, entry.second) for entry in found.agreements if not entry.bound]
    assert curves == [("all-pairs", "click-through")]
    below = {entry.first: entry.below for entry in found.agreements if entry.bound}
    assert below == {"all-pairs": (), "click-through": (2, 3, 4, 5)}
    assert "click-through lies below the lower bound of envelope at positions 2, 3, 4 and 5" in str(found)
    assert "all-pairs lies above the lower bound of envelope" in str(found)


def test_a_given_curve_below_a_bound_without_error() -> None:
    bound = Propensities(np.array([1, 0.4, 0.3]), method="b", covariance=np.zeros((3, 3)), bound=True)
    (found,) = agreement({"b": bound, "given": Propensities(np.array([1, 0.5, 0.2]))})
    assert (found.first, found.below) == ("given", (3,))


@pytest.mark.parametrize(
    ("second", "error", "verdict"),
    [
        (0.5, 0.2, "agree"),
        (0.9, 0.2, "disagree"),
        (1.0, 0.22, "disagree"),
        (0.9, 0.5, "unclear"),
        (0.52, 0.01, "disagree"),
    ],
)
def test_the_verdict_follows_the_numbers(second: float, error: float, verdict: str) -> None:
    """Twice as much and three errors apart is not called agreement, even of ten positions."""
    values = np.full(10, 0.5)
    values[0] = 1
    errors = np.diag([0.0, *[error**2 / 2] * 9])
    one = Propensities(values, method="a", covariance=errors)
    other = Propensities(np.array([1, second, *values[2:]]), method="b", covariance=errors)
    (pair,) = agreement({"a": one, "b": other})
    assert pair.verdict == verdict


# -- choosing ---------------------------------------------------------------------------------------------------------


def on_every_position(rho: list[float], name: str, seed: int = 0) -> ClickTable:
    """The log of a segment that showed each of 60 results as often at every position."""
    random, size = np.random.default_rng(seed), len(rho)
    data = cr.RankingDataset.from_arrays(np.zeros((60, 1)), np.arange(60) // 6)
    relevance = np.tile(random.choice([0.5, 0.95], 60), size)
    position = np.repeat(np.arange(1, size + 1), 60)
    return ClickTable.from_arrays(
        data,
        row=np.tile(np.arange(60), size),
        position=position,
        impressions=np.full(60 * size, 2000),
        clicks=random.binomial(2000, relevance * np.array(rho)[position - 1]),
        segment=[name] * 60 * size,
    )


def test_segments_are_clipped_and_one_position_is_certain() -> None:
    table = on_every_position([1, 0.5, 0.33], "desktop").merge(on_every_position([1], "watch", 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fitted_segments(AllPairs(), table, clip=0.4)
    assert found["watch"].values.tolist() == [1]
    assert found["desktop"].values[2] == pytest.approx(0.4)
