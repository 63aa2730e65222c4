from __future__ import annotations

import json
from typing import Any

import pytest

from cldrank.evaluation.click_results import (
    ClickComparison,
    NeverShown,
    PermutationCheck,
    SensitivityCheck,
    Support,
    WayToSettle,
)
from cldrank.evaluation.decision_rule import ClickVerdict
from cldrank.evaluation.intervals import ClickEstimate, Errors, MeasuredPair
from cldrank.measures import Interval
from cldrank.propensity.behaviour import AfterClick, Behaviour


def interval(estimate: float, low: float, high: float) -> Interval:
    return Interval(estimate, low, high, 0.9, 50)


def estimate(value: float) -> ClickEstimate:
    """Bounds wider than the interval, and all ends different."""
    return ClickEstimate(
        interval(value, value - 0.1, value + 0.2),
        interval(value - 0.3, value - 0.4, value - 0.2),
        interval(value + 0.5, value + 0.4, value + 0.6),
        Errors(0.04, 0.03, 0.02, 0.01),
    )


def pair(name: str = "DCG@5") -> MeasuredPair:
    return MeasuredPair(name, estimate(2.0), estimate(1.5), estimate(0.5))


def test_a_comparison_is_asked_by_measure() -> None:
    assert comparison()["Clicks@5"].difference == comparison()["clicks@5"].difference == estimate(0.5)
    assert list(comparison()) == ["DCG@5", "Clicks@5"]
    assert "DCG@5" in comparison()
    assert "AP" not in comparison()
    with pytest.raises(KeyError, match=r"AP; there are DCG@5, Clicks@5"):
        comparison()["AP"]


def comparison(**changes: Any) -> ClickComparison:
    parts: dict[str, Any] = {
        "data": "toy",
        "synthetic": True,
        "new": "trees",
        "old": "production",
        "estimator": "doubly robust",
        "curve": "power law, eta 1",
        "curve_is_estimated": False,
        "measures": {"DCG@5": pair(), "Clicks@5": pair("Clicks@5")},
        "support": Support(5, 50, 1000, 5000, 700, 0.8, 1.0, 321.5),
        "never_shown": NeverShown(
            12, 0.4, interval(0.2, 0.1, 0.3), interval(0.4, 0.3, 0.5), 0.3, interval(0.3, 0.2, 0.4)
        ),
        "checks": (SensitivityCheck("η + 0.5", interval(0.4, 0.1, 0.7), "better"),),
        "permutation_check": PermutationCheck(interval(-0.1, -0.2, 0.0), passed=True),
        "verdict": ClickVerdict("better", 0.015, "DCG@5 differs.", depends_on_never_shown=True),
        "behaviour": Behaviour("stop", 0.001, AfterClick(0, 0, 0.02, 0.01, 0.04)),
        "settling": (WayToSettle("A/B test", 4000, "half of the pages"), WayToSettle("swaps", None, "cannot")),
        "left_out": 3,
    }
    return ClickComparison(**parts | changes)


def test_everything_is_in_the_dictionary() -> None:
    found = comparison().as_dict()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found["verdict"], found["decision"], found["margin"]) == ("better", "better", 0.015)
    assert (found["new"], found["old"], found["data"], found["synthetic"]) == ("trees", "production", "toy", True)
    assert found["behaviour"] == {"looks": "stop", "p_value": 0.001, "below_clicks": [0.02, 0.01, 0.04]}
    first = found["measures"]["DCG@5"]
    assert [first[name] for name in ("new", "old", "difference", "low", "high")] == pytest.approx(
        [2.0, 1.5, 0.5, 0.4, 0.7]
    )
    assert (first["lowest"], first["highest"]) == pytest.approx((0.1, 1.1))
    assert first["new_interval"] == pytest.approx([1.9, 2.2])
    assert first["old_interval"] == pytest.approx([1.4, 1.7])
    assert first["errors"] == {"queries": 0.04, "propensities": 0.03, "model": 0.02, "extrapolation": 0.01}
    assert found["support"]["shown"] == 0.8
    assert found["never_shown"]["break_even"]["estimate"] == 0.2
    assert found["checks"][0]["name"] == "η + 0.5"
    assert found["permutation_check"]["passed"] is True
    assert [way["pages"] for way in found["settling"]] == [4000, None]
    assert (found["left_out"], found["depends_on_never_shown"], found["reason"]) == (3, True, "DCG@5 differs.")
