from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiny_logs import TinyLog, relevance_of

import cldrank as cr
from cldrank.clicks.table import ClickTable
from cldrank.errors import UsageError
from cldrank.evaluation.exposure import LoggedClicks, example_log
from cldrank.evaluation.off_policy import (
    ESTIMATORS,
    Affine,
    DoublyRobust,
    OffPolicy,
    off_policy,
)
from cldrank.propensity import AffineClicks, Propensities

RHO = Propensities.power(1, 3)
TRUST = AffineClicks(np.array([0.8, 0.5, 0.3]), np.array([0.1, 0.05, 0.02]))
Floats = np.ndarray[Any, np.dtype[np.float64]]


def guesses(tiny: TinyLog) -> Floats:
    return np.random.default_rng(7).random(len(tiny.candidates))


# -- formulas ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Affine, DoublyRobust])
def test_what_positions_bring_anyway_is_subtracted(kind: type[OffPolicy]) -> None:
    tiny = TinyLog.drawn(seed=6)
    log, model = tiny.log(TRUST), guesses(tiny)
    expected = tiny.array(relevance_of(tiny, TRUST.slope.tolist(), TRUST.base.tolist()))
    found = kind().relevance(log, model)
    assert found[log.seen] == pytest.approx(expected[log.seen])
    assert found[~log.seen] == pytest.approx(model[~log.seen] if kind is DoublyRobust else 0.0)


# -- what is known of them ---------------------------------------------------------------------------------------


def expected_log(curve: Propensities | AffineClicks, slope: Floats, base: Floats, relevance: Floats) -> LoggedClicks:
    """A log in which every candidate was at every position, and has the clicks that are expected there."""
    data = cr.RankingDataset.from_arrays(np.zeros((3, 1)), [1, 1, 1])
    row, place = np.divmod(np.arange(9), 3)
    clicks = 10_000 * (slope[place] * relevance[row] + base[place])
    assert clicks == pytest.approx(np.rint(clicks))
    cells: dict[str, Any] = {
        "row": row,
        "position": place + 1,
        "impressions": np.full(9, 10_000),
        "clicks": np.rint(clicks),
    }
    return LoggedClicks(data, ClickTable.from_arrays(data, **cells), curve)


def test_expected_clicks_give_relevance_exactly() -> None:
    relevance = np.array([0.9, 0.25, 0.0])
    rho = np.array([1.0, 0.5, 0.2])
    log = expected_log(Propensities(rho), rho, np.zeros(3), relevance)
    for name in ("ips", "affine", "doubly-robust"):
        assert off_policy(name).relevance(log, np.full(3, 0.4)) == pytest.approx(relevance), name
    log = expected_log(TRUST, TRUST.slope, TRUST.base, relevance)
    for kind in (Affine, DoublyRobust):
        assert kind().relevance(log, np.full(3, 0.4)) == pytest.approx(relevance)


REPEATED = 4000
TRUTH = np.array([0.8, 0.3, 0.5])
DISPLAY = np.array([[0.8, 0.2], [0.2, 0.5], [0.0, 0.3]])  # of the layouts below; the last candidate is seldom shown


def policy_log(seed: int, display: Floats) -> LoggedClicks:
    """Many queries alike, each a small log of its own: four pages by a policy, and their clicks."""
    random = np.random.default_rng(seed)
    layouts = np.array([[0, 1], [0, 2], [1, 0]])
    pages = random.multinomial(4, [0.5, 0.3, 0.2], size=REPEATED)
    data = cr.RankingDataset.from_arrays(np.zeros((3 * REPEATED, 1)), np.repeat(np.arange(REPEATED), 3))
    cells: dict[str, list[Any]] = {"row": [], "position": [], "impressions": [], "clicks": []}
    for shown, layout in zip(pages.T, layouts, strict=True):
        for place, one in enumerate(layout):
            cells["row"].append(np.arange(REPEATED) * 3 + one)
            cells["position"].append(np.full(REPEATED, place + 1))
            cells["impressions"].append(shown)
            cells["clicks"].append(random.binomial(shown, (1.0, 0.5)[place] * TRUTH[one]))
    joined: dict[str, Any] = {name: np.concatenate(parts) for name, parts in cells.items()}
    table = ClickTable.from_arrays(data, **joined)
    return LoggedClicks(data, table.with_display(np.tile(display, (REPEATED, 1))), Propensities.power(1, 2))


def bias(found: Floats) -> tuple[Floats, Floats]:
    """The mean error of each of the three candidates over all small logs, and its standard error."""
    errors = found.reshape(REPEATED, 3) - TRUTH
    return errors.mean(axis=0), errors.std(axis=0) / np.sqrt(REPEATED)


def test_with_display_probabilities_there_is_no_bias_even_for_what_was_not_shown() -> None:
    log = policy_log(0, DISPLAY)
    assert 0.02 < (~log.seen).mean() < 0.2
    wrong = np.full(3 * REPEATED, 0.9)
    for found in (Affine().relevance(log, None), DoublyRobust().relevance(log, wrong)):
        off, error = bias(found)
        assert np.abs(off / error).max() < 4
    off, error = bias(DoublyRobust().relevance(LoggedClicks(log.data, log.clicks.with_display(None), log.curve), wrong))
    assert off[2] > 8 * error[2]  # without them, what was not shown is what the wrong model says


def test_doubly_robust_needs_only_one_of_model_and_display_probabilities() -> None:
    log = policy_log(1, DISPLAY)
    mistaken = policy_log(1, np.array([[0.4, 0.6], [0.6, 0.3], [0.0, 0.7]]))
    right, wrong = np.tile(TRUTH, REPEATED), np.full(3 * REPEATED, 0.9)
    for good, model in ((log, wrong), (mistaken, right)):
        off, error = bias(DoublyRobust().relevance(good, model))
        assert np.abs(off / error).max() < 4
    off, error = bias(DoublyRobust().relevance(mistaken, wrong))
    assert np.abs(off / error).max() > 8


# -- contracts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ESTIMATORS)
class TestContract:
    def test_relevance_is_a_number_for_every_candidate(self, name: str) -> None:
        tiny = TinyLog.drawn(seed=8, ragged=True)
        log, model = tiny.log(RHO), guesses(tiny)
        found = off_policy(name).relevance(log, model)
        assert found.shape == (len(tiny.candidates),)
        assert np.isfinite(found).all()
        assert (found >= 0).all()
        unseen = model if off_policy(name).uses_model else np.zeros(len(model))
        assert found[~log.seen] == pytest.approx(unseen[~log.seen])
        assert (~log.seen).any()

    def test_a_model_is_asked_for_where_it_is_used(self, name: str) -> None:
        estimator = off_policy(name)
        if estimator.uses_model:
            with pytest.raises(UsageError, match=f"{estimator.label} needs a model of relevance"):
                estimator.relevance(example_log(), None)
        else:
            both = (estimator.relevance(example_log(), model) for model in (None, np.full(3, 0.5)))
            assert next(both).tolist() == next(both).tolist()

    def test_trust_is_understood_or_refused(self, name: str) -> None:
        tiny = TinyLog.drawn(seed=6)
        if name == "ips":
            with pytest.raises(UsageError, match="affine"):
                off_policy(name).relevance(tiny.log(TRUST), None)
        else:
            assert np.isfinite(off_policy(name).relevance(tiny.log(TRUST), guesses(tiny))).all()


@pytest.mark.parametrize("name", ["iqs", ["ips"]])
def test_unknown_names(name: Any) -> None:
    with pytest.raises(UsageError, match="no estimator .*ips"):
        off_policy(name)
