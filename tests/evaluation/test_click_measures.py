from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cldrank.errors import UsageError
from cldrank.evaluation.click_measures import ClickMeasure, parse_click_measures
from cldrank.measures import parse
from cldrank.propensity import AffineClicks

CURVE = AffineClicks(np.array([0.9, 0.6, 0.3]), np.array([0.2, 0.1, 0.05]))


@pytest.mark.parametrize(
    ("cutoff", "longest", "slope", "base"),
    [
        (2, 4, [0.9, 0.6, 0, 0], [0.2, 0.1, 0, 0]),
        (3, 2, [0.9, 0.6], [0.2, 0.1]),
        (5, 5, [0.9, 0.6, 0.3, 0, 0], [0.2, 0.1, 0.05, 0, 0]),
    ],
)
def test_clicks_have_the_slopes_and_bases_of_the_curve(
    cutoff: int, longest: int, slope: list[float], base: list[float]
) -> None:
    measure = ClickMeasure("Clicks", cutoff)
    assert measure.discounts(longest, CURVE).tolist() == slope
    assert measure.bases(longest, CURVE).tolist() == base


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("dcg@3, clicks", ["DCG@3", "Clicks@5"]),
        ("DCG Clicks;DCG@1", ["DCG@5", "Clicks@5", "DCG@1"]),
        (["dcg@2 CLICKS@1", "DCG@2"], ["DCG@2", "Clicks@1"]),
        (parse("DCG@3"), ["DCG@3"]),
        (ClickMeasure("Clicks", 4), ["Clicks@4"]),
        (iter(["DCG@2", ClickMeasure("DCG", 2)]), ["DCG@2"]),
    ],
)
def test_names(given: Any, names: list[str]) -> None:
    assert [str(one) for one in parse_click_measures(given, 5)] == names


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("AP", "AP cannot"),
        ("nDCG@3", "nDCG@3: .* use DCG@k"),
        ("Clicks@6", "Clicks@6: .* from 1 to 5"),
        ("Clicks@0", "`cutoff`"),
        ("nDGC@3", "no measure"),
        ("", "no measure is named"),
        (5, "5 is not a measure"),
    ],
)
def test_refusals(given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_click_measures(given, 5)


def test_a_measure_is_one_of_two() -> None:
    with pytest.raises(UsageError, match="`kind`"):
        ClickMeasure("dcg", 3)


def test_an_unknown_measure_is_told_those_of_clicks() -> None:
    with pytest.raises(UsageError, match="'foo' .* DCG@k and Clicks@k") as refused:
        parse_click_measures("foo", 5)
    assert "RR" not in str(refused.value)
