from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiny_logs import TinyLog, relevance_of

import cldrank as cr
from cldrank.clicks.table import ClickTable
from cldrank.evaluation.exposure import LoggedClicks
from cldrank.evaluation.off_policy import off_policy_relevance
from cldrank.propensity import AffineClicks, Propensities

RHO = Propensities.power(1, 3)
TRUST = AffineClicks(np.array([0.8, 0.5, 0.3]), np.array([0.1, 0.05, 0.02]))
Floats = np.ndarray[Any, np.dtype[np.float64]]


def guesses(tiny: TinyLog) -> Floats:
    return np.random.default_rng(7).random(len(tiny.candidates))


# -- formulas ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("with_model", [False, True])
def test_what_positions_bring_anyway_is_subtracted(with_model: bool, ragged: bool) -> None:
    tiny = TinyLog.drawn(seed=6, ragged=ragged)
    log, model = tiny.log(TRUST), guesses(tiny) if with_model else None
    expected = tiny.array(relevance_of(tiny, TRUST.slope.tolist(), TRUST.base.tolist()))
    found = off_policy_relevance(log, model)
    assert found[log.seen] == pytest.approx(expected[log.seen])
    assert found[~log.seen] == pytest.approx(0.0 if model is None else model[~log.seen])
    assert (~log.seen).any()


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
    by_examination = expected_log(Propensities(rho), rho, np.zeros(3), relevance)
    with_trust = expected_log(TRUST, TRUST.slope, TRUST.base, relevance)
    for log in (by_examination, with_trust):
        for model in (None, np.full(3, 0.4)):
            assert off_policy_relevance(log, model) == pytest.approx(relevance)


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
    for found in (off_policy_relevance(log), off_policy_relevance(log, wrong)):
        off, error = bias(found)
        assert np.abs(off / error).max() < 4
    off, error = bias(off_policy_relevance(LoggedClicks(log.data, log.clicks.with_display(None), log.curve), wrong))
    assert off[2] > 8 * error[2]  # without them, what was not shown is what the wrong model says


def test_doubly_robust_needs_only_one_of_model_and_display_probabilities() -> None:
    log = policy_log(1, DISPLAY)
    mistaken = policy_log(1, np.array([[0.4, 0.6], [0.6, 0.3], [0.0, 0.7]]))
    right, wrong = np.tile(TRUTH, REPEATED), np.full(3 * REPEATED, 0.9)
    for good, model in ((log, wrong), (mistaken, right)):
        off, error = bias(off_policy_relevance(good, model))
        assert np.abs(off / error).max() < 4
    off, error = bias(off_policy_relevance(mistaken, wrong))
    assert np.abs(off / error).max() > 8
