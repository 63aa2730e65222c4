from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cldrank.clicks.simulate import Cascade, ClickModel, DependentClicks, FirstSwaps, PositionBased, TrustBiased
from cldrank.errors import UsageError

MODELS: list[ClickModel] = [
    PositionBased(eta=1, noise=0.1),
    TrustBiased(eta=2, epsilon_plus=(0.9, 0.8, 0.7), epsilon_minus=0.3),
    Cascade(noise=0.2),
    DependentClicks(noise=0.2, continuation=0.6),
    DependentClicks(noise=0.1, continuation=(1.0, 0.5, 0.0)),
]
PAGES = np.array(list(itertools.product([False, True], repeat=3)))
every_model = pytest.mark.parametrize("model", MODELS, ids=repr)


def page_probabilities(model: ClickModel, relevant: NDArray[np.bool_]) -> dict[tuple[bool, ...], float]:
    """P(clicks) of one page, by walking through all that can happen on it."""
    probabilities: dict[tuple[bool, ...], float] = {}
    irrelevant, attractive = model.attraction(len(relevant))
    for clicks in itertools.product([False, True], repeat=len(relevant)):
        reading, stopped = 1.0, 0.0  # P(these clicks so far, and still reading) and (…, and stopped)
        for k, clicked in enumerate(clicks):
            attraction = attractive[k] if relevant[k] else irrelevant[k]
            if isinstance(model, PositionBased | TrustBiased):
                attraction /= (k + 1) ** model.eta
                reading *= attraction if clicked else 1 - attraction
                continue
            going_on = model.continuations(len(relevant))[k]  # type: ignore[attr-defined]
            if clicked:
                reading, stopped = reading * attraction * going_on, reading * attraction * (1 - going_on)
            else:
                reading *= 1 - attraction
        probabilities[clicks] = reading + stopped
    return probabilities


@every_model
def test_pages_are_clicked_as_the_equations_say(model: ClickModel) -> None:
    random = np.random.default_rng(0)
    drawn = 20_000
    for relevant in PAGES:
        clicked = model.draw(np.tile(relevant, (drawn, 1)), random)
        for clicks, probability in page_probabilities(model, relevant).items():
            seen = int((clicked == clicks).all(axis=1).sum())
            assert abs(seen - drawn * probability) <= 4.5 * np.sqrt(drawn * probability * (1 - probability)) + 1e-9


@every_model
def test_click_probability_is_the_margin(model: ClickModel) -> None:
    for relevant, margin in zip(PAGES, model.click_probability(PAGES), strict=True):
        pages = page_probabilities(model, relevant)
        assert sum(pages.values()) == pytest.approx(1)
        expected = sum(np.array(clicks) * probability for clicks, probability in pages.items())
        np.testing.assert_allclose(margin, expected, atol=1e-12)


@every_model
def test_counts_have_the_moments_of_sums(model: ClickModel) -> None:
    sessions = np.full(len(PAGES), 30)
    repeats = 1_500
    random = np.random.default_rng(1)
    counts = model.draw_counts(np.tile(PAGES, (repeats, 1)), np.tile(sessions, repeats), random)
    for index, relevant in enumerate(PAGES):
        drawn = counts[index :: len(PAGES)].astype(float)
        pages = page_probabilities(model, relevant)
        outcomes, chances = np.array(list(pages), dtype=float), np.array(list(pages.values()))
        mean = 30 * chances @ outcomes
        covariance = 30 * ((outcomes.T * chances) @ outcomes - np.outer(mean, mean) / 900)
        spread = np.sqrt(np.maximum(np.diag(covariance), 0))
        assert (np.abs(drawn.mean(axis=0) - mean) <= 4.5 * spread / np.sqrt(repeats) + 1e-9).all()
        tolerance = 6 * np.outer(spread, spread) / np.sqrt(repeats)  # of a covariance, near normality
        assert (np.abs(np.cov(drawn.T) - covariance) <= tolerance + 1e-9).all()


@every_model
def test_the_top_is_always_examined(model: ClickModel) -> None:
    assert (model.examination(PAGES)[:, 0] == 1).all()
    assert (np.diff(model.examination(PAGES), axis=1) <= 0).all()


@pytest.mark.parametrize(
    ("build", "arguments", "complaint"),
    [
        (PositionBased, {"eta": -0.1}, "eta.*-0.1"),
        (PositionBased, {"noise": 1.1}, "noise.*1.1"),
        (DependentClicks, {"continuation": ()}, "continuation.* is empty"),
        (TrustBiased, {"epsilon_minus": (0.5, np.nan)}, r"epsilon_minus.*\(0.5, nan\)"),
    ],
)
def test_impossible_parameters_are_refused(build: Any, arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        build(**arguments)


def test_too_few_numbers_for_the_page_are_refused() -> None:
    with pytest.raises(UsageError, match="continuation.* has 2 entries"):
        DependentClicks(continuation=(0.5, 0.5)).check(3)
    with pytest.raises(UsageError, match="epsilon_plus.* has 2 entries"):
        TrustBiased(epsilon_plus=(0.5, 0.5)).check(5)


def test_numbers_are_kept_as_python_has_them() -> None:
    assert PositionBased(eta=np.float64(2)).describe() == {"name": "pbm", "eta": 2.0, "noise": 0.1}
    assert isinstance(PositionBased(eta=2).eta, float)
    assert DependentClicks(continuation=np.array([1, 0.5])).continuation == (1.0, 0.5)  # type: ignore[arg-type]
    assert FirstSwaps(positions=[3, 2]).positions == (3, 2)  # type: ignore[arg-type]
